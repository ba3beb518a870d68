// Every form of every collective on 1, 2, 3, 4 and 8 ranks and on subgroups: interpreter (before the passes,
// and after them on planned memory) and compiled programs, by threads and by processes.
#include "tests/support/collective_forms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "runtime/comm/bootstrap.h"
#include "tests/codegen/compiled.h"
#include "tests/support/rank_results.h"

namespace braid::test {
namespace {

class CollectiveForms : public testing::TestWithParam<int> {};

TEST_P(CollectiveForms, EqualTheReference) {
  const int n = GetParam();
  Compiled compiled("-O1");
  const std::vector<CollectiveCase> cases = collective_cases(n);
  for (const CollectiveCase& c : cases) {
    for (std::uint64_t seed : {0, 5}) {
      ir::InterpreterOptions any_order;
      any_order.order_seed = seed;
      expect_results(c, ir::run(c.schedule, c.inputs, any_order).outputs, "interpreter");
    }
    ir::Schedule schedule = c.schedule;
    optimise(schedule, CompileOptions{});
    ir::InterpreterOptions planned;
    planned.use_plan = true;
    planned.order_seed = 5;
    expect_results(c, ir::run(schedule, c.inputs, planned).outputs, "interpreter after the passes");
    compiled.add_schedule(c.name, std::move(schedule), true);

    schedule = c.schedule;
    CompileOptions only_planned;
    only_planned.passes = "plan_memory{in_place_collective_bytes=0}";
    optimise(schedule, only_planned);
    compiled.add_schedule(c.name + "_as_written", std::move(schedule));
  }
  compiled.build();
  for (const CollectiveCase& c : cases) {
    for (const std::string& name : {c.name, c.name + "_as_written"}) {
      for (RanksAs how : {RanksAs::threads, RanksAs::processes}) {
        rt::LaunchOptions launch;
        launch.world = rt::world_options(*compiled.table(name));
        std::string error;
        const auto got = run_on_ranks(
            how, launch, ir::run(c.schedule, c.inputs).outputs,
            [&](rt::World& world) {
              rt::Program program = compiled.open(name, &world);
              std::vector<ir::Tensor> out;
              for (int step = 0; step < 3; ++step)
                out = compiled.run(program, c.inputs[static_cast<std::size_t>(world.rank())]);
              return out;
            },
            &error);
        ASSERT_EQ(error, "") << name;
        expect_results(c, got, name + " compiled, by " + to_string(how));
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveForms, testing::Values(1, 2, 3, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace braid::test
