// Attention against the interpreter: compiled programs, and the products and loops of targets without a
// kernel.
#include <gtest/gtest.h>

#include "codegen/legalise.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/codegen/compiled.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"
#include "tests/support/random_attention.h"

namespace braid::test {
namespace {

constexpr ir::DType kTypes[] = {ir::DType::f32, ir::DType::f64, ir::DType::f16, ir::DType::bf16};

struct Program {
  std::string name;
  std::uint64_t seed;
  RandomWindows random;
  double tolerance;
};

double tolerance_of(ir::DType type) {
  return type == ir::DType::f64   ? 1e-12
         : type == ir::DType::f32 ? 1e-5
         : type == ir::DType::f16 ? 2e-3
                                  : 2e-2;
}

// A tolerance for long sums in f32: scores that no scale makes smaller are rounded to 2^-18, which is the
// relative error of their exponentials.
constexpr double kTolerance = 5e-5;

std::vector<Program> programs(int count, bool large) {
  std::vector<Program> out;
  for (int k = 0; k < count; ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const ir::DType type = large || seed % 2 == 0 ? ir::DType::f32 : kTypes[seed / 2 % 4];
    out.push_back({(large ? "large" : "small") + std::to_string(seed), seed,
                   random_attention(seed, type, large), large ? kTolerance : tolerance_of(type)});
  }
  return out;
}

// Everything in one library. Results have the same bits for one thread and for several.
void compile_and_compare(const std::vector<Program>& programs) {
  Compiled compiled("-O1 -march=native");
  for (const Program& p : programs) {
    ir::Schedule schedule = p.random.schedule;
    passes::run_passes(schedule, passes::default_passes());
    compiled.add_schedule(p.name, std::move(schedule), p.seed % 2 == 0);
  }
  compiled.build();
  for (const Program& p : programs) {
    SCOPED_TRACE(p.name + "\n" + ir::print(compiled.schedule(p.name)));
    const std::vector<std::vector<ir::Tensor>> inputs = {
        random_inputs(p.random.schedule.graph, p.random.dims, p.seed)};
    const auto want = ir::run(p.random.schedule, inputs).outputs[0];
    std::vector<std::vector<ir::Tensor>> got;
    for (int n : {1, 3}) {
      const ComputeThreads threads_of_case(n);
      rt::Program program = compiled.open(p.name);
      got.push_back(compiled.run(program, inputs[0]));
    }
    expect_close(got[0][0], want[0], p.tolerance, "y");
    EXPECT_EQ(got[0][0].bytes, got[1][0].bytes);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Attention, CompiledProgramsAgreeWithTheInterpreter) {
  compile_and_compare(programs(random_cases(150), false));
}

TEST(Attention, CompiledBlocksAgreeWithTheInterpreter) {
  compile_and_compare(programs(random_cases(40), true));
}

// Programs use only the kernels of the widest instruction set that this processor has; runtime tests cover
// the others. A target without a kernel gets products and loops that compute the same.
TEST(Attention, IsLegalisedToProductsAndLoops) {
  const codegen::KernelLimits none{[](const ir::Graph&, const ir::Product&) { return codegen::kAnyEpilogue; },
                                   {}};
  for (int k = 0; k < random_cases(50); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::DType type = kTypes[seed % 4];
    const RandomWindows program = random_attention(seed, type);
    const std::vector<std::vector<ir::Tensor>> inputs = {
        random_inputs(program.schedule.graph, program.dims, seed)};
    ir::Schedule schedule = program.schedule;
    ASSERT_TRUE(codegen::legalise(schedule, none));
    ASSERT_TRUE(ir::verify(schedule).empty());
    for (const ir::OpId op : ir::execution_order(schedule))
      ASSERT_EQ(schedule.graph[op].as<ir::Attention>(), nullptr);
    passes::run_passes(schedule, passes::default_passes());
    const auto want = ir::run(program.schedule, inputs).outputs[0],
               got = ir::run(schedule, inputs).outputs[0];
    expect_close(got[0], want[0], tolerance_of(type), "y");
    ASSERT_FALSE(codegen::legalise(schedule, none));
  }
}

}  // namespace
}  // namespace braid::test
