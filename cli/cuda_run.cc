#include "cli/cuda_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "cli/status_line.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/capacity.h"
#include "runtime/comm/settings.h"
#include "runtime/program.h"
#include "runtime/size_errors.h"

namespace braid::cli {
namespace {

rt::MappedFile map_weights(const ProgramFiles& program, const std::string& name) {
  return rt::MappedFile((std::filesystem::path(program.dir) / name).string());
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

std::vector<rt::TensorView> views(const std::vector<ir::Tensor>& tensors) {
  std::vector<rt::TensorView> out;
  for (const ir::Tensor& t : tensors) {
    out.push_back({const_cast<std::byte*>(t.bytes.data()), to_rt(t.dtype), t.sizes});
  }
  return out;
}

// Its number is that of a CPU program for the same condition.
rt::ProgramError program_error(BraidStatus status, const std::string& message) {
  const int code = status == BRAID_COMM_ERROR         ? rt::kCommFailed
                   : status == BRAID_BAD_SIZE         ? rt::kWrongSize
                   : status == BRAID_INVALID_ARGUMENT ? rt::kCannotOpen
                                                      : rt::kStepFailed;
  return {code, message};
}

[[noreturn]] void raise(BraidStatus status, const std::string& message) {
  if (status == BRAID_OUT_OF_MEMORY) {
    ir::user_error(errors::kNoMemory, {}, message,
                   "give smaller bounds with --dim, or raise the limit of memory (ulimit -v)");
  }
  throw program_error(status, message);
}

}  // namespace

CudaRun::CudaRun(const ProgramFiles& files, const std::vector<std::vector<ir::Tensor>>& inputs,
                 const ExecuteOptions& options)
    : files_(files),
      options_(options),
      inputs_(inputs),
      library_(open_cuda_library(files)),
      table_(library_.table()),
      shapes_(table_) {
  dims_.resize(static_cast<std::size_t>(table_.dim_count));
  shapes_.find_dims(views(inputs[0]), dims_);
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    Memory memory;
    try {
      check_rank(r);
      make_memory(r, memory);
    } catch (const rt::ProgramError&) {
      memory.refused = std::current_exception();
    }
    memory_.push_back(std::move(memory));
  }
}

// Checks sizes, then inputs, as a CPU program does. The memory for results depends on the sizes, so these
// must be right first.
void CudaRun::check_rank(std::size_t rank) {
  if (const std::string error = rt::size_error(table_, dims_.data()); !error.empty())
    throw program_error(BRAID_BAD_SIZE, fmt::format("program '{}': {}", table_.name, error));
  shapes_.set(dims_);
  const std::vector<rt::TensorView> given = views(inputs_[rank]);
  if (given.size() != static_cast<std::size_t>(table_.input_count)) {
    throw rt::ProgramError(rt::kWrongInput, fmt::format("program '{}' has {} inputs; got {}", table_.name,
                                                        table_.input_count, given.size()));
  }
  for (std::size_t k = 0; k < given.size(); ++k) shapes_.check_input(k, given[k]);
}

void CudaRun::make_memory(std::size_t rank, Memory& memory) const {
  for (std::size_t k = 0; k < inputs_[rank].size(); ++k) {
    const ir::Tensor& tensor = inputs_[rank][k];
    memory.in.push_back(tensor.bytes.data());
    if (table_.inputs[k].capacities == nullptr) continue;
    // A cache's bytes beyond its elements are NaN in every float type.
    memory.inputs.emplace_back(rt::memory_bytes(table_.inputs[k], tensor.sizes), std::byte{0xff});
    memory.in.back() = memory.inputs.back().data();
    rt::to_memory(table_.inputs[k], tensor.sizes, tensor.bytes.data(), memory.inputs.back().data());
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(table_.output_count); ++k) {
    memory.outputs.push_back(
        std::make_unique<SharedBytes>(rt::memory_bytes(table_.outputs[k], shapes_.output(k))));
    memory.out.push_back(memory.outputs.back()->data());
  }
  memory.step_us = std::make_unique<SharedBytes>(static_cast<std::size_t>(steps()) * sizeof(double));
  if (options_.profile)
    memory.node_costs = std::make_unique<SharedBytes>((cost_count() + 1) * sizeof(BraidCudaNodeCost));
}

BraidCudaNodeCost* CudaRun::node_costs(std::size_t rank) const {
  const auto& memory = memory_[rank].node_costs;
  return memory == nullptr ? nullptr : reinterpret_cast<BraidCudaNodeCost*>(memory->data());
}

std::string CudaRun::subject() const {
  std::string text = fmt::format("program '{}' (compilation {:016x})", table_.name, table_.compilation_id);
  for (std::size_t d = 0; d < dims_.size(); ++d)
    text += fmt::format("{}{}={}", d == 0 ? " with " : ", ", table_.dims[d].name, dims_[d]);
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
  // On GPUs steps are timed. The emulated device finds a step that is not joined with its caller's stream.
  host.reuses_buffers = files_.emulated && host.node_costs == nullptr ? 1 : 0;
  UploadLine upload;
  if (host.peers == nullptr || host.peers->rank == 0) {
    host.progress = &UploadLine::progress;
    host.progress_user = &upload;
  }
  char message[8192] = "";
  *status = library_.host_run()(&host, message, sizeof message);
  if (*status == BRAID_OK) library_.report_leaks();
  const std::string findings = library_.take_findings();
  return fmt::format("{}{}{}", message, findings.empty() || message[0] == '\0' ? "" : "\n", findings);
}

void CudaRun::refuse() const {
  constexpr std::size_t kNumber = std::string_view("error BR0000: ").size();
  for (std::size_t r = 0; r < memory_.size(); ++r) {
    if (memory_[r].refused == nullptr) continue;
    try {
      std::rethrow_exception(memory_[r].refused);
    } catch (const rt::ProgramError& error) {
      if (memory_.size() == 1) throw;
      throw rt::ProgramError(error.code(),
                             fmt::format("rank {}: {}", r, std::string(error.what()).substr(kNumber)));
    }
  }
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
    const std::string message = fmt::format("program '{}': {}", table_.name, error);
    if (memory_.size() == 1 || status == BRAID_OUT_OF_MEMORY) raise(status, message);
    ir::user_error(errors::kRankFailed, {}, program_error(status, message).what());
  }
  for (std::size_t r = 0; r < memory_.size() && options_.profile; ++r)
    std::copy_n(costs.data() + r * cost_count(), cost_count(), node_costs(r));
  for (std::size_t r = 0; r < memory_.size(); ++r)
    std::copy_n(step_us.data() + r * static_cast<std::size_t>(steps()), steps(),
                memory_[r].step_us->doubles());
}

void CudaRun::run_rank(const BraidCudaHostPeers& peers) const {
  const auto r = static_cast<std::size_t>(peers.rank);
  if (memory_[r].refused != nullptr) std::rethrow_exception(memory_[r].refused);
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
  raise(status, fmt::format("program '{}': {}", files_.name, error));
}

RankResult CudaRun::result(int rank) const {
  const Memory& memory = memory_[static_cast<std::size_t>(rank)];
  RankResult result;
  result.rank = rank;
  for (std::size_t k = 0; k < memory.outputs.size(); ++k) {
    const std::span<const std::int64_t> sizes = shapes_.output(k);
    ir::Tensor t = ir::make_tensor(to_ir(table_.outputs[k].dtype), {sizes.begin(), sizes.end()});
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
