// CUDA programs on GPUs and on the emulated device.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <mutex>

#include "cli/cuda_library.h"
#include "cli/errors.h"
#include "cli/status_line.h"
#include "driver/compile.h"
#include "ir/error.h"
#include "runtime/library_file.h"
#include "runtime/mapped_file.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

void* symbol(const ProgramFiles& program, const std::string& name) {
  // Opening again gives the same handle; nothing is ever closed, since threads of the device may still run.
  void* library = dlopen(std::filesystem::absolute(program.library).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* found = library ? dlsym(library, name.c_str()) : nullptr;
  if (!found) {
    const char* why = dlerror();
    ir::user_error(codegen::kNoProgram, {.file = program.library},
                   fmt::format("not a library of a CUDA program: {}", why ? why : name),
                   "compile the model again");
  }
  return found;
}

rt::MappedFile map_weights(const ProgramFiles& program, const std::string& name) {
  const std::string path = (std::filesystem::path(program.dir) / name).string();
  try {
    return rt::MappedFile(path);
  } catch (const rt::ProgramError& error) {
    ir::user_error(codegen::kNoProgram, {.file = path},
                   fmt::format("the program's weights: {}", error.what()), "compile the model again");
  }
}

// Shows how much of the weights has reached the devices.
class UploadLine {
 public:
  static void progress(void* self, std::uint64_t done, std::uint64_t total) {
    static_cast<UploadLine*>(self)->add(done, total);
  }

 private:
  static constexpr std::uint64_t kShownFrom = std::uint64_t{256} << 20;

  void add(std::uint64_t done, std::uint64_t total) {
    if (total < kShownFrom) return;
    const std::lock_guard lock(mutex_);
    if (done == total) {
      line_.clear();
    } else {
      line_.show(fmt::format("weights: {} of {} MiB on the device", done >> 20, total >> 20));
    }
  }
  std::mutex mutex_;
  StatusLine line_;
};

// The sizes of the dimensions, from the inputs of all ranks.
std::vector<std::int64_t> dims_of(const ProgramInterface& program,
                                  const std::vector<std::vector<ir::Tensor>>& inputs) {
  std::vector<std::int64_t> dims;
  for (const ProgramInterface::Dim& d : program.dims) dims.push_back(d.min);
  for (const std::vector<ir::Tensor>& rank : inputs) {
    for (std::size_t k = 0; k < rank.size(); ++k) {
      for (std::size_t d = 0; d < std::min(rank[k].sizes.size(), program.inputs[k].sizes.size()); ++d) {
        for (std::size_t n = 0; n < dims.size(); ++n) {
          if (program.inputs[k].sizes[d].dim == program.dims[n].name) dims[n] = rank[k].sizes[d];
        }
      }
    }
  }
  return dims;
}

}  // namespace

const BraidCudaProgram* load_cuda_program(const ProgramFiles& program) {
  rt::check_library(program.library, rt::SealNeed::required, program.id);
  const auto entry =
      reinterpret_cast<BraidCudaProgramFunction>(symbol(program, "braid_cuda_program_" + program.name));
  return entry();
}

decltype(&braid_cuda_host_run) load_host_run(const ProgramFiles& program) {
  return reinterpret_cast<decltype(&braid_cuda_host_run)>(symbol(program, "braid_cuda_host_run"));
}

std::string take_emulated_findings(const ProgramFiles& program) {
  using Findings = int (*)(char*, unsigned long, int);
  const auto findings = reinterpret_cast<Findings>(symbol(program, "braid_emulated_findings"));
  std::string text(1 << 16, '\0');
  if (findings(text.data(), text.size(), 1) == 0) return {};
  text.resize(std::strlen(text.c_str()));
  return text;
}

std::vector<RankResult> execute_cuda(const ProgramFiles& files,
                                     const std::vector<std::vector<ir::Tensor>>& inputs,
                                     const ExecuteOptions& options) {
  const BraidCudaProgram& table = *load_cuda_program(files);
  const ProgramInterface program = interface_of(files);
  for (const std::vector<ir::Tensor>& rank : inputs) {
    if (rank.size() == program.inputs.size()) continue;
    ir::user_error(
        rt::kWrongInput, {.file = files.dir},
        fmt::format("{} inputs are given, but the program has {}", rank.size(), program.inputs.size()),
        "give every input of the model");
  }
  const std::vector<std::int64_t> dims = dims_of(program, inputs);
  std::size_t size_count = 0;
  for (const InputSpec& i : program.inputs) size_count += i.sizes.size();
  for (const ProgramInterface::Output& o : program.outputs) size_count += static_cast<std::size_t>(o.rank);
  std::vector<std::int64_t> sizes(size_count);
  program.sizes(dims.data(), sizes.data());

  // Inputs must have the sizes that follow from the dimensions.
  const std::int64_t* next = sizes.data();
  std::vector<std::vector<std::int64_t>> input_sizes, output_sizes;
  for (const InputSpec& i : program.inputs) {
    input_sizes.emplace_back(next, next + i.sizes.size());
    next += i.sizes.size();
  }
  for (const ProgramInterface::Output& o : program.outputs) {
    output_sizes.emplace_back(next, next + o.rank);
    next += o.rank;
  }
  const rt::MappedFile weights =
      table.weights_bytes > 0 ? map_weights(files, "weights.bin") : rt::MappedFile();
  std::vector<rt::MappedFile> rank_weights;
  std::vector<std::vector<const void*>> in(inputs.size());
  std::vector<std::vector<void*>> out(inputs.size());
  std::vector<BraidCudaHostRank> ranks;
  std::vector<RankResult> results(inputs.size());
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    results[r].rank = static_cast<int>(r);
    rank_weights.push_back(table.rank_weights_bytes > 0
                               ? map_weights(files, fmt::format("weights.rank{}.bin", r))
                               : rt::MappedFile());
  }
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    for (std::size_t k = 0; k < inputs[r].size(); ++k) {
      if (inputs[r][k].dtype != program.inputs[k].dtype || inputs[r][k].sizes != input_sizes[k]) {
        ir::user_error(rt::kWrongInput, {},
                       fmt::format("input '{}' of rank {} is {}[{}], expected {}[{}]", program.inputs[k].name,
                                   r, to_string(inputs[r][k].dtype), fmt::join(inputs[r][k].sizes, ", "),
                                   to_string(program.inputs[k].dtype), fmt::join(input_sizes[k], ", ")),
                       "give inputs with the model's types and consistent sizes");
      }
      in[r].push_back(inputs[r][k].bytes.data());
    }
    for (std::size_t k = 0; k < program.outputs.size(); ++k) {
      results[r].outputs.push_back(ir::make_tensor(program.outputs[k].dtype, output_sizes[k]));
      out[r].push_back(results[r].outputs[k].bytes.data());
    }
    ranks.push_back(
        {in[r].data(), out[r].data(), rank_weights[r].bytes().data(), rank_weights[r].bytes().size()});
  }
  const int steps = options.warmup + options.repeat;
  std::vector<double> step_us(files.emulated ? 0 : static_cast<std::size_t>(steps) * ranks.size());
  BraidCudaHostRun run{};
  run.struct_size = sizeof run;
  run.program = &table;
  run.weights = weights.bytes().data();
  run.weights_bytes = weights.bytes().size();
  run.ranks = ranks.data();
  run.dims = dims.data();
  run.steps = steps;
  run.on_own_stream = 1;
  run.timeout_ms = -1;
  run.step_us = files.emulated ? nullptr : step_us.data();
  UploadLine upload;
  run.progress = &UploadLine::progress;
  run.progress_user = &upload;
  char message[4096] = "";
  const BraidStatus status = load_host_run(files)(&run, message, sizeof message);
  const std::string findings = files.emulated ? take_emulated_findings(files) : std::string();
  if (status != BRAID_OK || !findings.empty()) {
    ir::user_error(
        kRankFailed, {.file = files.dir},
        fmt::format("the program failed on the {}: {}{}{}", files.emulated ? "emulated device" : "GPU",
                    message, findings.empty() ? "" : "\n", findings));
  }
  for (std::size_t r = 0; r < results.size() && !step_us.empty(); ++r) {
    for (int step = options.warmup; step < steps; ++step) {
      results[r].step_ns.push_back(static_cast<std::int64_t>(
          step_us[r * static_cast<std::size_t>(steps) + static_cast<std::size_t>(step)] * 1e3));
    }
  }
  return results;
}

}  // namespace braid::cli
