#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <thread>

#include "cli/execute.h"
#include "cli/launched.h"
#include "cli/shared_bytes.h"
#include "cli/step_inputs.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/capacity.h"
#include "runtime/comm/bootstrap.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

// The results of one rank: times, shapes of outputs, outputs.
struct RankMemory {
  std::unique_ptr<SharedBytes> times;
  std::unique_ptr<SharedBytes> shapes;  // sizes of all outputs, one after another
  std::vector<std::unique_ptr<SharedBytes>> outputs;
  std::unique_ptr<SharedBytes> nodes;  // if they are recorded: node_count + 1 entries per step

  std::span<BraidNodeTimes> node_times(const BraidProgram& table, int step) const {
    const auto size = static_cast<std::size_t>(table.node_count) + 1;
    return {reinterpret_cast<BraidNodeTimes*>(nodes->data()) + static_cast<std::size_t>(step) * size, size};
  }
};

void run_steps(rt::Program& program, const std::vector<ir::Tensor>& inputs, const ExecuteOptions& options,
               RankMemory& memory) {
  const BraidProgram& table = program.table();
  StepInputs given(table, inputs);
  const std::span<const rt::TensorView> in = given.views();
  std::vector<rt::TensorView> out;
  program.prepare(program.dims_of(in));
  std::int64_t* sizes = memory.shapes->integers();
  for (int k = 0; k < table.output_count; ++k) {
    const BraidTensorInfo& info = table.outputs[k];
    const auto shape = program.output_shape(static_cast<std::size_t>(k));
    sizes = std::copy(shape.begin(), shape.end(), sizes);
    void* data = info.alias_of_input >= 0 ? in[static_cast<std::size_t>(info.alias_of_input)].data
                                          : memory.outputs[static_cast<std::size_t>(k)]->data();
    out.push_back({data, static_cast<rt::DType>(info.dtype), shape});
  }
  for (int step = -options.warmup; step < options.repeat; ++step) {
    given.restore();
    if (memory.nodes && step >= 0) program.record(memory.node_times(table, step));
    const auto begin = std::chrono::steady_clock::now();
    program.run(in, out);
    const auto end = std::chrono::steady_clock::now();
    if (step >= 0)
      memory.times->integers()[step] =
          std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
  }
  for (int k = 0; k < table.output_count; ++k) {
    const rt::TensorView& view = out[static_cast<std::size_t>(k)];
    std::byte* mine = memory.outputs[static_cast<std::size_t>(k)]->data();
    if (view.data != mine) rt::from_memory(table.outputs[k], view.shape, view.data, mine);
  }
}

RankMemory make_memory(const BraidProgram& table, const ExecuteOptions& options) {
  RankMemory m;
  const auto steps = static_cast<std::size_t>(options.repeat);
  m.times = std::make_unique<SharedBytes>(steps * sizeof(std::int64_t));
  std::size_t sizes = 0;
  for (int k = 0; k < table.output_count; ++k) sizes += static_cast<std::size_t>(table.outputs[k].rank);
  m.shapes = std::make_unique<SharedBytes>(sizes * sizeof(std::int64_t));
  if (options.record) {
    m.nodes = std::make_unique<SharedBytes>(steps * static_cast<std::size_t>(table.node_count + 1) *
                                            sizeof(BraidNodeTimes));
  }
  for (int k = 0; k < table.output_count; ++k)
    m.outputs.push_back(std::make_unique<SharedBytes>(static_cast<std::size_t>(table.outputs[k].max_bytes)));
  return m;
}

RankResult read_memory(const BraidProgram& table, const ExecuteOptions& options, const RankMemory& memory,
                       int rank) {
  RankResult result;
  result.rank = rank;
  result.step_ns.assign(memory.times->integers(), memory.times->integers() + options.repeat);
  for (int step = 0; options.record && step < options.repeat; ++step) {
    const std::span<BraidNodeTimes> times = memory.node_times(table, step);
    result.node_times.emplace_back(times.begin(), times.end());
  }
  const std::int64_t* shape = memory.shapes->integers();
  for (int k = 0; k < table.output_count; ++k) {
    const std::int64_t* end = shape + table.outputs[k].rank;
    ir::Tensor t = ir::make_tensor(to_ir(table.outputs[k].dtype), {shape, end});
    shape = end;
    std::copy_n(memory.outputs[static_cast<std::size_t>(k)]->data(), t.bytes.size(), t.bytes.begin());
    result.outputs.push_back(std::move(t));
  }
  return result;
}

rt::WorldOptions world_options(const BraidProgram& table, const ExecuteOptions& options, int ranks_here) {
  rt::WorldOptions world = rt::world_options(table);
  world.compute_threads = threads_of_rank(options, ranks_here);
  return world;
}

// All steps of one rank.
void run_rank(const ProgramFiles& program, const BraidProgram& table, rt::World* world, int ranks_here,
              const std::vector<ir::Tensor>& inputs, const ExecuteOptions& options, RankMemory& memory) {
  omp_set_num_threads(threads_of_rank(options, ranks_here));
  rt::Program instance = rt::Program::open(
      &table, {.weights_dir = program.dir, .world = world, .rank = world != nullptr ? world->rank() : 0});
  run_steps(instance, inputs, options, memory);
}

// Runs as the rank that a launcher made of this process.
RankResult run_launched(const ProgramFiles& program, const BraidProgram& table,
                        const rt::RankEnvironment& environment,
                        const std::vector<std::vector<ir::Tensor>>& inputs, const ExecuteOptions& options) {
  std::unique_ptr<rt::World> world;
  if (const rt::Status joined =
          rt::join_world_from_environment(world_options(table, options, environment.local_size), &world);
      !joined.ok())
    ir::user_error(errors::kRankFailed, {}, joined.message);
  RankMemory memory = make_memory(table, options);
  as_launched_rank([&] {
    run_rank(program, table, world.get(), environment.local_size,
             inputs[static_cast<std::size_t>(world->rank())], options, memory);
  });
  return read_memory(table, options, memory, world->rank());
}

}  // namespace

int threads_of_rank(const ExecuteOptions& options, int ranks_here) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return options.omp_threads > 0 ? options.omp_threads : std::max(1, cores / ranks_here);
}

std::vector<RankResult> execute_cpu(const ProgramFiles& program,
                                    const std::vector<std::vector<ir::Tensor>>& inputs,
                                    const ExecuteOptions& options) {
  const BraidProgram& table = *rt::load_program(program.library, program.id);
  if (const auto environment = launched())
    return {run_launched(program, table, *environment, inputs, options)};

  const int ranks = table.ranks;
  std::vector<RankMemory> memory;
  for (int r = 0; r < ranks; ++r) memory.push_back(make_memory(table, options));
  const auto run = [&](int rank, rt::World* world) {
    const auto r = static_cast<std::size_t>(rank);
    run_rank(program, table, world, ranks, inputs[r], options, memory[r]);
  };
  if (ranks == 1) {
    run(0, nullptr);
  } else {
    const rt::LaunchOptions launch{.world = world_options(table, options, ranks), .pacing = options.link};
    const rt::RankFunction function = [&](rt::World& world) {
      run(world.rank(), &world);
      return 0;
    };
    const rt::Status status = options.ranks_as == RanksAs::threads
                                  ? rt::launch_threads(ranks, launch, function)
                                  : rt::launch_processes(ranks, launch, function);
    if (!status.ok()) ir::user_error(errors::kRankFailed, {}, status.message);
  }

  std::vector<RankResult> results;
  for (int r = 0; r < ranks; ++r)
    results.push_back(read_memory(table, options, memory[static_cast<std::size_t>(r)], r));
  return results;
}

}  // namespace braid::cli
