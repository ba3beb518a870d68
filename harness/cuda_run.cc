#include "harness/cuda_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "harness/cuda_session.h"
#include "harness/interface.h"
#include "harness/launched.h"
#include "harness/shared_bytes.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/capacity.h"
#include "runtime/comm/control_bootstrap.h"
#include "runtime/comm/control_peers.h"
#include "runtime/comm/settings.h"
#include "runtime/cuda_host.h"
#include "runtime/program.h"
#include "runtime/program_shapes.h"
#include "runtime/size_errors.h"

namespace braid::harness {
namespace {

std::vector<rt::TensorView> views(const std::vector<ir::Tensor>& tensors) {
  std::vector<rt::TensorView> out;
  for (const ir::Tensor& t : tensors) {
    out.push_back({const_cast<std::byte*>(t.bytes.data()), to_runtime(t.dtype), t.sizes});
  }
  return out;
}

[[noreturn]] void raise(BraidStatus status, const std::string& message) {
  if (status == BRAID_OUT_OF_MEMORY) {
    ir::user_error(errors::kNoMemory, {}, message,
                   "give smaller bounds with --dim, or raise the limit of memory (ulimit -v)");
  }
  throw cuda_error(status, rt::kCannotOpen, message);
}

class CudaRun final : public Execution {
 public:
  CudaRun(const Program& program, const RankTensors& inputs, const ExecuteOptions& options)
      : files_(program.files()),
        options_(options),
        inputs_(inputs),
        library_(*program.cuda_library()),
        table_(library_.table()),
        shapes_(table_),
        dims_(static_cast<std::size_t>(table_.dim_count)),
        memory_(inputs.size()),
        step_us_(inputs.size() * step_count() * sizeof(double)),
        node_costs_(options.profile ? inputs.size() * cost_count() * sizeof(BraidCudaNodeCost) : 0) {
    shapes_.find_dims(views(inputs[0]), dims_);
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      try {
        check_rank(r);
        make_memory(r);
      } catch (const rt::ProgramError&) {
        memory_[r].refused = std::current_exception();
      }
    }
  }

  void refuse() const override {
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

  int run_launched(const rt::RankEnvironment& environment) override {
    rt::Control control;
    if (const rt::Status joined = rt::join_control_from_environment(environment, subject(), &control);
        !joined.ok())
      ir::user_error(errors::kRankFailed, {}, joined.message);
    as_launched_rank([&] { run_rank(rt::control_peers(*control.channel, environment.local_rank)); });
    return environment.rank;
  }

  void run_here() override {
    std::vector<rt::MappedFile> weights;
    std::vector<BraidCudaHostRank> ranks;
    for (int r = 0; r < table_.ranks; ++r)
      weights.push_back(map_rank_weights(files_, r, table_.rank_weights_bytes));
    for (std::size_t r = 0; r < memory_.size(); ++r) ranks.push_back(host_rank(r, weights[r]));
    BraidCudaHostRun host{};
    host.ranks = ranks.data();
    host.timeout_ms = -1;
    BraidStatus status = BRAID_OK;
    const std::string error = run(host, 0, &status);
    if (error.empty() && status == BRAID_OK) return;
    const std::string message = fmt::format("program '{}': {}", table_.name, error);
    if (memory_.size() == 1 || status == BRAID_OUT_OF_MEMORY) raise(status, message);
    ir::user_error(errors::kRankFailed, {}, cuda_error(status, rt::kCannotOpen, message).what());
  }

  // The World is how the processes meet, and how this one learns of their ends.
  void run_processes() override {
    const rt::Status status = rt::launch_processes(table_.ranks, {}, [&](rt::World& world) {
      std::unique_ptr<rt::ControlChannel> channel;
      const rt::Status joined = rt::join_control(world, true, subject(), &channel);
      if (!joined.ok()) throw rt::ProgramError(rt::kCommFailed, joined.message);
      run_rank(rt::control_peers(*channel, world.rank()));
      return 0;
    });
    if (!status.ok()) ir::user_error(errors::kRankFailed, {}, status.message);
  }

  RankResult result(int rank) const override {
    const auto r = static_cast<std::size_t>(rank);
    RankResult result;
    result.rank = rank;
    for (std::size_t k = 0; k < memory_[r].outputs.size(); ++k) {
      const std::span<const std::int64_t> sizes = shapes_.output(k);
      ir::Tensor t = ir::make_tensor(to_ir(table_.outputs[k].dtype), {sizes.begin(), sizes.end()});
      rt::from_memory(table_.outputs[k], t.sizes, memory_[r].outputs[k]->data(), t.bytes.data());
      result.outputs.push_back(std::move(t));
    }
    for (int step = options_.warmup; step < steps(); ++step) {
      const BraidCudaNodeCost* row = node_costs(r) + step * table_.node_count;
      if (options_.profile)
        result.node_costs.emplace_back(row, row + table_.node_count);
      else if (!files_.emulated)
        result.step_ns.push_back(static_cast<std::int64_t>(step_us(r)[step] * 1e3));
    }
    return result;
  }

 private:
  struct Memory {
    std::exception_ptr refused;  // the rank's sizes or inputs are wrong, and there is no memory
    std::vector<std::vector<std::byte>> inputs;  // those with capacities
    std::vector<std::unique_ptr<SharedBytes>> outputs;
    std::vector<const void*> in;
    std::vector<void*> out;
  };

  int steps() const { return options_.warmup + options_.repeat; }
  std::size_t step_count() const { return static_cast<std::size_t>(steps()); }
  std::size_t cost_count() const { return step_count() * static_cast<std::size_t>(table_.node_count); }
  double* step_us(std::size_t rank) const { return step_us_.doubles() + rank * step_count(); }
  BraidCudaNodeCost* node_costs(std::size_t rank) const {
    return reinterpret_cast<BraidCudaNodeCost*>(node_costs_.data()) + rank * cost_count();
  }

  // Checks sizes, then inputs, as a CPU program does. The memory for results depends on the sizes, so these
  // must be right first.
  void check_rank(std::size_t rank) {
    if (const std::string error = rt::size_error(table_, dims_.data()); !error.empty())
      throw rt::ProgramError(rt::kWrongSize, fmt::format("program '{}': {}", table_.name, error));
    shapes_.set(dims_);
    const std::vector<rt::TensorView> given = views(inputs_[rank]);
    if (given.size() != static_cast<std::size_t>(table_.input_count)) {
      throw rt::ProgramError(rt::kWrongInput, fmt::format("program '{}' has {} inputs; got {}", table_.name,
                                                          table_.input_count, given.size()));
    }
    for (std::size_t k = 0; k < given.size(); ++k) shapes_.check_input(k, given[k]);
  }

  void make_memory(std::size_t rank) {
    Memory& memory = memory_[rank];
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
  }

  // Describes the data that must be the same for all ranks.
  std::string subject() const {
    std::string text = fmt::format("program '{}' (compilation {:016x})", table_.name, table_.compilation_id);
    for (std::size_t d = 0; d < dims_.size(); ++d)
      text += fmt::format("{}{}={}", d == 0 ? " with " : ", ", table_.dims[d].name, dims_[d]);
    return text + fmt::format(", {} step{}", steps(), steps() == 1 ? "" : "s");
  }

  BraidCudaHostRank host_rank(std::size_t rank, const rt::MappedFile& weights) const {
    return {memory_[rank].in.data(), const_cast<void**>(memory_[rank].out.data()), weights.bytes().data(),
            weights.bytes().size()};
  }

  // One rank, in this process. Throws rt::ProgramErrors: BR0723 if its inputs are not the program's, BR0724,
  // BR0725, BR0726; UserError BR0019.
  void run_rank(const BraidCudaHostPeers& peers) const {
    const auto r = static_cast<std::size_t>(peers.rank);
    if (memory_[r].refused != nullptr) std::rethrow_exception(memory_[r].refused);
    const rt::MappedFile weights = map_rank_weights(files_, peers.rank, table_.rank_weights_bytes);
    const BraidCudaHostRank rank = host_rank(r, weights);
    BraidCudaHostRun host{};
    host.ranks = &rank;
    host.peers = &peers;
    if (const rt::Status known = rt::timeout_in_force({}, &host.timeout_ms); !known.ok())
      throw rt::ProgramError(rt::kCommFailed, known.message);
    BraidStatus status = BRAID_OK;
    const std::string error = run(host, r, &status);
    if (error.empty() && status == BRAID_OK) return;
    raise(status, fmt::format("program '{}': {}", files_.name, error));
  }

  // Runs from rank `first` on. Returns the error, with what the emulated device has found.
  std::string run(BraidCudaHostRun& host, std::size_t first, BraidStatus* status) const {
    const rt::MappedFile weights = map_weights(files_, table_.weights_bytes);
    host.struct_size = sizeof host;
    host.program = &table_;
    host.weights = weights.bytes().data();
    host.weights_bytes = weights.bytes().size();
    host.dims = dims_.data();
    host.steps = steps();
    host.step_us = files_.emulated ? nullptr : step_us(first);
    host.node_costs = options_.profile ? node_costs(first) : nullptr;
    // On GPUs steps are timed. The emulated device finds a step that is not joined with its caller's stream.
    host.reuses_buffers = files_.emulated && host.node_costs == nullptr ? 1 : 0;
    if (options_.uploaded && first == 0) {
      host.progress = [](void* options, std::uint64_t done, std::uint64_t total) {
        static_cast<const ExecuteOptions*>(options)->uploaded(done, total);
      };
      host.progress_user = const_cast<ExecuteOptions*>(&options_);
    }
    char message[8192] = "";
    *status = library_.host_run()(&host, message, sizeof message);
    if (host.progress != nullptr) options_.uploaded(0, 0);
    if (*status == BRAID_OK) library_.report_leaks();
    return with_findings(message, library_.take_findings());
  }

  const ProgramFiles& files_;
  const ExecuteOptions& options_;
  const RankTensors& inputs_;
  const rt::CudaLibrary& library_;
  const BraidCudaProgram& table_;
  rt::ProgramShapes<BraidCudaProgram> shapes_;
  std::vector<std::int64_t> dims_;
  std::vector<Memory> memory_;              // per rank
  const SharedBytes step_us_, node_costs_;  // of each rank in turn, of each step
};

}  // namespace

std::unique_ptr<Execution> run_cuda(const Program& program, const RankTensors& inputs,
                                    const ExecuteOptions& options) {
  return std::make_unique<CudaRun>(program, inputs, options);
}

}  // namespace braid::harness
