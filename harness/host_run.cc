#include "harness/host_run.h"

#include <algorithm>
#include <span>
#include <vector>

#include "harness/launched.h"
#include "harness/rank_steps.h"
#include "harness/shared_bytes.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/capacity.h"

namespace braid::harness {
namespace {

class HostRun final : public Execution {
 public:
  HostRun(const Program& program, const RankTensors& inputs, const ExecuteOptions& options)
      : program_(program),
        table_(*program.host_table()),
        inputs_(inputs),
        options_(options),
        times_(ranks() * steps() * sizeof(std::int64_t)),
        shapes_(ranks() * sizes() * sizeof(std::int64_t)),
        nodes_(options.record ? ranks() * steps() * node_times() * sizeof(BraidNodeTimes) : 0),
        outputs_(ranks()) {}

  int run_launched(const rt::RankEnvironment& environment) override {
    std::unique_ptr<rt::World> world;
    if (const rt::Status joined =
            rt::join_world_from_environment(world_options(environment.local_size), &world);
        !joined.ok())
      ir::user_error(errors::kRankFailed, {}, joined.message);
    make_outputs(static_cast<std::size_t>(world->rank()));
    as_launched_rank([&] { run_rank(world.get(), environment.local_size); });
    return world->rank();
  }
  void run_here() override { run_ranks(rt::launch_threads); }
  void run_processes() override { run_ranks(rt::launch_processes); }

  RankResult result(int rank) const override {
    const auto r = static_cast<std::size_t>(rank);
    RankResult result;
    result.rank = rank;
    const std::int64_t* times = times_.integers() + r * steps();
    result.step_ns.assign(times, times + steps());
    for (std::size_t step = 0; options_.record && step < steps(); ++step) {
      const std::span<BraidNodeTimes> row = node_times(r, step);
      result.node_times.emplace_back(row.begin(), row.end());
    }
    const std::int64_t* shape = shapes_.integers() + r * sizes();
    for (std::size_t k = 0; k < outputs_[r].size(); ++k) {
      const std::int64_t* end = shape + table_.outputs[k].rank;
      ir::Tensor t = ir::make_tensor(to_ir(table_.outputs[k].dtype), {shape, end});
      shape = end;
      std::copy_n(outputs_[r][k]->data(), t.bytes.size(), t.bytes.begin());
      result.outputs.push_back(std::move(t));
    }
    return result;
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(table_.ranks); }
  std::size_t steps() const { return static_cast<std::size_t>(options_.repeat); }
  // The number of sizes of all outputs.
  std::size_t sizes() const {
    std::size_t sizes = 0;
    for (int k = 0; k < table_.output_count; ++k) sizes += static_cast<std::size_t>(table_.outputs[k].rank);
    return sizes;
  }
  // The number of entries of a step.
  std::size_t node_times() const { return static_cast<std::size_t>(table_.node_count) + 1; }
  std::span<BraidNodeTimes> node_times(std::size_t rank, std::size_t step) const {
    auto* all = reinterpret_cast<BraidNodeTimes*>(nodes_.data());
    return {all + (rank * steps() + step) * node_times(), node_times()};
  }

  void make_outputs(std::size_t rank) {
    for (int k = 0; k < table_.output_count; ++k) {
      const auto bytes = static_cast<std::size_t>(table_.outputs[k].max_bytes);
      outputs_[rank].push_back(std::make_unique<SharedBytes>(bytes));
    }
  }

  rt::WorldOptions world_options(int ranks_here) const {
    rt::WorldOptions world = rt::world_options(table_);
    world.compute_threads = threads_of_rank(options_.omp_threads, ranks_here);
    return world;
  }

  // All ranks that `launch` starts.
  void run_ranks(rt::Status (*launch)(int, const rt::LaunchOptions&, const rt::RankFunction&)) {
    for (std::size_t r = 0; r < ranks(); ++r) make_outputs(r);
    const int ranks = table_.ranks;
    if (ranks == 1) return run_rank(nullptr, 1);
    const rt::Status status =
        launch(ranks, {.world = world_options(ranks), .pacing = options_.link}, [&](rt::World& world) {
          run_rank(&world, ranks);
          return 0;
        });
    if (!status.ok()) ir::user_error(errors::kRankFailed, {}, status.message);
  }

  // All steps of one rank; of a program of one rank without a world.
  void run_rank(rt::World* world, int ranks_here) {
    const auto rank = static_cast<std::size_t>(world != nullptr ? world->rank() : 0);
    const std::unique_ptr<Session> session =
        program_.open({.threads = threads_of_rank(options_.omp_threads, ranks_here), .world = world});
    RankSteps steps(
        *session, table_, inputs_[rank],
        [&](std::size_t k, std::span<const std::int64_t>) -> void* { return outputs_[rank][k]->data(); });
    for (int step = -options_.warmup; step < options_.repeat; ++step) {
      const auto measured = static_cast<std::size_t>(std::max(step, 0));
      if (options_.record && step >= 0) session->record(node_times(rank, measured));
      times_.integers()[rank * this->steps() + measured] = steps.run();
    }
    std::int64_t* sizes_end = shapes_.integers() + rank * sizes();
    for (std::size_t k = 0; k < outputs_[rank].size(); ++k) {
      sizes_end = std::ranges::copy(session->result_shape(k), sizes_end).out;
      const rt::TensorView& view = steps.outputs()[k];
      std::byte* mine = outputs_[rank][k]->data();
      if (view.data != mine) rt::from_memory(table_.outputs[k], view.shape, view.data, mine);
    }
  }

  const Program& program_;
  const BraidProgram& table_;
  const RankTensors& inputs_;
  const ExecuteOptions& options_;
  // These hold, rank after rank, the times of steps, the sizes of outputs and the times of nodes.
  const SharedBytes times_, shapes_, nodes_;
  std::vector<std::vector<std::unique_ptr<SharedBytes>>> outputs_;  // per rank
};

}  // namespace

std::unique_ptr<Execution> run_host(const Program& program, const RankTensors& inputs,
                                    const ExecuteOptions& options) {
  return std::make_unique<HostRun>(program, inputs, options);
}

}  // namespace braid::harness
