// Targets are a table: what is registered takes the whole way, and nothing else knows its name.
#include "codegen/target.h"

#include <gmock/gmock.h>

#include "codegen/temp_dir.h"
#include "driver/compile.h"
#include "ir/error.h"
#include "ir/parser.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Targets, AnUnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(codegen::find_target("tpu"), nullptr);
  CompileOptions options;
  options.target = "tpu";
  const std::string error = error_of([&] { pass_context(options); });
  EXPECT_THAT(error, HasSubstr("BR0003"));
  EXPECT_THAT(error, HasSubstr("--target tpu"));
  EXPECT_THAT(error, HasSubstr("cpu, cuda[:sm_80,sm_90]"));
}

TEST(Targets, ARegisteredOneIsAskedAtEveryStep) {
  static std::vector<std::string> asked;  // the table keeps the target
  codegen::Target target = codegen::target_named("cpu");
  target.name = "recording";
  target.first = {passes::Pass("of_its_own", [](ir::Schedule&) {
    asked.push_back("first");
    return false;
  })};
  target.limits.post_ops = [](const ir::Graph&, const ir::Product& gemm) {
    asked.push_back("limits");
    return gemm.post_ops.size();
  };
  target.emit = [](const ir::Schedule& schedule, const codegen::EmitRequest& request,
                   codegen::ProgramFolder&) -> codegen::Emitted {
    EXPECT_TRUE(schedule.plan.has_value());
    asked.push_back("emit " + request.name);
    return {request.name, 1};
  };
  codegen::register_target(target);
  EXPECT_THROW(codegen::register_target(target), ir::InternalError) << "a name is registered once";

  ir::Schedule schedule = ir::parse_schedule(
      "graph main input %x: f32[4, 8] input %w: f32[8, 2] %y: f32[4, 2] = gemm %x, %w epilogue { %0 = acc "
      "f32 "
      "%1 = tanh %0 return %1 } output %y",
      "test");
  CompileOptions options;
  options.target = "recording";
  options.name = "program";
  const codegen::TempDir temporary;
  options.output_dir = temporary.path();
  optimise(schedule, options);
  StagedProgram program(schedule, options);
  EXPECT_EQ(asked.front(), "first");
  EXPECT_EQ(asked.at(1), "limits");
  EXPECT_EQ(asked.back(), "emit program");
}

}  // namespace
}  // namespace braid::test
