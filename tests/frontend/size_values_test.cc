// Sizes that models compute with floats and matrices: programs take them as expressions, and the interpreter
// gives the numbers that ONNX defines.
#include <gmock/gmock.h>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;

// The outputs for an input of zeros of `sizes`.
std::vector<ir::Tensor> run_sizes(const ir::Schedule& schedule, const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (std::int64_t s : sizes) count *= s;
  const std::vector<float> zeros(static_cast<std::size_t>(count));
  const std::vector<std::vector<ir::Tensor>> inputs = {{ir::make_tensor(ir::DType::f32, sizes, zeros)}};
  return ir::run(schedule, inputs).outputs[0];
}

// Values that follow from the size n, from 1 to 20, of the input; `nodes` compute y from `size`, a vector of
// one int64.
ir::Schedule of_size(const std::string& type, const std::string& nodes) {
  return import_text("g (float[n] x) => (" + type + " y) { size = Shape(x) " + nodes + " }",
                     {.dims = {{"n", {1, 20}}}});
}

constexpr char kHalves[] =
    "two = Constant <value = float {2.0}> () f = Cast <to = 1> (size) h = Div(f, two) ";

TEST(FractionsOfSizes, AreRoundedUpDownAndTowardsZero) {
  const ir::Schedule schedule = of_size(
      "int64[3]",
      std::string(kHalves) +
          "u = Ceil(h) d = Floor(h) a = Cast <to = 7> (u) b = Cast <to = 7> (d) c = Cast <to = 7> (h) "
          "y = Concat <axis = 0> (a, b, c)");
  EXPECT_THAT(run_sizes(schedule, {7})[0].values<std::int64_t>(), ElementsAre(4, 3, 3));
  EXPECT_THAT(run_sizes(schedule, {8})[0].values<std::int64_t>(), ElementsAre(4, 4, 4));
}

TEST(FractionsOfSizes, BecomeSizes) {
  const ir::Schedule schedule = of_size("float[a]", std::string(kHalves) +
                                                        "u = Ceil(h) r = Mul(u, two) t = Cast <to = 7> (r) "
                                                        "y = ConstantOfShape(t)");
  EXPECT_THAT(run_sizes(schedule, {7})[0].sizes, ElementsAre(8));
  EXPECT_THAT(run_sizes(schedule, {8})[0].sizes, ElementsAre(8));
}

// A third of a size is rounded, but its ceiling is exact for all sizes; sums of thirds are not followed.
TEST(FractionsOfSizes, AreFollowedWhereRoundingCannotBeSeen) {
  const std::string third =
      "three = Constant <value = float {3.0}> () f = Cast <to = 1> (size) t = Div(f, three) ";
  const ir::Schedule schedule =
      of_size("float[a]", third + "u = Ceil(t) s = Cast <to = 7> (u) y = ConstantOfShape(s)");
  for (std::int64_t n = 1; n <= 20; ++n)
    EXPECT_THAT(run_sizes(schedule, {n})[0].sizes, ElementsAre((n + 2) / 3)) << n;
  const std::string end = "s = Cast <to = 7> (u) y = ConstantOfShape(s)";
  for (const std::string& nodes :
       {third + "u = Add(t, t) " + end,
        "k = Constant <value = float {0.3}> () f = Cast <to = 1> (size) u = Mul(f, k) " + end,
        "f = Cast <to = 10> (size) u = Cast <to = 1> (f) " + end}) {
    EXPECT_EQ(error_of([&] { of_size("float[a]", nodes); }).code(), errors::kDataDependentSize) << nodes;
  }
}

TEST(FractionsOfSizes, CountFloatRanges) {
  const ir::Schedule schedule = import_text(
      "g (float[n] x) => (float[a] y) { size = Size(x) limit = Cast <to = 1> (size) start = Constant <value "
      "= float {0.5}> () "
      "step = Constant <value = float {1.5}> () y = Range(start, limit, step) }",
      {.dims = {{"n", {1, 20}}}});
  EXPECT_THAT(run_sizes(schedule, {4})[0].values<float>(), ElementsAre(0.5f, 2.0f, 3.5f));
  EXPECT_THAT(run_sizes(schedule, {5})[0].values<float>(), ElementsAre(0.5f, 2.0f, 3.5f));
  EXPECT_THAT(run_sizes(schedule, {1})[0].values<float>(), ElementsAre(0.5f));
}

TEST(SizeValues, DivisionTruncatesBelowZero) {
  const ir::Schedule schedule = of_size(
      "int64[1]",
      "five = Constant <value = int64 {5}> () two = Constant <value = int64 {2}> () d = Sub(size, five) "
      "y = Div(d, two)");
  EXPECT_THAT(run_sizes(schedule, {2})[0].values<std::int64_t>(), ElementsAre(-1));
  EXPECT_THAT(run_sizes(schedule, {4})[0].values<std::int64_t>(), ElementsAre(0));
  EXPECT_THAT(run_sizes(schedule, {10})[0].values<std::int64_t>(), ElementsAre(2));
}

// PyTorch's pads come in pairs, last dimension first, which its exporter turns into ONNX's order.
TEST(SizeValues, PairsOfPadsAreReversedAndTransposed) {
  const ir::Schedule schedule = import_text(
      R"(g (float[n] x) => (float[a] y) { size = Shape(x) one = Constant <value = int64[1] {1}> ()
        pairs = Constant <value = int64[2] {-1, 2}> () flat = Constant <value = int64[1] {-1}> ()
        begin = Constant <value = int64[1] {-1}> () end = Constant <value = int64[1] {-9223372036854775807}> ()
        axis = Constant <value = int64[1] {0}> () given = Concat <axis = 0> (one, size)
        m = Reshape(given, pairs) r = Slice(m, begin, end, axis, begin) t = Transpose <perm = [1, 0]> (r)
        p = Reshape(t, flat) y = Pad(x, p) })",
      {.dims = {{"n", {1, 20}}}});
  EXPECT_THAT(run_sizes(schedule, {4})[0].sizes, ElementsAre(9));
}

TEST(SizeValues, RowsAndColumnsOfMatrices) {
  const ir::Schedule schedule = import_text(
      R"(g (float[n, m] x) => (int64[1, 3] row, int64[2] column, int64[1, 2] part) { size = Shape(x)
        s = Constant <value = int64[2] {1, 2}> () k = Constant <value = int64[2, 1] {7, 8}> ()
        line = Reshape(size, s) lines = Concat <axis = 0> (line, line) all = Concat <axis = 1> (lines, k)
        first = Constant <value = int64[1] {0}> () one = Constant <value = int64 {1}> () row = Gather <axis = 0> (all, first)
        column = Gather <axis = 1> (all, one) two = Constant <value = int64[2] {1, 1}> () end = Constant <value = int64[2] {2, 3}> ()
        part = Slice(all, two, end) })",
      {.dims = {{"n", {1, 20}}, {"m", {1, 20}}}});
  const std::vector<ir::Tensor> y = run_sizes(schedule, {4, 5});
  EXPECT_THAT(y[0].values<std::int64_t>(), ElementsAre(4, 5, 7));
  EXPECT_THAT(y[1].values<std::int64_t>(), ElementsAre(5, 5));
  EXPECT_THAT(y[2].values<std::int64_t>(), ElementsAre(5, 8));
}

// ONNX's inference takes a start or end that it does not know for 0.
TEST(SizesOfUnknownValues, OfASliceAreThoseThatItTakes) {
  const ir::Schedule schedule = import_text(
      "g (float[2,3,n] x) => (float[a,b] y) { one = Constant <value = int64[1] {1}> () start = Abs(one) "
      "end = Constant <value = int64[1] {2}> () rest = Constant <value = int64[1] {-1}> () all = Shape(x) "
      "middle = Slice(all, start, end) sizes = Concat <axis = 0> (middle, rest) y = Reshape(x, sizes) }",
      {.dims = {{"n", {1, 20}}}});
  EXPECT_THAT(run_sizes(schedule, {2, 3, 5})[0].sizes, ElementsAre(3, 10));
}

// It refuses a Resize of whose sizes it does not even know how many they are.
TEST(SizesOfUnknownValues, OfAResize) {
  const ir::Schedule schedule = import_text(
      "g (float[1,2,n,4] x) => (float[a,b,c,d] y) { zero = Constant <value = int64[1] {0}> () "
      "two = Constant <value = int64[1] {2}> () end = Abs(two) "
      "twice = Constant <value = int64[2] {6, 8}> () all = Shape(x) kept = Slice(all, zero, end) "
      "sizes = Concat <axis = 0> (kept, twice) "
      "y = Resize <mode = \"nearest\", nearest_mode = \"floor\", coordinate_transformation_mode = "
      "\"asymmetric\"> (x, , , sizes) }",
      {.dims = {{"n", {1, 20}}}});
  EXPECT_THAT(run_sizes(schedule, {1, 2, 3, 4})[0].sizes, ElementsAre(1, 2, 6, 8));
}

}  // namespace
}  // namespace braid::frontend
