// Memory that a target's kernels need beside their operands is planned: the program's arena is the plan's,
// and a memory cap holds for it.
#include "codegen/legalise.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "codegen/cpp/emit.h"
#include "codegen/cuda/emit.h"
#include "driver/compile.h"
#include "ir/error.h"
#include "ir/fused_loops.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/plan_memory.h"
#include "tests/codegen/compiled.h"
#include "tests/support/random_graph.h"

namespace braid::test {
namespace {

// Sums of another type than the result: neither target's library finishes them.
// Rows of an odd length, so that no kernel of the program's own takes the product.
const char* kHalves = R"(graph main
dim n in [1, 40]
input %x: f16[n, 47]
input %w: f16[47, 80]
%y: f16[n, 80] = gemm %x, %w epilogue { %0 = acc f32 %1 = sin %0 %2 = cast f16 %1 return %2 }
%z: f16[n] = reduction max over [80] { %0 = load %y store %0 }
output %z
)";

// Rows of 256 KB that three members hand to each other: more than a block's shared memory.
const char* kLongRows = R"(graph main
dim n in [1, 8]
input %x: f32[n, 65536]
%m: f32[n] = reduction max over [65536] { %0 = load %x store %0 }
%e: f32[n, 65536] = pointwise { %0 = load %x %1 = load %m[i0] %2 = sub %0, %1 %3 = exp %2 store %3 }
%s: f32[n] = reduction sum over [65536] { %0 = load %e store %0 }
%y: f32[n, 65536] = pointwise { %0 = load %e %1 = load %s[i0] %2 = div %0, %1 store %2 }
output %y
)";

// A target whose products apply no step.
TEST(LegalisedSums, AreStoredRoundedOnlyWhereTheEpilogueSeesThemSo) {
  const codegen::KernelLimits none{[](const ir::Graph&, const ir::Product&) { return std::size_t{0}; }};
  const auto stored = [&](const std::string& epilogue) {
    ir::Schedule schedule = ir::parse_schedule(
        "graph main\ninput %x: f16[3, 4]\ninput %w: f16[4, 5]\n%y: f16[3, 5] output = gemm %x, %w epilogue "
        "{" +
            epilogue + "}\noutput %y\n",
        "test");
    const std::vector<std::vector<ir::Tensor>> inputs = {random_inputs(schedule.graph, {}, 1, true)};
    const auto want = ir::run(schedule, inputs).outputs[0];
    codegen::legalise(schedule, none);
    EXPECT_EQ(ir::run(schedule, inputs).outputs[0], want) << epilogue;
    const ir::ScheduleNode& first = schedule.nodes.front();
    return schedule.graph[schedule.graph[first.op].outputs[0]].dtype;
  };
  EXPECT_EQ(stored("%0 = acc f32 %1 = cast f16 %0 %2 = sin %1 return %2"), ir::DType::f16);
  EXPECT_EQ(stored("%0 = acc f32 %1 = sin %0 %2 = cast f16 %1 return %2"), ir::DType::f32);
  EXPECT_EQ(stored("%0 = acc f32 %1 = cast f16 %0 %2 = cast f32 %1 %3 = mul %0, %0 %4 = sub %2, %3 %5 = sin "
                   "%4 %6 = cast f16 %5 return %6"),
            ir::DType::f32);
}

class Legalise : public ::testing::TestWithParam<std::string> {
 protected:
  static ir::Schedule optimised(ir::Schedule schedule, const std::optional<std::string>& passes = {},
                                std::optional<std::int64_t> cap = {}) {
    CompileOptions options;
    options.target = GetParam();
    options.passes = passes;
    options.memory_cap = cap;
    optimise(schedule, options);
    return schedule;
  }
  static std::int64_t arena_of_program(const ir::Schedule& schedule) {
    if (GetParam() == "cuda") return codegen::cuda::emit_cuda(schedule).arena_bytes;
    return codegen::cpp::emit_cpp(schedule).manifest->at("arena_bytes").get<std::int64_t>();
  }
  static std::int64_t planned(const ir::Schedule& schedule) {
    return schedule.plan->arena_bytes + schedule.plan->comm_bytes;
  }
};

INSTANTIATE_TEST_SUITE_P(Codegen, Legalise, ::testing::Values("cpu", "cuda"),
                         [](const auto& info) { return info.param == "cpu" ? "Cpp" : "Cuda"; });

TEST_P(Legalise, SumsOfAnotherTypeThanTheResultArePlanned) {
  for (const char* passes : {"plan_memory", "fuse_epilogues,fuse_vertical,plan_memory"}) {
    const ir::Schedule schedule = optimised(ir::parse_schedule(kHalves, "test"), passes);
    EXPECT_GE(schedule.plan->arena_bytes, 40 * 80 * 4) << passes;
    EXPECT_EQ(arena_of_program(schedule), schedule.plan->arena_bytes) << passes;
  }
}

TEST_P(Legalise, ATextThatBringsAPlanIsPlannedAgain) {
  ir::Schedule schedule = ir::parse_schedule(kHalves, "test");
  passes::PlanMemory().run(schedule);
  const std::int64_t before = schedule.plan->arena_bytes;
  schedule = optimised(schedule, "");
  EXPECT_GT(schedule.plan->arena_bytes, before);
  EXPECT_EQ(arena_of_program(schedule), schedule.plan->arena_bytes);
}

// The sine becomes a loop after the product, and only then can it join the softmax of long rows.
TEST_P(Legalise, NodesThatLeftoversJoinAreLegalBeforeTheyArePlanned) {
  ir::Schedule schedule = ir::parse_schedule(
      "graph main dim n in [1, 8] input %x: f32[n, 16] input %w: f32[16, 65536]\n"
      "%y: f32[n, 65536] = gemm %x, %w epilogue { %0 = acc f32 %1 = sin %0 return %1 }\n"
      "%s: f32[n] = reduction sum over [65536] { %0 = load %y store %0 }\n"
      "%z: f32[n, 65536] = pointwise { %0 = load %y %1 = load %s[i0] %2 = div %0, %1 store %2 } output %z",
      "test");
  CompileOptions options;
  options.target = GetParam();
  const codegen::KernelLimits& limits = codegen::target_named(options.target).limits;
  const auto is_legal = [&](const ir::Schedule& s) {
    return std::ranges::all_of(s.nodes, [&](const ir::ScheduleNode& node) {
      return node.kind != ir::ScheduleNode::Kind::fused || !limits.one_kernel ||
             limits.one_kernel(s.graph, *ir::analyse_fused(s.graph, ops_of(node)));
    });
  };
  std::string runs, planned;
  options.run.observers.push_back([&](const passes::PassRun& run) {
    if (run.pass.name() == "fuse_vertical" || run.pass.name() == "legalise")
      runs += fmt::format("{}: {} nodes{}\n", run.pass.name(), run.after.nodes.size(),
                          is_legal(run.after) ? "" : ", illegal");
    if (run.pass.name() == "plan_memory") planned = ir::print(run.after);
  });
  optimise(schedule, options);
  // The product, the sine, and the sum with its division, which hands no row on until the sine is in the same
  // node.
  EXPECT_EQ(runs, "fuse_vertical: 2 nodes\nlegalise: 3 nodes\nfuse_vertical: 2 nodes" +
                      std::string(GetParam() == "cuda" ? ", illegal\nlegalise: 4 nodes\n"
                                                       : "\nlegalise: 2 nodes\n"));
  EXPECT_TRUE(is_legal(schedule));
  EXPECT_EQ(ir::print(schedule), planned);  // nothing was left to do after the passes
}

TEST_P(Legalise, WhatIsLegalStaysAsItIs) {
  for (const char* text : {kHalves, kLongRows}) {
    const ir::Schedule once = optimised(ir::parse_schedule(text, "test"));
    EXPECT_EQ(ir::print(optimised(once, "plan_memory")), ir::print(once));
    EXPECT_TRUE(ir::verify(once).empty());
  }
}

// The only product of the program and what it applies itself: "add_vector relu".
std::string applied(const ir::Schedule& schedule) {
  std::string text;
  for (const ir::Operation& op : schedule.graph.ops) {
    const auto* gemm = op.as<ir::Gemm>();
    if (gemm == nullptr) continue;
    for (const ir::PostOp& step : gemm->post_ops)
      text += (text.empty() ? "" : " ") + std::string(to_string(step.kind));
  }
  return text;
}

TEST_P(Legalise, TheRestOfAnEpilogueWorksInTheResultsMemory) {
  const ir::Schedule schedule = optimised(ir::parse_schedule(
      "graph main dim n in [1, 40] input %x: f32[n, 48] input %w: f32[48, 80] %y: f32[n, 80] = gemm %x, %w "
      "epilogue { %0 = acc f32 %1 = sin %0 return %1 } output %y",
      "test"));
  EXPECT_EQ(schedule.graph.ops.size(), 2u);
  EXPECT_EQ(applied(schedule), "");
  EXPECT_EQ(schedule.plan->arena_bytes, 40 * 80 * 4);
}

TEST_P(Legalise, AProductAppliesTheStepsThatItsLibraryHasAndALoopTheRest) {
  const auto product = [](const char* steps, const char* type = "f32") {
    return optimised(ir::parse_schedule(
        fmt::format(
            "graph main dim n in [1, 40] input %x: {0}[n, 47] input %w: {0}[47, 80] input %b: {0}[80] "
            "%y: {0}[n, 80] = gemm %x, %w epilogue {{ %0 = acc f32 {1} }} output %y",
            type, steps),
        "test"));
  };
  // One after the other, the last without a name.
  const ir::Schedule split = product(
      "%1 = load %b[i1] %2 = add %0, %1 %3 = constant f32 0 %4 = max %2, %3 %5 = sin %4 %6 = add %5, %1 "
      "return %6");
  EXPECT_EQ(applied(split), "add_vector relu");
  EXPECT_EQ(split.graph.ops.size(), 2u);
  EXPECT_EQ(split.plan->arena_bytes, 40 * 80 * 4);
  EXPECT_EQ(
      applied(product("%1 = load %b[i1] %2 = add %0, %1 %3 = constant f32 0 %4 = max %2, %3 return %4")),
      "add_vector relu");
  // Five steps of which no library has the last.
  const ir::Schedule long_one = product(
      "%1 = load %b[i1] %2 = add %0, %1 %3 = constant f32 0.5 %4 = mul %2, %3 %5 = tanh %4 %6 = add %5, %1 "
      "%7 = sigmoid %6 return %7");
  EXPECT_EQ(applied(long_one), GetParam() == "cpu" ? "add_vector scale tanh add_vector" : "add_vector");
  // Rounded to a half type between the steps: the loop has all of it.
  const ir::Schedule half = product(
      "%1 = load %b[i1] %2 = cast f32 %1 %3 = add %0, %2 %4 = sin %3 %5 = cast f16 %4 "
      "return %5",
      "f16");
  EXPECT_EQ(applied(half), "");
  EXPECT_EQ(half.plan->arena_bytes, 40 * 80 * (4 + 2));
}

// The rest of an epilogue has memory of its own, so a node that contains all its readers keeps it in
// registers.
TEST_P(Legalise, TheRestOfAnEpilogueThatOnlyItsNodeReadsIsNotStored) {
  const ir::Schedule schedule = optimised(ir::parse_schedule(
      "graph main dim n in [1, 8] input %x: f32[n, 16] input %w: f32[16, 64]\n"
      "%y: f32[n, 64] = gemm %x, %w epilogue { %0 = acc f32 %1 = sin %0 return %1 }\n"
      "%s: f32[n] = reduction sum over [64] { %0 = load %y store %0 }\n"
      "%z: f32[n, 64] = pointwise { %0 = load %y %1 = load %s[i0] %2 = div %0, %1 store %2 } output %z",
      "test"));
  ASSERT_EQ(schedule.nodes.size(), 2u);
  const std::vector<std::vector<ir::BufferId>> of_nodes = ir::local_buffers(schedule);
  std::vector<std::string> local;
  for (ir::BufferId id : of_nodes[1]) local.push_back(schedule.graph[id].name);
  EXPECT_EQ(local, (std::vector<std::string>{"y", "s"}));
  EXPECT_EQ(schedule.plan->arena_bytes, 8 * 64 * 4);
}

// Everything that is drawn, and what legalisation rewrites: the plan is the program's arena, exactly enough
// is enough, and what is refused or not never takes more than the cap.
TEST_P(Legalise, OutputsHaveRowMajorMemoryOfTheirOwn) {
  const ir::Schedule schedule = optimised(ir::parse_schedule(kOutputsToCopy));
  const ir::Graph& graph = schedule.graph;
  for (const ir::GraphOutput& output : graph.outputs) {
    EXPECT_NE(graph[ir::root_storage(graph, output.buffer)].kind, ir::StorageKind::input) << output.name;
    EXPECT_TRUE(ir::is_contiguous(graph[output.buffer].sizes, ir::strides_of(graph, output.buffer)));
  }
  EXPECT_NO_THROW(arena_of_program(schedule));
  const std::size_t nodes = schedule.nodes.size();
  EXPECT_EQ(optimised(schedule, "plan_memory").nodes.size(), nodes);
}

TEST_P(Legalise, ACapHoldsForTheProgramsArena) {
  std::vector<std::pair<std::string, ir::Schedule>> programs = {
      {"halves", ir::parse_schedule(kHalves, "test")}, {"long rows", ir::parse_schedule(kLongRows, "test")}};
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    programs.emplace_back(fmt::format("seed {}", seed), random_program(seed, 18).schedule);
  int refused = 0, missed = 0;
  for (const auto& [name, program] : programs) {
    SCOPED_TRACE(name);
    for (const std::optional<std::string>& list :
         {std::optional<std::string>(),
          std::optional<std::string>("fuse_epilogues,fuse_vertical,plan_memory")}) {
      const ir::Schedule free = optimised(program, list);
      const std::int64_t needed = planned(free);
      ASSERT_EQ(arena_of_program(free), free.plan->arena_bytes);
      // In one order, the plan's bytes are enough. The search for orders within a cap may miss the one that
      // it finds without, since later passes move what it has placed; then it refuses.
      try {
        const ir::Schedule capped = optimised(program, list, needed);
        ASSERT_LE(arena_of_program(capped) + capped.plan->comm_bytes, needed);
      } catch (const ir::UserError& e) {
        EXPECT_EQ(e.code(), 570) << e.what();
        EXPECT_FALSE(list) << e.what();
        ++missed;
      }
      if (needed == 0) continue;
      try {
        const ir::Schedule less = optimised(program, list, needed - 1);
        EXPECT_FALSE(list) << "in one order, less than the plan is too little";
        EXPECT_LE(arena_of_program(less) + less.plan->comm_bytes, needed - 1);
      } catch (const ir::UserError& e) {
        EXPECT_EQ(e.code(), 570) << e.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 40);
  EXPECT_LE(missed, 2);
}

TEST(LegalisedProgram, ComputesWhatTheInterpreterDoes) {
  Compiled compiled;
  compiled.add("halves", kHalves);
  // The epilogue reads the memory that its result goes to.
  compiled.add("accumulates", R"(graph main
dim n in [1, 40]
input %x: f32[n, 48]
input %w: f32[48, 80]
input %r: f32[n, 80]
%s: f32[n, 80] = pointwise { %0 = load %r %1 = exp %0 store %1 }
%s.1 mutates %s = gemm %x, %w epilogue { %0 = acc f32 %1 = load %s %2 = sub %1, %0 return %2 }
%y: f32[n] = reduction sum over [80] { %0 = load %s.1 store %0 }
output %y
)",
               "plan_memory");
  EXPECT_EQ(compiled.schedule("accumulates").graph.ops.size(), 4u);
  // Two steps of the product, then a loop in place; one that names the accumulator twice; one whose result is
  // a part of a buffer.
  compiled.add("split", R"(graph main
dim n in [1, 40]
input %x: f32[n, 48]
input %w: f32[48, 80]
input %b: f32[80]
buffer %q: f32[n, 100]
%s: f32[n, 80] = gemm %x, %w epilogue {
  %0 = acc f32
  %1 = load %b[i1]
  %2 = add %0, %1
  %3 = tanh %2
  %4 = sin %3
  %5 = mul %4, %3
  return %5
}
%t: f32[n, 80] = gemm %x, %w epilogue {
  %0 = acc f32
  %1 = acc f32
  %2 = sin %0
  %3 = add %1, %2
  return %3
}
%p: f32[n, 80] in %q at 20 strides [100, 1] = gemm %x, %w epilogue {
  %0 = acc f32
  %1 = load %t
  %2 = add %0, %1
  %3 = cos %2
  return %3
}
%u: f32[n, 80] = gemm %x, %w epilogue {
  %0 = acc f32
  %1 = cast i64 %0
  %2 = constant i64 0
  %3 = max %1, %2
  %4 = constant i64 79
  %5 = min %3, %4
  %6 = constant f32 0.0
  %7 = max %0, %6
  %8 = load %b[%5]
  %9 = add %7, %8
  return %9
}
%z: f32[n, 20] in %q strides [100, 1] = pointwise { %0 = load %s[80*i0 + i1] store %0 }
output %q
output %u
)",
               "plan_memory");
  // Constants that their types round, to 0 and elsewhere.
  compiled.add("narrow_constants", R"(graph main
dim n in [1, 40]
input %x: f32[n, 48]
input %w: f32[48, 80]
%y: f32[n, 80] = gemm %x, %w epilogue {
  %0 = acc f32
  %1 = constant bf16 0.1001
  %2 = cast f32 %1
  %3 = mul %0, %2
  %4 = constant f16 1e-9
  %5 = cast f32 %4
  %6 = add %3, %5
  return %6
}
%z: f32[n, 80] = pointwise { %0 = load %y %1 = constant f16 1e-9 %2 = cast f32 %1 %3 = mul %0, %2 store %3 }
output %y
output %z
)",
               "plan_memory");
  compiled.add("outputs", kOutputsToCopy, "plan_memory");
  for (int n : {0, 1, 5}) compiled.expect_like_interpreter("outputs", {{"n", n}});
  for (int n : {1, 2, 40}) {
    compiled.expect_like_interpreter("narrow_constants", {{"n", n}}, 2e-6);
    compiled.expect_like_interpreter("halves", {{"n", n}}, 2e-3);
    compiled.expect_like_interpreter("accumulates", {{"n", n}}, 1e-4);
    compiled.expect_like_interpreter("split", {{"n", n}}, 1e-4);
  }
}

}  // namespace
}  // namespace braid::test
