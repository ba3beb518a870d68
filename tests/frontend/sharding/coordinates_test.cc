// Positions and offsets, which differ between the ranks of a split model, are computed from the ranks'
// coordinates: no constant per rank, and a rank's part of a whole tensor is a view.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/emitted.h"
#include "tests/frontend/sharding/proof.h"

namespace braid::frontend::sharding {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ir::Schedule split(const std::string& graph, const std::string& head, const std::string& lines, int ranks) {
  auto request = std::make_shared<SplitRequest>();
  request->plan = "plan 1\n" + head + "\n" + lines;
  request->plan_file = "the.plan";
  return import_text(graph, {.ranks = ranks, .split = request});
}

// Splits, compares with the plain graph on every rank, and returns the text of the program.
std::string checked(const std::string& graph, const std::string& head, const std::string& lines, int ranks,
                    const std::vector<ir::Tensor>& inputs) {
  const ir::Schedule schedule = split(graph, head, lines, ranks);
  const auto violations = ir::verify(schedule);
  EXPECT_TRUE(violations.empty()) << violations[0].message;
  const std::vector<std::vector<ir::Tensor>> one{inputs};
  const auto want = ir::run(import_text(graph, {}), one).outputs[0];
  const std::vector<std::vector<ir::Tensor>> all(static_cast<std::size_t>(ranks), inputs);
  for (const std::vector<ir::Tensor>& got : ir::run(schedule, all).outputs) {
    for (std::size_t k = 0; k < want.size(); ++k) EXPECT_EQ(got[k].bytes, want[k].bytes) << "output " << k;
  }
  return ir::print(schedule);
}

ir::Tensor numbers(std::vector<std::int64_t> sizes, unsigned seed = 3) {
  return random_tensor(ir::DType::i64, std::move(sizes), -9, 9, false, seed);
}

TEST(SplitCoordinates, ARanksPartOfAWholeTensorIsAView) {
  const std::string text = checked("g (int64[4, 6] x) => (int64[4, 6] y) { y = Neg(x) }", "ranks 2",
                                   "\"x\" -> \"y\" = S(1)\n\"y\" = S(1)\n", 2, {numbers({4, 6})});
  EXPECT_THAT(text, HasSubstr("mesh [world=2]"));
  EXPECT_THAT(text, HasSubstr("load %x[3*rank(world) + 6*i0 + i1]"));
  EXPECT_THAT(text, Not(HasSubstr("per_rank")));
  EXPECT_THAT(text, Not(HasSubstr("check_index")));
}

TEST(SplitCoordinates, AxesAreThoseOfTheMesh) {
  const std::string text = checked(
      "g (int64[4, 6] x) => (int64[4, 6] y) { y = Neg(x) }", "mesh [dp=2, tp=3]",
      "\"x\" -> \"y\" = S(0) on dp, S(1) on tp\n\"y\" = S(0) on dp, S(1) on tp\n", 6, {numbers({4, 6})});
  EXPECT_THAT(text, HasSubstr("mesh [dp=2, tp=3]"));
  EXPECT_THAT(text, HasSubstr("= axis tp"));
  EXPECT_THAT(text, HasSubstr("= axis dp"));
  EXPECT_THAT(text, HasSubstr("12*rank(dp)"));
  EXPECT_THAT(text, HasSubstr("2*rank(tp)"));
  EXPECT_THAT(text, Not(HasSubstr("per_rank")));
}

// Two axes in one dimension.
TEST(SplitCoordinates, AxesCutInTurn) {
  const std::string text =
      checked("g (int64[8] x) => (int64[8] y) { y = Neg(x) }", "mesh [a=2, b=4]",
              "\"x\" -> \"y\" = S(0) on a, S(0) on b\n\"y\" = S(0) on a, S(0) on b\n", 8, {numbers({8})});
  EXPECT_THAT(text, HasSubstr("load %x[4*rank(a) + rank(b)]"));
}

TEST(SplitCoordinates, AVocabularysPartHasAnOffset) {
  const ir::Tensor indices = ir::make_tensor<std::int64_t>(ir::DType::i64, {5}, {0, 7, -1, 3, 4});
  const std::string text =
      checked("g (int64[8, 3] t, int64[5] i) => (int64[5, 3] y) { y = Gather <axis = 0> (t, i) }", "ranks 4",
              "\"t\" -> \"y\" = S(0)\n\"y\" = P(sum)\n", 4, {numbers({8, 3}), indices});
  EXPECT_THAT(text, HasSubstr("= index i64 2*rank(world)"));
  EXPECT_THAT(text, Not(HasSubstr("per_rank")));
}

TEST(SplitCoordinates, PaddingIsMaskedByPosition) {
  const std::string text =
      checked("g (float[2, 7] x, float[7, 3] w) => (float[2, 3] y) { y = MatMul(x, w) }", "ranks 3",
              "\"x\" -> \"y\" = S(1)\n\"w\" -> \"y\" = S(0)\n\"y\" = P(sum)\n", 3,
              {random_tensor(ir::DType::f32, {2, 7}, -9, 9, false, 1),
               random_tensor(ir::DType::f32, {7, 3}, -9, 9, false, 2)});
  EXPECT_THAT(text, HasSubstr("index i64 3*rank(world) + i1"));
  EXPECT_THAT(text, HasSubstr("lt %"));
}

TEST(SplitCoordinates, FilesOfRanksAreTheSameProgram) {
  const std::string graph =
      "g (int64[8, 3] t, int64[5] i) => (int64[5, 3] y) { y = Gather <axis = 0> (t, i) }";
  const TemporaryFolder folder;
  const std::string path = folder.write("m.onnx", parse_model(graph));
  ImportOptions options{.ranks = 4};
  auto request = std::make_shared<SplitRequest>();
  request->plan = "plan 1\nmesh [dp=2, tp=2]\n\"t\" -> \"y\" = S(0) on tp\n\"y\" = P(sum) on tp\n";
  request->plan_file = "the.plan";
  options.split = request;
  const ir::Schedule direct = import_model(path, options);
  const ir::Schedule again = read_again(emitted(path, options, {}), options);
  EXPECT_EQ(difference_of_texts(direct, again), "");
  EXPECT_THAT(ir::print(again), HasSubstr("mesh [dp=2, tp=2]"));
  EXPECT_THAT(ir::print(again), HasSubstr("4*rank(tp)"));
}

TEST(SplitCoordinates, NoSizeFollowsFromThem) {
  const auto refused = [](const std::string& graph) {
    const ir::UserError error = error_of([&] { import_text(graph, {.ranks = 2}); });
    EXPECT_EQ(error.code(), errors::kRankWeightDecidesShape) << error.what();
    return std::string(error.message());
  };
  const std::string head =
      "g (float[6] x) => (float[n] y) { t = Constant <value = int64[2, 1] {1, 2}> () n = ai.braid.OfRank(t) ";
  EXPECT_THAT(refused(head + "y = Expand(x, n) }"), HasSubstr("rank(world) + 1"));
  EXPECT_THAT(refused(head + "zero = Constant <value = int64[1] {0}> () y = Slice(x, zero, n) }"),
              HasSubstr("rank(world) + 1"));
  EXPECT_THAT(refused(head + "m = Add(n, n) y = Reshape(x, m) }"), HasSubstr("2*rank(world) + 2"));
}

// Positions are no sizes: these are legal.
TEST(SplitCoordinates, PositionsFollowFromThem) {
  const std::string graph =
      "g (int64[6] x) => (int64[2] y) { t = Constant <value = int64[2, 1] {1, 4}> () n = ai.braid.OfRank(t) "
      "two = Constant <value = int64[1] {2}> () end = Add(n, two) y = Slice(x, n, end) }";
  const ir::Schedule schedule = import_text(graph, {.ranks = 2});
  const ir::Tensor x = ir::make_tensor<std::int64_t>(ir::DType::i64, {6}, {10, 11, 12, 13, 14, 15});
  const std::vector<std::vector<ir::Tensor>> inputs{{x}, {x}};
  const auto outputs = ir::run(schedule, inputs).outputs;
  EXPECT_EQ(outputs[0][0].values<std::int64_t>(), (std::vector<std::int64_t>{11, 12}));
  EXPECT_EQ(outputs[1][0].values<std::int64_t>(), (std::vector<std::int64_t>{14, 15}));
}

// Whether a row counts from the end may differ between ranks, and whether there is one may depend on a size.
TEST(SplitCoordinates, RowsAreLookedUpWhereTheyAreNotProved) {
  const auto rows = [](const std::string& table, const ImportOptions& options) {
    const ir::Schedule schedule =
        import_text("g (int64[n] x) => (int64[1] y) { t = Constant <value = int64[2, 1] {" + table +
                        "}> () at = ai.braid.OfRank(t) y = Gather <axis = 0> (x, at) }",
                    options);
    const ir::Tensor x = ir::make_tensor<std::int64_t>(ir::DType::i64, {6}, {10, 11, 12, 13, 14, 15});
    const std::vector<std::vector<ir::Tensor>> inputs{{x}, {x}};
    const auto outputs = ir::run(schedule, inputs).outputs;
    return std::vector<std::int64_t>{outputs[0][0].values<std::int64_t>()[0],
                                     outputs[1][0].values<std::int64_t>()[0]};
  };
  const ImportOptions of_six{.dims = {{"n", {6, 6}}}, .ranks = 2},
      of_some{.dims = {{"n", {1, 8}}}, .ranks = 2};
  for (const ImportOptions& options : {of_six, of_some}) {
    EXPECT_EQ(rows("1, 4", options), (std::vector<std::int64_t>{11, 14}));
    EXPECT_EQ(rows("-1, 3", options), (std::vector<std::int64_t>{15, 13}));
    EXPECT_EQ(rows("-6, -2", options), (std::vector<std::int64_t>{10, 14}));
    EXPECT_THROW(rows("0, 6", options), ir::UserError);
    EXPECT_THROW(rows("-7, 0", options), ir::UserError);
  }
}

TEST(SplitCoordinates, AMeshOfAnotherNumberOfRanksIsRefused) {
  onnx::ModelProto model = parse_model("g (float[2] x) => (float[2] y) { y = ai.braid.AllReduce(x) }");
  onnx::StringStringEntryProto& property = *model.add_metadata_props();
  property.set_key("ai.braid.mesh");
  property.set_value("dp=2, tp=3");
  const ir::UserError error = error_of([&] { import_proto(model, {.ranks = 4}); });
  EXPECT_EQ(error.code(), errors::kRankCount);
  EXPECT_THAT(error.message(), HasSubstr("[dp=2, tp=3], has 6 ranks, but there are 4"));
  EXPECT_THAT(ir::print(import_proto(model, {.ranks = 6})), HasSubstr("mesh [dp=2, tp=3]"));
  const ir::UserError split = error_of([&] { import_proto(model); });
  EXPECT_EQ(split.code(), errors::kRankCount);
  EXPECT_THAT(split.message(), HasSubstr("'y' (AllReduce) communicates"));
}

// Nothing in it depends on a rank, so it is a plain model, whatever mesh it was written for.
TEST(SplitCoordinates, AMeshWithoutCollectivesMayBeSplitAgain) {
  onnx::ModelProto model = parse_model("g (float[4] x) => (float[4] y) { y = Relu(x) }");
  onnx::StringStringEntryProto& property = *model.add_metadata_props();
  property.set_key("ai.braid.mesh");
  property.set_value("dp=2, tp=3");
  EXPECT_EQ(ir::print(import_proto(model)).find("mesh"), std::string::npos);
  ImportOptions options;
  options.ranks = 2;
  auto request = std::make_shared<SplitRequest>();
  request->plan = "plan 1\nmesh [tp=2]\n\"x\" -> \"y\" = S(0) on tp\n\"y\" = S(0) on tp\n";
  options.split = request;
  const std::string split = ir::print(import_proto(model, options));
  EXPECT_THAT(split, HasSubstr("mesh [tp=2]"));
  EXPECT_EQ(split.find("dp"), std::string::npos);
  property.set_value("dp=2, tp");
  EXPECT_EQ(error_of([&] { import_proto(model); }).code(), errors::kSplitRequest);
}

}  // namespace
}  // namespace braid::frontend::sharding
