#include "harness/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "codegen/cuda/gpus.h"
#include "harness/cuda_run.h"
#include "harness/cuda_session.h"
#include "harness/host_run.h"
#include "harness/host_session.h"
#include "harness/launched.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/program.h"

namespace braid::harness {
namespace {

// UserError BR0013 if there are fewer GPUs than ranks.
void require_gpus(int ranks) {
  const std::size_t gpus = codegen::cuda::find_gpus().size();
  if (gpus >= static_cast<std::size_t>(ranks)) return;
  ir::user_error(errors::kNoGpu, {},
                 fmt::format("the program has {} ranks, but the driver shows {} GPU{}", ranks, gpus,
                             gpus == 1 ? "" : "s"),
                 "each rank needs a GPU of its own ($CUDA_VISIBLE_DEVICES may hide some); --device emulated "
                 "needs none");
}

class HostProgram final : public Program {
 public:
  HostProgram(const ProgramFiles& files, const BraidProgram& table)
      : Program(files, interface_of(table, files.dir)), table_(table) {}

  std::span<const BraidNode> nodes() const override {
    return {table_.nodes, static_cast<std::size_t>(table_.node_count)};
  }
  std::unique_ptr<Session> open(const SessionOptions& options) const override {
    return open_host(files(), table_, options);
  }
  std::unique_ptr<Execution> prepare(const RankTensors& inputs,
                                     const ExecuteOptions& options) const override {
    return run_host(*this, inputs, options);
  }
  const BraidProgram* host_table() const override { return &table_; }

 private:
  const BraidProgram& table_;  // of a library that stays loaded
};

class CudaProgram final : public Program {
 public:
  CudaProgram(const ProgramFiles& files, const rt::CudaLibrary& library)
      : Program(files, interface_of(library.table(), files.dir)), library_(library) {}

  std::span<const BraidNode> nodes() const override {
    return {library_.table().nodes, static_cast<std::size_t>(library_.table().node_count)};
  }
  std::unique_ptr<Session> open(const SessionOptions& options) const override {
    return open_cuda(files(), library_, options);
  }
  std::unique_ptr<Execution> prepare(const RankTensors& inputs,
                                     const ExecuteOptions& options) const override {
    return run_cuda(*this, inputs, options);
  }
  const rt::CudaLibrary* cuda_library() const override { return &library_; }

 private:
  const rt::CudaLibrary library_;
};

}  // namespace

std::shared_ptr<const Program> load_program(const ProgramFiles& files) {
  if (files.abi == codegen::ProgramAbi::cuda)
    return std::make_shared<CudaProgram>(files, rt::CudaLibrary(files.library, files.name, files.id));
  return std::make_shared<HostProgram>(files, *rt::load_program(files.library, files.id));
}

std::vector<RankResult> execute(const Program& program, const RankTensors& inputs,
                                const ExecuteOptions& options) {
  if (program.is_cuda() && (options.record || options.link)) {
    ir::user_error(errors::kBadOption, {.file = program.files().shown},
                   "--trace, --trace-costs and --link support only CPU programs", "leave the options out");
  }
  const int ranks = program.interface().ranks;
  check_environment(program);
  const std::optional<rt::RankEnvironment> environment = launched();
  if (environment) check_launched(*environment, program, options);
  const bool gpus = program.is_cuda() && !program.files().emulated;
  if (gpus) require_gpus(environment ? 1 : ranks);  // a launcher may show each rank only its own

  const std::unique_ptr<Execution> execution = program.prepare(inputs, options);
  if (environment) return {execution->result(execution->run_launched(*environment))};
  execution->refuse();
  const bool processes = options.ranks_as == RanksAs::processes ||
                         (options.ranks_as == RanksAs::automatic && !program.files().emulated);
  if (ranks > 1 && processes)
    execution->run_processes();
  else
    execution->run_here();
  std::vector<RankResult> results;
  for (int r = 0; r < ranks; ++r) results.push_back(execution->result(r));
  return results;
}

int threads_of_rank(int asked, int ranks_here) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return asked > 0 ? asked : std::max(1, cores / ranks_here);
}

std::int64_t median(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace braid::harness
