// Programs whose indices and offsets depend on the rank's coordinates: compiled, against the interpreter.
// Random ones: random_collectives_test.cc.
#include "tests/support/coordinates.h"

#include <gtest/gtest.h>

#include "tests/codegen/compiled.h"
#include "tests/support/random_collectives.h"
#include "tests/support/rank_results.h"

namespace braid::test {
namespace {

TEST(Coordinates, CompiledProgramsFindTheInterpretersBits) {
  Compiled compiled("-O1");
  compiled.add_schedule("optimised", schedule_of(by_coordinates()));
  compiled.add_schedule("checked", schedule_of(by_coordinates(), "plan_memory"), true);
  compiled.build();
  for (const std::string name : {"optimised", "checked"}) {
    const ir::Graph& graph = compiled.schedule(name).graph;
    for (const std::int64_t n : {1, 6}) {
      std::vector<std::vector<ir::Tensor>> inputs;
      for (int r = 0; r < graph.ranks; ++r) {
        std::vector<float> values;
        for (std::int64_t k = 0; k < 8 * n; ++k)
          values.push_back(static_cast<float>((k * 5 + r * 3) % 7 - 3));
        inputs.push_back({ir::make_tensor(ir::DType::f32, {n, 8}, values)});
      }
      const auto want = ir::run(compiled.schedule(name), inputs).outputs;
      EXPECT_NE(want[0][3].bytes, want[7][3].bytes);
      std::string error;
      rt::LaunchOptions launch;
      launch.world = rt::world_options(*compiled.table(name));
      const auto got = run_on_ranks(
          RanksAs::threads, launch, want,
          [&](rt::World& world) {
            rt::Program program = compiled.open(name, &world);
            return compiled.run(program, inputs[static_cast<std::size_t>(world.rank())]);
          },
          &error);
      ASSERT_EQ(error, "");
      EXPECT_EQ(difference(graph, got, want), "") << name << ", n = " << n;
    }
  }
}

}  // namespace
}  // namespace braid::test
