// Resizing, sampling, selecting and loops: dynamic sizes, what is refused and how.
#include <gmock/gmock.h>

#include <limits>
#include <string_view>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ir::Tensor run_one(const ir::Schedule& schedule, std::vector<ir::Tensor> inputs, std::size_t output = 0) {
  const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
  return ir::run(schedule, per_rank).outputs[0][output];
}

TEST(Resize, ExtrapolatesBoolsWithTrue) {
  const ir::Schedule schedule = import_text(
      "g (bool[2] x) => (bool[2] y) { roi = Constant <value = float[2] {0.0, 2.0}> () sizes = Constant "
      "<value = "
      "int64[1] {2}> () y = Resize <mode = \"nearest\", coordinate_transformation_mode = "
      "\"tf_crop_and_resize\", "
      "extrapolation_value = 10.0> (x, roi, , sizes) }",
      {}, 13);
  const ir::Tensor x = ir::make_tensor(ir::DType::boolean, {2}, std::vector<std::uint8_t>{0, 0});
  EXPECT_THAT(run_one(schedule, {x}).values<std::uint8_t>(), ElementsAre(0, 1));
  EXPECT_EQ(ir::print(ir::parse_schedule(ir::print(schedule))), ir::print(schedule));
}

struct RefusedText {
  const char* graph;
  int opset, code;
  const char* text;
};

void expect_refused(const RefusedText& model) {
  SCOPED_TRACE(model.graph);
  const ir::UserError error = error_of([&] {
    ImportOptions options;
    if (std::string_view(model.graph).find("float[n]") != std::string_view::npos) options.dims["n"] = {1, 8};
    import_text(model.graph, options, model.opset);
  });
  EXPECT_EQ(error.code(), model.code);
  EXPECT_THAT(error.what(), HasSubstr(model.text));
}

TEST(Resize, NearestByAWholeFactorIsADivisionForAnySize) {
  const ir::Schedule schedule = import_text(
      "g (float[1,1,n,n] x) => (float[1,1,a,b] y) { s = Constant <value = float[4] {1, 1, 2, 3}> () y = "
      "Resize <mode "
      "= \"nearest\", coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"> (x, \"\", "
      "s) }",
      {.dims = {{"n", {1, 8}}}});
  EXPECT_THAT(print(schedule), HasSubstr("floordiv(i3, 3)"));
  const ir::Tensor y = run_one(schedule, {floats({1, 1, 1, 1}, {5})});
  EXPECT_THAT(y.sizes, ElementsAre(1, 1, 2, 3));
  EXPECT_THAT(y.values<float>(), ElementsAre(5, 5, 5, 5, 5, 5));
}

TEST(Resize, LinearToAFixedSizeForAnySize) {
  const ir::Schedule schedule = import_text(
      "g (float[n] x) => (float[a] y) { s = Constant <value = int64[1] {3}> () y = Resize <mode = "
      "\"linear\", "
      "coordinate_transformation_mode = \"align_corners\"> (x, \"\", \"\", s) }",
      {.dims = {{"n", {0, 8}}}});
  EXPECT_THAT(run_one(schedule, {floats({2}, {1, 3})}).values<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(run_one(schedule, {floats({5}, {1, 2, 3, 4, 9})}).values<float>(), ElementsAre(1, 3, 9));
  // Three elements cannot come from none.
  EXPECT_EQ(error_of([&] { run_one(schedule, {floats({0}, {})}); }).code(), 303);
}

TEST(Resize, AnAxisThatTurnsOutToKeepItsSizeKeepsItsElements) {
  const ir::Schedule schedule = import_text(
      "g (float[n] x) => (float[a] y) { s = Constant <value = int64[1] {3}> () y = Resize <mode = "
      "\"nearest\", "
      "coordinate_transformation_mode = \"tf_half_pixel_for_nn\", nearest_mode = \"ceil\"> (x, \"\", \"\", "
      "s) }",
      {.dims = {{"n", {1, 8}}}});
  EXPECT_THAT(run_one(schedule, {floats({3}, {1, 2, 3})}).values<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(run_one(schedule, {floats({6}, {1, 2, 3, 4, 5, 6})}).values<float>(), ElementsAre(2, 4, 6));
}

TEST(Resize, WhatCannotBeResizedIsRefused) {
  const RefusedText models[] = {
      {"g (float[n] x, float[1] s) => (float[a] y) { y = Resize (x, \"\", s) }", 17,
       errors::kDataDependentSize, "the scales come from 's', whose values are known only at run time"},
      {"g (float[4] x) => (float[a] y) { s = Constant <value = float[1] {-2}> () y = Resize (x, \"\", s) }",
       17, errors::kInvalidNode, "a scale is -2"},
      {"g (float[4,4] x) => (float[a,b] y) { s = Constant <value = int64[1] {3}> () y = Resize <axes = [0, "
       "0]> (x, "
       "\"\", \"\", s) }",
       18, errors::kInvalidAttribute, "an axis is given twice"},
      {"g (float[4] x) => (float[a] y) { s = Constant <value = int64[1] {3}> () y = Resize <mode = "
       "\"bogus\"> (x, \"\", "
       "\"\", s) }",
       17, errors::kInvalidAttribute, "attribute 'mode' is 'bogus', expected nearest, linear, cubic"},
      {"g (float[4] x) => (float[a] y) { s = Constant <value = int64[1] {3}> () y = Resize <exclude_outside "
       "= 1> (x, "
       "\"\", \"\", s) }",
       17, errors::kUnsupportedForm, "attribute 'exclude_outside' is 1 in mode nearest"},
      {"g (float[n] x) => (float[a] y) { s = Constant <value = int64[1] {3}> () y = Resize <antialias = 1, "
       "mode = "
       "\"linear\"> (x, \"\", \"\", s) }",
       18, errors::kUnsupportedForm,
       "attribute 'antialias' is 1, but the size of axis 0 depends on a dimension"},
  };
  for (const RefusedText& model : models) expect_refused(model);
}

// Rounded up, a window may reach beyond the end if its last stride begins inside (op_cases.py computes such
// pools).
TEST(Pools, AWindowThatFitsNowhereIsRefused) {
  const RefusedText models[] = {
      {"g (float[1,1,3] x) => (float[1,1,a] y) { y = MaxPool <kernel_shape = [4]> (x) }", 17,
       errors::kShapeMismatch, "a window of 4 is larger than the 3 elements of spatial dimension 0"},
      {"g (float[1,1,3] x) => (float[1,1,a] y) { y = MaxPool <kernel_shape = [5], strides = [2], ceil_mode = "
       "1> (x) }",
       17, errors::kShapeMismatch, "a window of 5 is larger than the 3 elements of spatial dimension 0"},
  };
  for (const RefusedText& model : models) expect_refused(model);
}

TEST(TopK, NaNIsLargestAndTheFirstOfEqualsComesFirst) {
  const ir::Schedule schedule = import_text(
      "g (float[6] x) => (float[4] y, int64[4] i) { k = Constant <value = int64[1] {4}> () y, i = TopK (x, "
      "k) }");
  const std::vector<ir::Tensor> x = {floats({6}, {2, 3, std::numeric_limits<float>::quiet_NaN(), 3, 1, 2})};
  EXPECT_THAT(run_one(schedule, x, 1).values<std::int64_t>(), ElementsAre(2, 1, 3, 0));
}

TEST(TopK, WhatCannotBeSelectedIsRefused) {
  const RefusedText models[] = {
      {"g (float[n] x) => (float[a] y, int64[a] i) { k = Constant <value = int64[1] {9}> () y, i = TopK (x, "
       "k) }",
       17, errors::kShapeMismatch, "9 elements along axis 0, which has size n"},
  };
  for (const RefusedText& model : models) expect_refused(model);
}

TEST(MaxUnpool, AnIndexOutOfRangeEndsTheStep) {
  const ir::Schedule schedule = import_text(
      "g (float[1,1,2] x, int64[1,1,2] i) => (float[1,1,4] y) { y = MaxUnpool <kernel_shape = [2], strides = "
      "[2]> (x, "
      "i) }");
  const auto indices = [](std::vector<std::int64_t> v) {
    return ir::make_tensor(ir::DType::i64, {1, 1, 2}, v);
  };
  EXPECT_THAT(run_one(schedule, {floats({1, 1, 2}, {7, 8}), indices({3, 0})}).values<float>(),
              ElementsAre(8, 0, 0, 7));
  EXPECT_EQ(error_of([&] { run_one(schedule, {floats({1, 1, 2}, {7, 8}), indices({4, 0})}); }).code(), 711);
}

constexpr const char* kDouble =
    "<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity(c) t = "
    "Add(s, s) u = "
    "Add(s, x) }>";

TEST(Loops, AreCopiedWhenTheirNumberIsKnown) {
  const ir::Schedule schedule =
      import_text(std::string("g (float[2] x) => (float[2] y, float[3,2] z) { n = Constant "
                              "<value = int64 {3}> () y, z = Loop ") +
                  kDouble + " (n, \"\", x) }");
  EXPECT_THAT(run_one(schedule, {floats({2}, {1, 10})}).values<float>(), ElementsAre(8, 80));
  EXPECT_THAT(run_one(schedule, {floats({2}, {1, 10})}, 1).values<float>(), ElementsAre(2, 20, 3, 30, 5, 50));
}

TEST(Loops, ThatJoinResultsAreRefusedWhenTheirNumberIsNotKnown) {
  // Results that are joined have a size for each number of iterations.
  const auto model = [](const std::string& inputs, const std::string& count) {
    return "g (float[2] x" + inputs + ") => (float[2] y, float[a,2] z) { " + count + " y, z = Loop " +
           kDouble;
  };
  const std::string by_data = model(", int64 n", "") + " (n, \"\", x) }",
                    by_condition =
                        model(", bool go", "n = Constant <value = int64 {3}> ()") + " (n, go, x) }";
  expect_refused({by_data.c_str(), 17, errors::kDataDependentSize, "the sizes of the results come from 'n'"});
  expect_refused(
      {by_condition.c_str(), 17, errors::kDataDependentSize, "its condition is known only at run time"});
  const std::string by_body =
      "g (float[2] x) => (float[2] y, float[a,2] z) { n = Constant <value = int64 {3}> () y, z = Loop <body "
      "= "
      "b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { m = ReduceMax <keepdims = 0> "
      "(s) "
      "one = Constant <value = float {1.0}> () d = Less(m, one) t = Add(s, s) u = Add(s, x) }> (n, \"\", x) "
      "}";
  // The trip count bounds how many elements its condition leaves.
  const std::vector<ir::Tensor> out =
      ir::run(import_text(by_body), std::vector<std::vector<ir::Tensor>>{{floats({2}, {0.5f, 0.25f})}})
          .outputs[0];
  EXPECT_THAT(out[1].sizes, ElementsAre(2, 2));
}

}  // namespace
}  // namespace braid::frontend
