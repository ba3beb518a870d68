// CUDA programs on GPUs and on the emulated device.
#include "cli/cuda_run.h"
#include "cli/launched.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/comm/control_bootstrap.h"
#include "runtime/comm/control_peers.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

// Runs as the rank that a launcher made of this process.
RankResult run_launched(const CudaRun& run, const rt::RankEnvironment& environment) {
  rt::Control control;
  if (const rt::Status joined = rt::join_control_from_environment(environment, run.subject(), &control);
      !joined.ok())
    ir::user_error(errors::kRankFailed, {}, joined.message);
  as_launched_rank([&] { run.run_rank(rt::control_peers(*control.channel, environment.local_rank)); });
  return run.result(environment.rank);
}

// The World is how the processes meet, and how this one learns of their ends.
void run_processes(const CudaRun& run) {
  const rt::Status status = rt::launch_processes(run.ranks(), {}, [&](rt::World& world) {
    std::unique_ptr<rt::ControlChannel> channel;
    const rt::Status joined = rt::join_control(world, true, run.subject(), &channel);
    if (!joined.ok()) throw rt::ProgramError(rt::kCommFailed, joined.message);
    run.run_rank(rt::control_peers(*channel, world.rank()));
    return 0;
  });
  if (!status.ok()) ir::user_error(errors::kRankFailed, {}, status.message);
}

}  // namespace

std::vector<RankResult> execute_cuda(const ProgramFiles& files,
                                     const std::vector<std::vector<ir::Tensor>>& inputs,
                                     const ExecuteOptions& options) {
  const CudaRun run(files, inputs, options);
  if (const auto environment = launched()) return {run_launched(run, *environment)};
  const bool processes =
      options.ranks_as == RanksAs::processes || (options.ranks_as == RanksAs::automatic && !files.emulated);
  run.refuse();
  if (run.ranks() > 1 && processes)
    run_processes(run);
  else
    run.run_all();
  std::vector<RankResult> results;
  for (int r = 0; r < run.ranks(); ++r) results.push_back(run.result(r));
  return results;
}

}  // namespace braid::cli
