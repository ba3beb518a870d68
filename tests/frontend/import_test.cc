// The whole way from a file to the lowered program.
#include "frontend/import.h"

#include <gmock/gmock.h>

#include "frontend/errors.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace braid::frontend
