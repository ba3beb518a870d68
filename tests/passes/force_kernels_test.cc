#include "passes/force_kernels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/runner.h"
#include "tests/support/user_error.h"

namespace braid::passes {
namespace {

using ::testing::HasSubstr;

// A reduction and a gather, each started, waited for, released; then a send to rank 1.
constexpr const char* kProgram = R"(graph main
ranks 2
group @g = [0, 1]

input %x: f32[64]

%a: f32[64] comm(symmetric, @g) = pointwise {
  %0 = load %x
  store %0
}
%a.1 mutates %a = all_reduce sum @g (%a) as reduce from "/mlp/AllReduce"
%a.2 mutates %a.1 = wait reduce as reduce.wait
release reduce
%all: f32[128] comm(registered, @g) = all_gather @g (%a.2) as gather
%all.1 mutates %all = wait gather as gather.wait
release gather
send @g (%all.1) peer 1 as out
wait out
release out

output %all.1
)";

std::string forced(std::vector<std::string> texts, PassContext* kept = nullptr) {
  ir::Schedule schedule = ir::parse_schedule(kProgram, "test");
  PassContext context;
  context.engine = CommEngine::shared_memory;
  std::vector<ForcedKernel> all;
  for (const std::string& t : texts) all.push_back(parse_forced_kernel(t));
  ForceKernels{all}.run(schedule, context);
  ir::check(schedule, "force_kernels");
  if (kept != nullptr) *kept = context;
  return ir::print(schedule);
}

TEST(ForceKernels, ByNameOfOperationOnnxNodeKindOrAll) {
  for (const char* name : {"reduce", "/mlp/AllReduce", "all_reduce"}) {
    EXPECT_THAT(forced({fmt::format("{}=two_shot", name)}), HasSubstr("(%a) algorithm two_shot as reduce"))
        << name;
  }
  const std::string all = forced({"*=one_shot"});
  EXPECT_THAT(all, HasSubstr("(%a) algorithm one_shot as reduce"));
  EXPECT_THAT(all, HasSubstr("(%a.2) algorithm one_shot as gather"));
  EXPECT_THAT(all, HasSubstr("send @g (%all.1) peer 1 as out"));
}

TEST(ForceKernels, TheLastOneCounts) {
  const std::string text = forced({"*=one_shot", "reduce=automatic"});
  EXPECT_THAT(text, HasSubstr("(%a) algorithm automatic as reduce"));
  EXPECT_THAT(text, HasSubstr("(%a.2) algorithm one_shot as gather"));
}

TEST(ForceKernels, AutomaticIsNotOverruledByThePass) {
  PassContext context;
  ir::Schedule schedule = ir::parse_schedule(forced({"reduce=automatic"}, &context), "test");
  context.costs = analysis::cost_model_for("cpu");
  const std::vector<Pass> list = parse_pass_list("select_kernels");
  run_passes(schedule, list, {.context = &context});
  EXPECT_THAT(ir::print(schedule), HasSubstr("(%a) algorithm automatic as reduce"));
  EXPECT_EQ(context.kernel_choices.at(0).reason, KernelReason::forced);
}

TEST(ForceKernels, BlockingDropsWaitAndReleaseAndRewiresTheirReaders) {
  const std::string text = forced({"*=one_shot:blocking"});
  EXPECT_THAT(text,
              HasSubstr("%a.1 mutates %a = all_reduce sum @g (%a) algorithm one_shot blocking as reduce"));
  EXPECT_THAT(text, HasSubstr("all_gather @g (%a.1) algorithm one_shot blocking as gather"));
  EXPECT_THAT(text, HasSubstr("send @g (%all) peer 1 as out"));
  EXPECT_THAT(text, HasSubstr("wait out"));
  EXPECT_THAT(text, HasSubstr("output %all as all.1\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("release reduce")));
}

TEST(ForceKernels, WhatCannotBeReadIsAnError) {
  for (const char* text : {"reduce", "=one_shot", "reduce=", "reduce=one_shot:async", "reduce=:blocking"})
    EXPECT_THAT(test::error_of([&] { forced({text}); }), HasSubstr("BR0586")) << text;
}

TEST(ForceKernels, AnUnknownCollectiveIsAnErrorThatListsTheKnownOnes) {
  const std::string error = test::error_of([] { forced({"/mlp/AllReduc=one_shot"}); });
  EXPECT_THAT(error, HasSubstr("BR0587"));
  EXPECT_THAT(error, HasSubstr("/mlp/AllReduce, gather, out"));
  EXPECT_THAT(test::error_of([] { forced({"broadcast=one_shot"}); }), HasSubstr("BR0587"));
}

TEST(ForceKernels, WhereNothingCanBeBlockingTheErrorSaysSo) {
  ir::Schedule schedule = ir::parse_schedule(
      "graph main ranks 2 group @g = [0, 1] input %x: f32[4] send @g (%x) peer 1 as out wait out "
      "output %x",
      "test");
  PassContext context;
  const std::vector<ForcedKernel> all = {parse_forced_kernel("*=automatic:blocking")};
  const std::string error = test::error_of([&] { ForceKernels{all}.run(schedule, context); });
  EXPECT_THAT(error, HasSubstr("BR0588"));
  EXPECT_THAT(error, HasSubstr("can be blocking"));
}

TEST(ForceKernels, AKernelThatItCannotHaveIsAnErrorThatListsWhatItHas) {
  for (const char* text : {"reduce=ring", "gather=two_shot", "gather=library", "reduce=tree",
                           "out=automatic:blocking", "*=ring"})
    EXPECT_THAT(test::error_of([&] { forced({text}); }), HasSubstr("BR0588")) << text;
  EXPECT_THAT(test::error_of([] { forced({"reduce=ring"}); }), HasSubstr("one_shot, two_shot, automatic"));
}

}  // namespace
}  // namespace braid::passes
