// Convolutions, pools and recurrent layers against the interpreter: compiled programs, and loops that take
// the place of kernels.
#include <gtest/gtest.h>

#include "codegen/legalise.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/codegen/compiled.h"
#include "tests/support/random.h"
#include "tests/support/random_windows.h"

namespace braid::test {
namespace {

std::vector<std::vector<ir::Tensor>> whole_inputs(const RandomWindows& program, std::uint64_t seed) {
  return {random_inputs(program.schedule.graph, program.dims, seed, true)};
}

// For a target without a kernel for any of them.
TEST(WindowLoops, ComputeWhatTheKernelsWould) {
  const ir::DType types[] = {ir::DType::f32, ir::DType::f64, ir::DType::i32, ir::DType::i8, ir::DType::f16};
  const codegen::KernelLimits none{[](const ir::Graph&, const ir::Product&) { return codegen::kAnyEpilogue; },
                                   {}};
  for (int k = 0; k < random_cases(150); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const ir::DType type = types[seed % 5];
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomWindows program = random_windows(seed, type);
    const auto inputs = whole_inputs(program, seed);
    const auto want = ir::run(program.schedule, inputs).outputs[0];
    ir::Schedule schedule = program.schedule;
    if (seed % 2 == 0) {
      // With epilogues.
      passes::run_passes(schedule, passes::parse_pass_list("choose_layouts,fuse_epilogues,name_post_ops"));
    }
    codegen::legalise(schedule, none);
    ir::verify(schedule);
    for (ir::OpId op : ir::execution_order(schedule)) {
      ASSERT_EQ(schedule.graph[op].as<ir::Convolution>(), nullptr);
      ASSERT_EQ(schedule.graph[op].as<ir::Pooling>(), nullptr);
    }
    const auto got = ir::run(schedule, inputs).outputs[0];
    for (std::size_t o = 0; o < want.size(); ++o)
      expect_close(got[o], want[o], type == ir::DType::f16 ? 2e-3 : 1e-6, ir::print(schedule));
    if (HasFailure()) return;
  }
}

struct WindowProgram {
  std::string name;
  std::uint64_t seed;
  RandomWindows random;
  double tolerance;
};

// Everything in one library; every second program holds itself to its memory plan.
void compile_and_compare_windows(std::vector<WindowProgram> programs) {
  Compiled compiled("-O1 -march=native");
  for (const WindowProgram& p : programs) {
    ir::Schedule schedule = p.random.schedule;
    passes::run_passes(schedule, passes::default_passes());
    compiled.add_schedule(p.name, std::move(schedule), p.seed % 2 == 0);
  }
  compiled.build();
  for (const WindowProgram& p : programs) {
    SCOPED_TRACE(p.name + "\n" + ir::print(compiled.schedule(p.name)));
    const auto inputs = whole_inputs(p.random, p.seed);
    const auto want = ir::run(p.random.schedule, inputs).outputs[0];
    rt::Program program = compiled.open(p.name);
    for (int step = 0; step < 2; ++step) {
      const auto got = compiled.run(program, inputs[0]);
      for (std::size_t o = 0; o < want.size(); ++o)
        expect_close(got[o], want[o], p.tolerance, "output " + std::to_string(o));
    }
  }
}

TEST(WindowKernels, CompiledProgramsAgreeWithTheInterpreter) {
  std::vector<WindowProgram> programs;
  for (int k = 0; k < random_cases(40); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const bool half = seed % 8 == 3, wide = seed % 8 == 5;
    const ir::DType type = half ? ir::DType::bf16 : wide ? ir::DType::f64 : ir::DType::f32;
    programs.push_back(
        {"windows" + std::to_string(seed), seed, random_windows(seed, type), half ? 2e-2 : 1e-5});
  }
  compile_and_compare_windows(std::move(programs));
}

// Repeated and reversed operands, which oneDNN does not describe.
TEST(WindowKernels, OperandsMayRepeatElementsOrRunBackwards) {
  Compiled compiled("-O1 -march=native");
  compiled.add("strides", R"(graph strides
input %x: f32[1, 6, 6, 2]
input %w: f32[1, 3, 3, 2, 4]
%y: f32[2, 4, 4, 4] output = convolution %x [2, 6, 6, 2] strides [0, 12, 2, 1], %w
%r: f32[1, 4, 4, 4] output = convolution %x at 60 [1, 6, 6, 2] strides [72, -12, 2, 1], %w
%p: f32[2, 5, 5, 2] output = pool max %x [2, 6, 6, 2] strides [0, 12, 2, 1] window [2, 2]
output %y
output %r
output %p
)");
  compiled.build();
  compiled.expect_like_interpreter("strides");
}

TEST(Recurrences, CompiledProgramsAgreeWithTheInterpreter) {
  std::vector<WindowProgram> programs;
  for (int k = 0; k < random_cases(30); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const bool half = seed % 6 == 3, wide = seed % 6 == 5;
    const ir::DType type = half ? ir::DType::f16 : wide ? ir::DType::f64 : ir::DType::f32;
    programs.push_back(
        {"recurrence" + std::to_string(seed), seed, random_recurrence(seed, type), half ? 2e-3 : 1e-5});
  }
  compile_and_compare_windows(std::move(programs));
}

// With several threads, each of which computes its columns.
TEST(Recurrences, WideLayersAgreeWithTheInterpreter) {
  std::vector<WindowProgram> programs;
  for (int k = 0; k < random_cases(16); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    programs.push_back(
        {"wide" + std::to_string(seed), seed, random_recurrence(seed, ir::DType::f32, true), 2e-5});
  }
  compile_and_compare_windows(std::move(programs));
}

// Some of the caller's threads run a layer, others do not: the layer must not wait for them.
TEST(Recurrences, RunInsideTheCallersParallelRegion) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer does not see the barrier at the end of this test's own region: "
                  "libgomp has none of its hooks";
#endif
  Compiled compiled("-O1 -march=native");
  RandomWindows random = random_recurrence(first_seed());
  for (std::uint64_t seed = first_seed(); random.schedule.graph.outputs.size() < 2; ++seed)
    random = random_recurrence(seed);
  ir::Schedule schedule = random.schedule;
  passes::run_passes(schedule, passes::default_passes());
  compiled.add_schedule("layer", std::move(schedule));
  compiled.build();
  const auto inputs = whole_inputs(random, 1);
  const auto want = ir::run(random.schedule, inputs).outputs[0];
  constexpr int kPrograms = 3;
  std::vector<rt::Program> programs;
  for (int k = 0; k < kPrograms; ++k) programs.push_back(compiled.open("layer"));
  std::vector<std::vector<ir::Tensor>> got(kPrograms);
#pragma omp parallel for num_threads(2) schedule(static, 1)
  for (int k = 0; k < kPrograms; ++k) got[k] = compiled.run(programs[k], inputs[0]);
  for (int k = 0; k < kPrograms; ++k) {
    for (std::size_t o = 0; o < want.size(); ++o) expect_close(got[k][o], want[o], 1e-5, "output");
  }
}

}  // namespace
}  // namespace braid::test
