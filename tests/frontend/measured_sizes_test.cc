// Sizes that only the data of a step tell, by the interpreter and, where it says so, after the passes.
#include "frontend/measured_sizes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

ir::Tensor measured_ints(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  return ir::make_tensor(ir::DType::i64, std::move(sizes), values);
}
ir::Tensor measured_bools(const std::vector<std::uint8_t>& values) {
  return ir::make_tensor(ir::DType::boolean, {static_cast<std::int64_t>(values.size())}, values);
}

// As imported and after the passes, which must agree.
class MeasuredModel {
 public:
  explicit MeasuredModel(const std::string& graph, const ImportOptions& options = {}, int opset = 19)
      : plain_(import_text(graph, options, opset)), optimised_(plain_) {
    passes::run_passes(optimised_, passes::default_passes(), {});
  }
  std::vector<ir::Tensor> operator()(std::vector<ir::Tensor> inputs) const {
    const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
    std::vector<ir::Tensor> out = ir::run(plain_, per_rank).outputs[0];
    EXPECT_EQ(ir::run(optimised_, per_rank).outputs[0], out);
    return out;
  }
  const ir::Graph& graph() const { return plain_.graph; }

 private:
  ir::Schedule plain_, optimised_;
};

TEST(MeasuredSizes, NonZeroFindsPositionsInOrder) {
  const MeasuredModel model("g (float[n, 3] x) => (int64[2, found] y) { y = NonZero (x) }",
                            {.dims = {{"n", {0, 4}}}});
  const std::vector<ir::Tensor> some = model({floats({2, 3}, {0, 1, 0, -2, 0, 3})});
  EXPECT_THAT(some[0].sizes, ElementsAre(2, 3));
  EXPECT_THAT(some[0].values<std::int64_t>(), ElementsAre(0, 1, 1, 1, 0, 2));
  EXPECT_THAT(model({floats({1, 3}, {0, 0, 0})})[0].sizes, ElementsAre(2, 0));
  EXPECT_THAT(model({floats({0, 3}, {})})[0].sizes, ElementsAre(2, 0));
  EXPECT_EQ(ir::bounds(model.graph().dims.back()).max, 12);
}

TEST(MeasuredSizes, NonZeroOfAScalarHasNoRows) {
  const MeasuredModel model("g (float x) => (int64[0, found] y) { y = NonZero (x) }");
  EXPECT_THAT(model({floats({}, {2})})[0].sizes, ElementsAre(0, 1));
  EXPECT_THAT(model({floats({}, {0})})[0].sizes, ElementsAre(0, 0));
}

TEST(MeasuredSizes, CompressKeepsSlicesAndChecksThem) {
  const MeasuredModel model(
      "g (float[2, n] x, bool[c] keep) => (float[2, kept] y) { y = Compress <axis = 1> (x, keep) }",
      {.dims = {{"n", {0, 4}}, {"c", {0, 5}}}});
  const ir::Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<ir::Tensor> out = model({x, measured_bools({1, 0, 1})});
  EXPECT_THAT(out[0].sizes, ElementsAre(2, 2));
  EXPECT_THAT(out[0].values<float>(), ElementsAre(1, 3, 4, 6));
  EXPECT_THAT(model({x, measured_bools({0, 1})})[0].values<float>(), ElementsAre(2, 5));  // a short condition
  EXPECT_THAT(model({x, measured_bools({0, 1, 0, 0, 0})})[0].values<float>(), ElementsAre(2, 5));
  EXPECT_THROW(model({x, measured_bools({0, 0, 0, 1})}), ir::UserError);
}

TEST(MeasuredSizes, ShapesOfResultsAreExpressions) {
  const MeasuredModel model(R"(g (float[6] x) => (float[found] y, int64[1] count) {
    positions = NonZero (x) minus = Constant <value = int64[1] {-1}> () flat = Reshape (positions, minus)
    shape = Shape (flat) ones = ConstantOfShape <value = float[1] {1}> (shape) some = Gather (x, flat)
    y = Add (some, ones) count = Identity (shape) })");
  const std::vector<ir::Tensor> out = model({floats({6}, {0, 2, 0, 0, 3, 4})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(3, 4, 5));
  EXPECT_THAT(out[1].values<std::int64_t>(), ElementsAre(3));
}

TEST(MeasuredSizes, RangesOfValues) {
  const MeasuredModel integers("g (int64 a, int64 l, int64 d) => (int64[n] y) { y = Range (a, l, d) }",
                               {.capacities = {{"y", 8}}});
  const auto range = [&](std::int64_t a, std::int64_t l, std::int64_t d) {
    return integers({measured_ints({}, {a}), measured_ints({}, {l}), measured_ints({}, {d})})[0]
        .values<std::int64_t>();
  };
  for (const std::int64_t d : {-3, -1, 1, 2, 5}) {
    for (std::int64_t a = -4; a <= 4; ++a) {
      for (std::int64_t l = -4; l <= 4; ++l) {
        std::vector<std::int64_t> want;
        for (std::int64_t v = a; d > 0 ? v < l : v > l; v += d) want.push_back(v);
        EXPECT_THAT(range(a, l, d), ElementsAreArray(want)) << a << " " << l << " " << d;
      }
    }
  }
  const MeasuredModel reals("g (float a, float l, float d) => (float[n] y) { y = Range (a, l, d) }",
                            {.capacities = {{"y", 8}}});
  const auto real = [&](float a, float l, float d) {
    return reals({floats({}, {a}), floats({}, {l}), floats({}, {d})})[0].values<float>();
  };
  EXPECT_THAT(real(1, 2.2f, 0.5f), ElementsAre(1, 1.5f, 2));
  EXPECT_THAT(real(2, 1, 0.5f), ElementsAre());
  EXPECT_THAT(real(0, std::nanf(""), 1), ElementsAre());
  EXPECT_THROW(real(0, 1, 0), ir::UserError);  // infinitely many
}

TEST(MeasuredSizes, ACapacityIsNeededWhereTheOperatorHasNone) {
  const std::string range = "g (int64 a, int64 l, int64 d) => (int64[n] y) { y = Range (a, l, d) }";
  const ir::UserError error = error_of([&] { import_text(range); });
  EXPECT_EQ(error.code(), errors::kDataDependentSize);
  EXPECT_THAT(error.hint(), HasSubstr("--capacity 'y=N'"));
  const ir::UserError unused = error_of([&] { import_text(range, {.capacities = {{"y", 3}, {"z", 3}}}); });
  EXPECT_EQ(unused.code(), errors::kInvalidDimension);
  EXPECT_THAT(unused.what(), HasSubstr("'z', which is no size that the data decide"));
  const MeasuredModel small(range, {.capacities = {{"y", 2}}});
  EXPECT_THROW(small({measured_ints({}, {0}), measured_ints({}, {3}), measured_ints({}, {1})}),
               ir::UserError);
}

// Every start and end, also far outside, for steps of both signs.
TEST(MeasuredSizes, SlicesBetweenValues) {
  for (const std::int64_t step : {1, 2, -1, -3}) {
    const std::string text =
        "g (float[n] x, int64[1] a, int64[1] b) => (float[m] y) { axes = Constant <value = int64[1] {0}> () "
        "steps = Constant <value = int64[1] {" +
        std::to_string(step) + "}> () y = Slice (x, a, b, axes, steps) }";
    const MeasuredModel model(text, {.dims = {{"n", {0, 5}}}});
    for (std::int64_t n = 0; n <= 5; n += 5) {
      std::vector<float> values(static_cast<std::size_t>(n));
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k);
      for (std::int64_t a = -7; a <= 7; ++a) {
        for (std::int64_t b = -7; b <= 7; ++b) {
          const auto clamp = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
            return std::min(std::max(at < 0 ? at + n : at, low), high);
          };
          const std::int64_t from = step > 0 ? clamp(a, 0, n) : clamp(a, 0, n - 1),
                             to = step > 0 ? clamp(b, 0, n) : clamp(b, -1, n - 1);
          std::vector<float> want;
          for (std::int64_t k = from; step > 0 ? k < to : k > to; k += step)
            want.push_back(static_cast<float>(k));
          EXPECT_THAT(model({floats({n}, values), measured_ints({1}, {a}), measured_ints({1}, {b})})[0]
                          .values<float>(),
                      ElementsAreArray(want))
              << n << " [" << a << ":" << b << ":" << step << "]";
        }
      }
    }
  }
}

TEST(MeasuredSizes, TopKOfAsManyAsAValueSays) {
  const MeasuredModel model("g (float[4] x, int64[1] k) => (float[m] y, int64[m] i) { y, i = TopK (x, k) }");
  const ir::Tensor x = floats({4}, {2, 4, 1, 3});
  EXPECT_THAT(model({x, measured_ints({1}, {3})})[0].values<float>(), ElementsAre(4, 3, 2));
  EXPECT_THAT(model({x, measured_ints({1}, {0})})[0].values<float>(), ElementsAre());
  EXPECT_THROW(model({x, measured_ints({1}, {5})}), ir::UserError);
}

TEST(MeasuredSizes, ExpandRepeatsOrKeeps) {
  const MeasuredModel model("g (float[1, 3] x, int64[2] s) => (float[a, b] y) { y = Expand (x, s) }",
                            {.capacities = {{"s.0", 4}, {"s.1", 4}}});
  const ir::Tensor x = floats({1, 3}, {1, 2, 3});
  EXPECT_THAT(model({x, measured_ints({2}, {2, 3})})[0].values<float>(), ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_THAT(model({x, measured_ints({2}, {2, 1})})[0].values<float>(), ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_THROW(model({x, measured_ints({2}, {2, 2})}), ir::UserError);
}

TEST(MeasuredSizes, ReshapeCopiesAndTakesTheRest) {
  const MeasuredModel model("g (float[2, 3] x, int64[2] s) => (float[a, b] y) { y = Reshape (x, s) }",
                            {.default_capacity = 6});
  const ir::Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto sizes = [&](std::int64_t a, std::int64_t b) {
    return model({x, measured_ints({2}, {a, b})})[0].sizes;
  };
  EXPECT_THAT(sizes(3, 2), ElementsAre(3, 2));
  EXPECT_THAT(sizes(-1, 2), ElementsAre(3, 2));
  EXPECT_THAT(sizes(6, -1), ElementsAre(6, 1));
  EXPECT_THAT(sizes(0, -1), ElementsAre(2, 3));
  EXPECT_THAT(sizes(-1, 0), ElementsAre(2, 3));
  EXPECT_THROW(sizes(4, 2), ir::UserError);
  EXPECT_THROW(sizes(4, -1), ir::UserError);
  EXPECT_THROW(sizes(-2, -3), ir::UserError);
  EXPECT_THROW(sizes(-1, -1), ir::UserError);
}

TEST(MeasuredSizes, UniqueSlices) {
  const MeasuredModel model(
      R"(g (float[n, 2] x) => (float[u, 2] y, int64[u] first, int64[n] inverse, int64[u] counts) {
    y, first, inverse, counts = Unique <axis = 0, sorted = 1> (x) })",
      {.dims = {{"n", {0, 4}}}});
  const std::vector<ir::Tensor> out = model({floats({4, 2}, {3, 1, 1, 2, 3, 1, 1, 1})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(1, 1, 1, 2, 3, 1));
  EXPECT_THAT(out[1].values<std::int64_t>(), ElementsAre(3, 1, 0));
  EXPECT_THAT(out[2].values<std::int64_t>(), ElementsAre(2, 1, 2, 0));
  EXPECT_THAT(out[3].values<std::int64_t>(), ElementsAre(1, 1, 2));
  EXPECT_THAT(model({floats({0, 2}, {})})[0].sizes, ElementsAre(0, 2));
}

TEST(MeasuredSizes, NonMaxSuppressionOfImagesAndClasses) {
  const MeasuredModel model(R"(g (float[2, n, 4] boxes, float[2, 2, n] scores) => (int64[m, 3] y) {
    most = Constant <value = int64[1] {2}> () share = Constant <value = float[1] {0.5}> ()
    y = NonMaxSuppression (boxes, scores, most, share) })",
                            {.dims = {{"n", {1, 3}}}});
  std::vector<float> boxes, scores = {.9f, .8f, .7f, .1f, .2f, .3f, .5f, .5f, .5f, 0, 0, 0};
  for (int image = 0; image < 2; ++image) boxes.insert(boxes.end(), {0, 0, 1, 1, 0, 0, 1, 1.1f, 2, 2, 3, 3});
  const std::vector<ir::Tensor> out = model({floats({2, 3, 4}, boxes), floats({2, 2, 3}, scores)});
  EXPECT_THAT(out[0].sizes, ElementsAre(8, 3));
  EXPECT_THAT(out[0].values<std::int64_t>(),
              ElementsAre(0, 0, 0, 0, 0, 2, 0, 1, 2, 0, 1, 1, 1, 0, 0, 1, 0, 2, 1, 1, 0, 1, 1, 2));
}

// The largest sizes are not those of the largest measured size.
TEST(MeasuredSizes, SizesThatFallWhereOthersRise) {
  const MeasuredModel model(R"(g (float[n, 2] x, float[n] c) => (float[m, 2] y) {
    positions = NonZero (c) count = Shape <start = 1> (positions) end = Constant <value = int64[1] {100}> ()
    axes = Constant <value = int64[1] {0}> () y = Slice (x, count, end, axes) })",
                            {.dims = {{"n", {0, 4}}}});
  const ir::Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(model({x, floats({3}, {0, 0, 0})})[0].sizes, ElementsAre(3, 2));
  EXPECT_THAT(model({x, floats({3}, {1, 0, 1})})[0].values<float>(), ElementsAre(5, 6));
}

TEST(MeasuredSizes, NonMaxSuppressionWithoutALowestScoreTakesAll) {
  const MeasuredModel model(R"(g (float[1, 3, 4] boxes, float[1, 1, 3] scores) => (int64[m, 3] y) {
    most = Constant <value = int64[1] {9}> () y = NonMaxSuppression (boxes, scores, most) })");
  const ir::Tensor boxes = floats({1, 3, 4}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(model({boxes, floats({1, 1, 3}, {std::nanf(""), -inf, 1})})[0].values<std::int64_t>(),
              ElementsAre(0, 0, 2, 0, 0, 1, 0, 0, 0));
}

TEST(MeasuredSizes, ExpandOfAnAxisThatMayBeOne) {
  const MeasuredModel model("g (float[n, 1] x, int64[2] s) => (float[a, b] y) { y = Expand (x, s) }",
                            {.dims = {{"n", {0, 3}}}, .default_capacity = 4});
  EXPECT_THAT(model({floats({3, 1}, {1, 2, 3}), measured_ints({2}, {1, 2})})[0].values<float>(),
              ElementsAre(1, 1, 2, 2, 3, 3));
  EXPECT_THAT(model({floats({1, 1}, {7}), measured_ints({2}, {3, 1})})[0].values<float>(),
              ElementsAre(7, 7, 7));
  EXPECT_THAT(model({floats({0, 1}, {}), measured_ints({2}, {1, 2})})[0].sizes, ElementsAre(0, 2));
  EXPECT_THROW(model({floats({3, 1}, {1, 2, 3}), measured_ints({2}, {2, 1})}), ir::UserError);
}

TEST(MeasuredSizes, ARangeWithoutADeltaIsAnError) {
  const MeasuredModel model("g (int64 a, int64 l, int64 d) => (int64[n] y) { y = Range (a, l, d) }",
                            {.default_capacity = 8});
  EXPECT_THROW(model({measured_ints({}, {0}), measured_ints({}, {5}), measured_ints({}, {0})}),
               ir::UserError);
  const std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = ~least;
  EXPECT_THROW(model({measured_ints({}, {least}), measured_ints({}, {most}), measured_ints({}, {1})}),
               ir::UserError);
}

TEST(MeasuredSizes, SlicesWithTheLargestSteps) {
  for (const char* step : {"9223372036854775807", "-9223372036854775807"}) {
    const MeasuredModel model(
        std::string(
            "g (float[4] x, int64[1] a, int64[1] b) => (float[m] y) { axes = Constant <value = int64[1] "
            "{0}> () steps = Constant <value = int64[1] {") +
        step + "}> () y = Slice (x, a, b, axes, steps) }");
    const std::int64_t end = *step == '-' ? -100 : 100;
    EXPECT_THAT(model({floats({4}, {1, 2, 3, 4}), measured_ints({1}, {2}), measured_ints({1}, {end})})[0]
                    .values<float>(),
                ElementsAre(3));
  }
}

// A capacity for all sizes limits no loop whose number of iterations follows from sizes, and no size that old
// operators are converted with.
TEST(MeasuredSizes, CapacitiesLimitOnlyWhatIsMeasured) {
  const std::string loop = R"(g (float[n, 1] x, float[1] a) => (float[1] last, float[n, 1] y) {
    s = Shape <start = 0, end = 1> (x) zero = Constant <value = int64[0] {}> () count = Reshape (s, zero)
    last, all = Loop (count, "", a) <body = b (int64 i, bool go, float[1] t) => (bool next, float[1] u, float[1] v) {
      next = Identity (go) u = Add (t, t) v = Identity (u) }> y = Add (all, x) })";
  const MeasuredModel model(loop, {.dims = {{"n", {1, 200}}}, .default_capacity = 2});
  EXPECT_TRUE(model.graph().measures.empty());
  const ir::Schedule old =
      import_text(R"(g (float[n, 6] x, int64[1] s, float[1] v, float[192] w) => (float[m] y) {
    flat = Reshape (x, s) sum = Add (flat, w) y = Add <broadcast = 1, axis = 0> (sum, v) })",
                  {.dims = {{"n", {1, 64}}}, .default_capacity = 1000}, 6);
  EXPECT_EQ(old.graph.measures.size(), 1u);
}

// A result has the elements of the branch that is taken, of one rank.
TEST(MeasuredSizes, BranchesOfDifferentSizes) {
  const MeasuredModel model(R"(g (bool c, float[n, 3] x) => (float[a, b] y, float[2] z) {
    y, z = If (c) <then_branch = t () => (float[a, b] p, float[2] q) {
                     p = Transpose (x) q = Constant <value = float[2] {1, 2}> () },
                   else_branch = e () => (float[a, b] r, float[2] s) {
                     r = Identity (x) s = Constant <value = float[2] {3, 4}> () }> })",
                            {.dims = {{"n", {0, 4}}}});
  const auto yes = ir::make_tensor(ir::DType::boolean, {}, std::vector<std::uint8_t>{1}),
             no = ir::make_tensor(ir::DType::boolean, {}, std::vector<std::uint8_t>{0});
  const ir::Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<ir::Tensor> taken = model({yes, x}), other = model({no, x});
  EXPECT_THAT(taken[0].sizes, ElementsAre(3, 2));
  EXPECT_THAT(taken[0].values<float>(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(taken[1].values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(other[0].sizes, ElementsAre(2, 3));
  EXPECT_THAT(other[0].values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(other[1].values<float>(), ElementsAre(3, 4));
  EXPECT_THAT(model({yes, floats({0, 3}, {})})[0].sizes, ElementsAre(3, 0));
}

constexpr const char* kEndedByItsCondition = R"(g (float[1] x, float limit) => (float[1] y, float[m, 1] all) {
  one = Constant <value = bool {1}> ()
  y, all = Loop ("", one, x) <body = b (int64 i, bool go, float[1] s) => (bool next, float[1] t, float[1] u) {
    t = Add (s, s) largest = ReduceMax <keepdims = 0> (t) next = Less (largest, limit) u = Identity (t) }> })";

// The condition ends the loop; its results join as many elements as there were iterations. The sizes of the
// first results decide those of the second, and which of them fit what follows: with those of one branch
// alone, the sum would have no program.
TEST(MeasuredSizes, BranchesOfDifferentSizesOneAfterAnother) {
  const MeasuredModel model(R"(g (bool c, bool d, float[4] x, float[8] w) => (float[a] z) {
    y = If (c) <then_branch = t () => (float[4] p) { p = Identity (x) },
                else_branch = e () => (float[8] q) { q = Concat <axis = 0> (x, x) }>
    s = Add (y, w)
    z = If (d) <then_branch = u () => (float[b] r) { r = Identity (s) },
                else_branch = v () => (float[e] k) { k = Concat <axis = 0> (s, y) }> })");
  const auto condition = [](std::uint8_t value) {
    return ir::make_tensor(ir::DType::boolean, {}, std::vector<std::uint8_t>{value});
  };
  const ir::Tensor x = floats({4}, {1, 2, 3, 4}), w = floats({8}, {0, 0, 0, 0, 1, 1, 1, 1});
  EXPECT_THAT(model({condition(0), condition(1), x, w})[0].values<float>(),
              ElementsAre(1, 2, 3, 4, 2, 3, 4, 5));
  EXPECT_THAT(model({condition(0), condition(0), x, w})[0].sizes, ElementsAre(16));
  EXPECT_EQ(error_of([&] { model({condition(1), condition(1), x, w}); }).code(), errors::kGuardViolated);
}

TEST(MeasuredSizes, LoopsThatTheirConditionEnds) {
  const MeasuredModel model(kEndedByItsCondition, {.capacities = {{"all", 4}}});
  EXPECT_THAT(model({floats({1}, {1}), floats({}, {8})})[1].values<float>(), ElementsAre(2, 4, 8));
  EXPECT_THAT(model({floats({1}, {1}), floats({}, {0})})[1].values<float>(), ElementsAre(2));
  EXPECT_THAT(model({floats({1}, {1}), floats({}, {16})})[1].sizes, ElementsAre(4, 1));
  EXPECT_THROW(model({floats({1}, {1}), floats({}, {17})}), ir::UserError);
  const ir::UserError error = error_of([] { import_text(kEndedByItsCondition); });
  EXPECT_EQ(error.code(), errors::kDataDependentSize);
  EXPECT_THAT(error.hint(), HasSubstr("--capacity 'all=N'"));
}

TEST(MeasuredSizes, LoopsOfAsManyIterationsAsAValueSays) {
  const MeasuredModel model(R"(g (float[1] x, int64 n) => (float[1] y, float[m, 1] all) {
    y, all = Loop (n, "", x) <body = b (int64 i, bool go, float[1] s) => (bool next, float[1] t, float[1] u) {
      next = Identity (go) t = Add (s, s) u = Identity (t) }> })",
                            {.capacities = {{"n", 3}}});
  EXPECT_THAT(model({floats({1}, {1}), measured_ints({}, {2})})[1].values<float>(), ElementsAre(2, 4));
  EXPECT_THAT(model({floats({1}, {1}), measured_ints({}, {0})})[1].sizes, ElementsAre(0, 1));
  EXPECT_THROW(model({floats({1}, {1}), measured_ints({}, {4})}), ir::UserError);
}

// A size that a branch computes is unknown outside of it.
TEST(MeasuredSizes, BranchesDoNotMeasure) {
  const ir::UserError error = error_of([] {
    import_text(R"(g (bool c, float[3] x) => (int64[1, n] y) {
      y = If (c) <then_branch = t () => (int64[1, n] a) { a = NonZero (x) },
                  else_branch = e () => (int64[1, n] b) { b = NonZero (x) }> })");
  });
  EXPECT_EQ(error.code(), errors::kDataDependentSize);
}

// Constants fold, so that sizes are numbers.
TEST(MeasuredSizes, OfConstantsAreKnown) {
  const ir::Schedule schedule = import_text(R"(g () => (int64[1, n] y, float[m] u) {
    x = Constant <value = float[4] {0, 1, 0, 1}> () y = NonZero (x) u = Unique (x) })");
  EXPECT_TRUE(schedule.graph.measures.empty());
  EXPECT_THAT(schedule.graph[schedule.graph.outputs[0].buffer].sizes, ElementsAre(ir::Expr(1), ir::Expr(2)));
}

}  // namespace
}  // namespace braid::frontend
