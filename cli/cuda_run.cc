#include "cli/cuda_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "cli/errors.h"
#include "cli/status_line.h"
#include "codegen/manifest.h"
#include "ir/error.h"
#include "runtime/capacity.h"
#include "runtime/comm/settings.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

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

CudaRun::CudaRun(const ProgramFiles& files, const std::vector<std::vector<ir::Tensor>>& inputs,
                 const ExecuteOptions& options)
    : files_(files),
      options_(options),
      library_(open_cuda_library(files)),
      table_(library_.table()),
      program_(interface_of(files)),
      dims_(dims_of(program_, inputs)) {
  std::size_t size_count = 0;
  for (const InputSpec& i : program_.inputs) size_count += i.sizes.size();
  for (const ProgramInterface::Output& o : program_.outputs) size_count += static_cast<std::size_t>(o.rank);
  std::vector<std::int64_t> sizes(size_count);
  program_.sizes(dims_.data(), sizes.data());
  const std::int64_t* next = sizes.data();
  for (const InputSpec& i : program_.inputs) {
    input_sizes_.emplace_back(next, next + i.sizes.size());
    next += i.sizes.size();
  }
  for (const ProgramInterface::Output& o : program_.outputs) {
    output_sizes_.emplace_back(next, next + o.rank);
    next += o.rank;
  }
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    check_inputs(inputs[r], r);
    Memory memory;
    for (std::size_t k = 0; k < inputs[r].size(); ++k) {
      const ir::Tensor& tensor = inputs[r][k];
      memory.in.push_back(tensor.bytes.data());
      if (table_.inputs[k].capacities == nullptr) continue;
      // What a cache has beyond its elements is NaN in every float type.
      memory.inputs.emplace_back(rt::memory_bytes(table_.inputs[k], tensor.sizes), std::byte{0xff});
      memory.in.back() = memory.inputs.back().data();
      rt::to_memory(table_.inputs[k], tensor.sizes, tensor.bytes.data(), memory.inputs.back().data());
    }
    for (std::size_t k = 0; k < program_.outputs.size(); ++k) {
      memory.outputs.push_back(
          std::make_unique<SharedBytes>(rt::memory_bytes(table_.outputs[k], output_sizes_[k])));
      memory.out.push_back(memory.outputs.back()->data());
    }
    memory.step_us = std::make_unique<SharedBytes>(static_cast<std::size_t>(steps()) * sizeof(double));
    if (options_.profile)
      memory.node_costs = std::make_unique<SharedBytes>((cost_count() + 1) * sizeof(BraidCudaNodeCost));
    memory_.push_back(std::move(memory));
  }
}

BraidCudaNodeCost* CudaRun::node_costs(std::size_t rank) const {
  const auto& memory = memory_[rank].node_costs;
  return memory == nullptr ? nullptr : reinterpret_cast<BraidCudaNodeCost*>(memory->data());
}

// Inputs must have the sizes that follow from the dimensions.
void CudaRun::check_inputs(const std::vector<ir::Tensor>& inputs, std::size_t rank) const {
  if (inputs.size() != program_.inputs.size()) {
    ir::user_error(
        rt::kWrongInput, {.file = files_.shown},
        fmt::format("{} inputs are given, but the program has {}", inputs.size(), program_.inputs.size()),
        "give every input of the model");
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].dtype == program_.inputs[k].dtype && inputs[k].sizes == input_sizes_[k]) continue;
    ir::user_error(rt::kWrongInput, {},
                   fmt::format("input '{}' of rank {} is {}[{}], expected {}[{}]", program_.inputs[k].name,
                               rank, to_string(inputs[k].dtype), fmt::join(inputs[k].sizes, ", "),
                               to_string(program_.inputs[k].dtype), fmt::join(input_sizes_[k], ", ")),
                   "give inputs with the model's types and consistent sizes");
  }
}

std::string CudaRun::subject() const {
  std::string text = fmt::format("program '{}' (compilation {:016x})", table_.name, table_.compilation_id);
  for (std::size_t d = 0; d < dims_.size(); ++d)
    text += fmt::format("{}{}={}", d == 0 ? " with " : ", ", program_.dims[d].name, dims_[d]);
  return text + fmt::format(", {} step{}", steps(), steps() == 1 ? "" : "s");
}

BraidCudaHostRank CudaRun::host_rank(std::size_t rank, const rt::MappedFile& weights) const {
  return {memory_[rank].in.data(), const_cast<void**>(memory_[rank].out.data()), weights.bytes().data(),
          weights.bytes().size()};
}

// The error, with what the emulated device has found.
std::string CudaRun::run(BraidCudaHostRun& host, BraidStatus* status) const {
  const rt::MappedFile weights =
      table_.weights_bytes > 0 ? map_weights(files_, "weights.bin") : rt::MappedFile();
  host.struct_size = sizeof host;
  host.program = &table_;
  host.weights = weights.bytes().data();
  host.weights_bytes = weights.bytes().size();
  host.dims = dims_.data();
  host.steps = steps();
  host.on_own_stream = 1;
  UploadLine upload;
  if (host.peers == nullptr || host.peers->rank == 0) {
    host.progress = &UploadLine::progress;
    host.progress_user = &upload;
  }
  char message[8192] = "";
  *status = library_.host_run()(&host, message, sizeof message);
  const std::string findings = library_.take_findings();
  return fmt::format("{}{}{}", message, findings.empty() || message[0] == '\0' ? "" : "\n", findings);
}

void CudaRun::run_all() const {
  std::vector<rt::MappedFile> weights;
  std::vector<BraidCudaHostRank> ranks;
  for (std::size_t r = 0; r < memory_.size(); ++r) {
    weights.push_back(table_.rank_weights_bytes > 0
                          ? map_weights(files_, fmt::format("weights.rank{}.bin", r))
                          : rt::MappedFile());
  }
  for (std::size_t r = 0; r < memory_.size(); ++r) ranks.push_back(host_rank(r, weights[r]));
  std::vector<double> step_us(memory_.size() * static_cast<std::size_t>(steps()));
  std::vector<BraidCudaNodeCost> costs(options_.profile ? memory_.size() * cost_count() : 0);
  BraidCudaHostRun host{};
  host.ranks = ranks.data();
  host.node_costs = options_.profile ? costs.data() : nullptr;
  host.timeout_ms = -1;
  host.step_us = files_.emulated ? nullptr : step_us.data();
  BraidStatus status = BRAID_OK;
  const std::string error = run(host, &status);
  if (!error.empty() || status != BRAID_OK) {
    ir::user_error(
        kRankFailed, {.file = files_.shown},
        fmt::format("the program failed on the {}: {}", files_.emulated ? "emulated device" : "GPU", error));
  }
  for (std::size_t r = 0; r < memory_.size() && options_.profile; ++r)
    std::copy_n(costs.data() + r * cost_count(), cost_count(), node_costs(r));
  for (std::size_t r = 0; r < memory_.size(); ++r)
    std::copy_n(step_us.data() + r * static_cast<std::size_t>(steps()), steps(),
                memory_[r].step_us->doubles());
}

void CudaRun::run_rank(const BraidCudaHostPeers& peers) const {
  const auto r = static_cast<std::size_t>(peers.rank);
  const rt::MappedFile weights = table_.rank_weights_bytes > 0
                                     ? map_weights(files_, fmt::format("weights.rank{}.bin", r))
                                     : rt::MappedFile();
  const BraidCudaHostRank rank = host_rank(r, weights);
  BraidCudaHostRun host{};
  host.ranks = &rank;
  host.node_costs = node_costs(r);
  host.peers = &peers;
  if (const rt::Status known = rt::timeout_in_force({}, &host.timeout_ms); !known.ok())
    throw rt::ProgramError(rt::kCommFailed, known.message);
  host.step_us = files_.emulated ? nullptr : memory_[r].step_us->doubles();
  BraidStatus status = BRAID_OK;
  const std::string error = run(host, &status);
  if (error.empty() && status == BRAID_OK) return;
  throw rt::ProgramError(status == BRAID_COMM_ERROR         ? rt::kCommFailed
                         : status == BRAID_BAD_SIZE         ? rt::kWrongSize
                         : status == BRAID_INVALID_ARGUMENT ? rt::kCannotOpen
                                                            : rt::kStepFailed,
                         fmt::format("program '{}': {}", files_.name, error));
}

RankResult CudaRun::result(int rank) const {
  const Memory& memory = memory_[static_cast<std::size_t>(rank)];
  RankResult result;
  result.rank = rank;
  for (std::size_t k = 0; k < program_.outputs.size(); ++k) {
    ir::Tensor t = ir::make_tensor(program_.outputs[k].dtype, output_sizes_[k]);
    rt::from_memory(table_.outputs[k], t.sizes, memory.outputs[k]->data(), t.bytes.data());
    result.outputs.push_back(std::move(t));
  }
  for (int step = options_.warmup; step < steps() && options_.profile; ++step) {
    const BraidCudaNodeCost* row = node_costs(static_cast<std::size_t>(rank)) + step * table_.node_count;
    result.node_costs.emplace_back(row, row + table_.node_count);
  }
  for (int step = options_.warmup; step < steps() && !files_.emulated && !options_.profile; ++step)
    result.step_ns.push_back(static_cast<std::int64_t>(memory.step_us->doubles()[step] * 1e3));
  return result;
}

}  // namespace braid::cli
