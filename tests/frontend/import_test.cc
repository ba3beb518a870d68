// The whole way from a file to the lowered program.
#include "frontend/import.h"

#include <gmock/gmock.h>

#include "ir/printer.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kMlp[] =
    "g (float[batch, 3] x) => (float[batch, 2] y) <float[3, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[4] b "
    "= {1,2,3,4}, "
    "float[4, 2] v = {1,2,3,4,5,6,7,8}> { [up] h = MatMul(x, w) [bias] a = Add(h, b) [act] r = Relu(a) "
    "[down] y = MatMul(r, v) }";

TEST(Import, MlpIsTwoGemmsAndOneLoop) {
  const ir::Schedule schedule = import_text(kMlp, {.dims = {{"batch", {1, 8}}}});
  int gemms = 0, loops = 0;
  for (const ir::Operation& op : schedule.graph.ops) {
    gemms += op.as<ir::Gemm>() != nullptr;
    loops += op.as<ir::Loops>() != nullptr;
  }
  EXPECT_EQ(gemms, 2);
  EXPECT_EQ(loops, 1) << print(schedule);
}

TEST(Import, SameFileGivesTheSameText) {
  const ImportOptions options{.dims = {{"batch", {1, 8}}}};
  EXPECT_EQ(print(import_text(kMlp, options)), print(import_text(kMlp, options)));
}

// Only the branch taken may need an operator that is not there.
TEST(Import, TheBranchNotTakenIsNotLowered) {
  const ir::Schedule schedule = import_text(
      "g (float[2] x) => (float[n] y) { c = Constant <value = bool {0}> () y = If (c) "
      "<then_branch = t () => (float[n] a) { a = RandomNormalLike(x) }, "
      "else_branch = f () => (float[m] b) { b = Abs(x) }> }");
  EXPECT_THAT(print(schedule), HasSubstr("= abs"));
}

// Index vectors put together from positions are read component by component, without checks.
TEST(Import, GatherNdOfKnownPositionsReadsDirectly) {
  const ir::Schedule schedule = import_text(
      "g (float[n, n] x) => (float[n] y) { z = Constant <value_int = 0> () o = Constant <value_int = 1> () "
      "s = Shape(x) n = Gather(s, z) r = Range(z, n, o) m = Constant <value_ints = [-1]> () u = Unsqueeze(r, "
      "m) "
      "at = Concat <axis = 1> (u, u) y = GatherND(x, at) }",
      {.dims = {{"n", {1, 8}}}});
  EXPECT_THAT(print(schedule), Not(HasSubstr("check_index")));
}

}  // namespace
}  // namespace braid::frontend
