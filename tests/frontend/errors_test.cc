// Errors that the corpus of broken models does not hold: they need options, or a form that only lowering
// refuses.
#include <gmock/gmock.h>

#include "ir/error_numbers.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::HasSubstr;

ir::UserError error_in(const std::string& graph, const ImportOptions& options = {}, int opset = 17) {
  return error_of([&] { import_text(graph, options, opset); });
}

TEST(FrontendErrors, DropoutInTrainingIsRefused) {
  const ir::UserError error = error_in(
      "g (float[2] x) => (float[2] y) { r = Constant <value = float {0.5}> () t = Constant <value = bool "
      "{1}> () [drop] y = Dropout(x, r, t) }");
  EXPECT_EQ(error.code(), errors::kUnsupportedForm);
  EXPECT_THAT(error.what(), HasSubstr("drop"));
}

// Operators of ONNX that are not implemented, of integers and of bytes.
const std::string kTfIdf =
    "TfIdfVectorizer <max_gram_length = 1, max_skip_count = 0, min_gram_length = 1, mode = \"TF\", "
    "ngram_counts = [0], "
    "ngram_indexes = [0], pool_int64s = [1]> ";
const std::string kDecoder = "ImageDecoder ";

TEST(FrontendErrors, OperatorThatIsNotSupportedInTheBranchTaken) {
  const ir::UserError error = error_in(
      "g (float[2] x) => (float[n] y) { c = Constant <value = bool {1}> () y = If (c) "
      "<then_branch = t () => (float[n] a) { i = Cast <to = 7> (x) [unique] a = " +
      kTfIdf +
      "(i) }, "
      "else_branch = f () => (float[m] b) { b = Identity(x) }> }");
  EXPECT_EQ(error.code(), errors::kUnsupportedOperators);
  EXPECT_THAT(error.what(), HasSubstr("unique"));
}

TEST(FrontendErrors, ConstantIndexOutOfRangeIsFoundWhileCompiling) {
  const ir::UserError error = error_in(
      "g (float[3,2] x) => (float[2] y) { i = Constant <value = int64 {3}> () [row] y = Gather(x, i) }");
  EXPECT_EQ(error.code(), errors::kIndexOutOfRange);
  EXPECT_THAT(error.what(), HasSubstr("row"));
}

// Without a group the size depends on the number of ranks: ONNX's inference believes what is declared.
TEST(FrontendErrors, OutputThatIsListedTwice) {
  const ir::UserError error = error_in("g (float[2] x) => (float[2] y, float[2] y) { y = Relu(x) }");
  EXPECT_EQ(error.code(), errors::kDuplicateName);
  EXPECT_THAT(error.what(), HasSubstr("the graph output 'y' is listed twice"));
}

TEST(FrontendErrors, ModelThatWasWrittenForAnotherNumberOfRanks) {
  const std::string gather = "g (float[4] x) => (float[8] y) { [all] y = ai.braid.AllGather (x) }";
  EXPECT_NO_THROW(import_text(gather, {.ranks = 2}));
  const ir::UserError error = error_in(gather, {.ranks = 3});
  EXPECT_EQ(error.code(), errors::kShapeMismatch);
  EXPECT_THAT(error.what(), HasSubstr("all"));
  EXPECT_THAT(error.what(), HasSubstr("on 3 ranks it has 12"));
}

TEST(FrontendErrors, DistCollectiveIsCheckedOnOneRankToo) {
  const auto code = [](const std::string& attributes) {
    return error_in("g (float[4] x) => (float[4] y) { y = DistCollective <" + attributes + "> (x) }").code();
  };
  EXPECT_EQ(code("collective_operation = \"gather\""), errors::kUnsupportedForm);
  EXPECT_EQ(code("collective_operation = \"broadcast\", root = 7"), errors::kInvalidAttribute);
}

TEST(FrontendErrors, BoundOfClipIsAScalar) {
  const ir::UserError error =
      error_in("g (float[4, 1] x, float[4] low) => (float[n, m] y) { [clip] y = Clip(x, low) }");
  EXPECT_EQ(error.code(), errors::kShapeMismatch);
  EXPECT_THAT(error.what(), HasSubstr("clip"));
}

TEST(FrontendErrors, GroupWithARankThatDoesNotExist) {
  const ir::UserError error = error_in(
      "g (float[2] x) => (float[2] y) { [sum] y = ai.braid.AllReduce <group = [0, 5]> (x) }", {.ranks = 2});
  EXPECT_EQ(error.code(), errors::kInvalidGroup);
  EXPECT_THAT(error.what(), HasSubstr("5"));
}

TEST(FrontendErrors, GroupSizeMustBeThatOfTheGroup) {
  const ir::UserError error = error_in(
      "g (float[2] x) => (float[2] y) { [sum] y = ai.braid.AllReduce <group = [0, 1], group_size = 3> (x) }",
      {.ranks = 3});
  EXPECT_EQ(error.code(), errors::kInvalidGroup);
  EXPECT_THAT(error.what(), HasSubstr("group_size"));
}

TEST(FrontendErrors, SplitSizesMustAddUp) {
  const ir::UserError error = error_in(
      "g (float[4] x) => (float[4] y) { [swap] y = ai.braid.AllToAll <split_sizes = [1, 3, 1, 3]> (x) }",
      {.ranks = 2});
  EXPECT_EQ(error.code(), errors::kShapeMismatch);
  EXPECT_THAT(error.what(), HasSubstr("split_sizes"));
}

TEST(FrontendErrors, TwoSourcesForOneTarget) {
  const ir::UserError error = error_in(
      "g (float[4] x) => (float[4] y) { [both] y = ai.braid.BatchSendRecv <pairs = [0, 2, 1, 2]> (x) }",
      {.ranks = 3});
  EXPECT_EQ(error.code(), errors::kInvalidAttribute);
  EXPECT_THAT(error.what(), HasSubstr("two sources"));
}

TEST(FrontendErrors, DistCollectiveWithARankInTwoGroups) {
  const ir::UserError error = error_in(
      "g (float[4] x) => (float[4] y) { [sum] y = DistCollective <collective_operation = \"all_reduce\", "
      "reduce_op = \"sum\", groups = [0, 1, 1, 2], group_size = 2> (x) }",
      {.ranks = 3});
  EXPECT_EQ(error.code(), errors::kInvalidGroup);
  EXPECT_THAT(error.what(), HasSubstr("twice"));
}

TEST(FrontendErrors, GroupsOfOneSize) {
  const auto text = [](const std::string& attributes) {
    const ir::UserError error =
        error_in("g (float[4] x) => (float[4] y) { [sum] y = ai.braid.AllReduce <" + attributes + "> (x) }",
                 {.ranks = 4});
    EXPECT_EQ(error.code(), errors::kInvalidGroup);
    return std::string(error.what());
  };
  EXPECT_THAT(text("groups = [0, 1, 2, 3]"), HasSubstr("requires 'group_size'"));
  EXPECT_THAT(text("groups = [0, 1, 2], group_size = 2"), HasSubstr("groups of 2"));
  EXPECT_THAT(text("groups = [0, 1, 2, 3], group_size = 0"), HasSubstr("groups of 0"));
  EXPECT_THAT(text("groups = [0, 1, 1, 2], group_size = 2"), HasSubstr("rank 1 twice"));
  EXPECT_THAT(text("groups = [0, 1, 2, 4], group_size = 2"), HasSubstr("rank 4"));
  EXPECT_THAT(text("groups = [0, 1, 2, 3], group = [0, 1], group_size = 2"), HasSubstr("exclude each other"));
}

// A root that is a rank and a root that is a position must be the same where there are several groups.
TEST(FrontendErrors, RootOfSeveralGroups) {
  const auto broadcast = [](const std::string& groups, int root) {
    return fmt::format(
        "g (float[4] x) => (float[4] y) {{ [cast] y = DistCollective <collective_operation = \"broadcast\", "
        "root = {}, groups = [{}], group_size = 2> (x) }}",
        root, groups);
  };
  for (const auto& [groups, root] : {std::pair("0, 1, 2, 3", 2), {"0, 2, 1, 3", 1}, {"2, 3, 1, 0", 0}}) {
    const ir::UserError error = error_in(broadcast(groups, root), {.ranks = 4});
    EXPECT_EQ(error.code(), errors::kInvalidAttribute);
    EXPECT_THAT(error.what(), HasSubstr("the same position in each of the groups"));
  }
  const ir::Schedule s = import_text(broadcast("1, 3, 0, 2", 0), {.ranks = 4});
  EXPECT_EQ(s.graph.groups.at(0).parts, (ir::Parts{{0, 2}, {1, 3}}));
}

TEST(FrontendErrors, CoalescedTensorsHaveOneType) {
  const ir::UserError error = error_in(
      "g (float[4] x, int32[4] i) => (float[4] y, int32[4] j) { [both] y, j = ai.braid.AllReduce (x, i) }",
      {.ranks = 2});
  EXPECT_EQ(error.code(), errors::kTypeMismatch);
  EXPECT_THAT(error.what(), HasSubstr("both"));
}

TEST(FrontendErrors, ReceivedSizeMustNotBeNegative) {
  const ir::UserError error = error_in(
      "g (float[4] x) => (float[n] y) { s = Constant <value_ints = [-4]> () "
      "[got] y = ai.braid.Recv <peer = 0, dtype = 1> (s) }",
      {.ranks = 2});
  EXPECT_EQ(error.code(), errors::kShapeMismatch);
  EXPECT_THAT(error.what(), HasSubstr("got"));
}

TEST(FrontendErrors, GroupSizeOfSendAndReceiveIsChecked) {
  const ir::UserError error = error_in(
      "g (float[4] x) => (float[4] y) { s = Constant <value_ints = [4]> () "
      "y = ai.braid.Recv <peer = 0, dtype = 1, group_size = 3> (s) }",
      {.ranks = 2});
  EXPECT_EQ(error.code(), errors::kInvalidGroup);
}

// ONNX throws std::invalid_argument.
TEST(FrontendErrors, CastToATypeThatONNXDoesNotKnow) {
  const ir::UserError error = error_in("g (float[2] x) => (float[2] y) { y = Cast <to = 4294967296> (x) }");
  EXPECT_THAT(error.what(), HasSubstr("data type"));
}

TEST(FrontendErrors, AllUnboundedDimensionsAreNamedAtOnce) {
  const ir::UserError error =
      error_in("g (float[batch, 3] x, float[?, 3] z) => (float[batch, 3] y) { y = Add(x, z) }");
  EXPECT_EQ(error.code(), errors::kUnboundedDimension);
  EXPECT_THAT(error.what(), HasSubstr("--dim batch=MIN..MAX --dim z_0=MIN..MAX"));
}

// Exporters name a dimension by what it is computed from, with blanks and operators in it.
TEST(FrontendErrors, TheHintForAnUnboundedDimensionCanBePastedIntoAShell) {
  onnx::ModelProto model =
      parse_model("g (float[past, total] x, float[odd] z) => (float[past, total] y) { y = Abs(x) }");
  onnx::GraphProto& graph = *model.mutable_graph();
  const auto rename = [](onnx::ValueInfoProto& value, int axis, const char* name) {
    value.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(axis)->set_dim_param(name);
  };
  for (onnx::ValueInfoProto* value : {graph.mutable_input(0), graph.mutable_output(0)})
    rename(*value, 1, "past + 1");
  rename(*graph.mutable_input(1), 0, "it's; rm *");
  const auto hint = [&](const ImportOptions& options) {
    return error_of([&] { import_proto(model, options); }).hint();
  };
  EXPECT_THAT(
      hint({}),
      HasSubstr("give --dim 'it'\\''s; rm *=MIN..MAX' --dim past=MIN..MAX --dim 'past + 1=MIN..MAX',"));
  // The bounds of 'past' bound 'past + 1', too; the other name is no expression.
  EXPECT_THAT(hint({.dims = {{"past", {0, 511}}}}), HasSubstr("give --dim 'it'\\''s; rm *=MIN..MAX',"));
  const ir::Schedule schedule = import_proto(model, {.dims = {{"past", {0, 511}}, {"it's; rm *", {1, 2}}}});
  EXPECT_EQ(ir::bounds(schedule.graph[schedule.graph.inputs[0].buffer].sizes[1]).max, 512);
  // Fixed sizes fix the sizes computed from them; given bounds count before derived ones.
  const auto size = [&](ir::Bounds past, std::map<std::string, ir::Bounds> more) {
    more.insert({{"past", past}, {"it's; rm *", {1, 2}}});
    const ir::Schedule fixed = import_proto(model, {.dims = more});
    return ir::bounds(fixed.graph[fixed.graph.inputs[0].buffer].sizes[1]).max;
  };
  EXPECT_EQ(size({4, 4}, {}), 5);
  EXPECT_EQ(size({0, 4}, {{"past + 1", {1, 3}}}), 3);
}

// All that is missing is told at once, wherever it stands.
TEST(FrontendErrors, UnsupportedOperatorsInBodiesOfFunctionsAndInBranchesAreNamed) {
  const ir::UserError error =
      error_in("g (bool c, int64[2] x, uint8[2] w) => (float[n] y, float[m] u) { u = " + kTfIdf +
                   "(x) y = If (c) <then_branch = t () => (float[m] a) { a = " + kDecoder +
                   "(w) }, else_branch = f () => (float[m] b) { b = " + kTfIdf + "(x) }> }",
               {}, 20);
  EXPECT_EQ(error.code(), errors::kUnsupportedOperators);
  EXPECT_THAT(error.what(),
              HasSubstr("2 operators are not supported:\n    TfIdfVectorizer-9 (node 'u' and 1 more): not "
                        "implemented\n    ImageDecoder-20 (node"));
}

TEST(FrontendErrors, UnsupportedOperatorsOfTheBranchThatIsTakenAreAllNamed) {
  const ir::UserError error = error_in(
      "g (int64[2] x, uint8[2] w) => (float[n] y) { c = Constant <value = bool {1}> () y = If (c) "
      "<then_branch = t () => (float[m] a) { [first] b = " +
          kDecoder + "(w) d = Cast <to = 1> (b) [second] e = " + kTfIdf +
          "(x) a = Add(d, e) }, else_branch = f () => (float[m] b) { b = Cast <to = 1> (x) }> }",
      {}, 20);
  EXPECT_EQ(error.code(), errors::kUnsupportedOperators);
  EXPECT_THAT(
      error.what(),
      HasSubstr("2 operators are not supported:\n    ImageDecoder-20 (node 'first'): not implemented\n    "
                "TfIdfVectorizer-9 (node 'second'): not implemented"));
}

TEST(FrontendErrors, UnsupportedOperatorsAreNamedWithVersionsAndReasons) {
  const ir::UserError error =
      error_in("g (float[2] x, int64[2] k, string[2] s) => (bool[2] y, float[2] o) { [unique] u = " + kTfIdf +
                   "(k) [gelu] g = Gelu(u) "
                   "[scan] h = HardSwish(g) [typo] t = Cast0(h) [other] o = com.microsoft.Pack(t) [text] e = "
                   "Equal(s, s) "
                   "[like] c = CastLike(e, x) [up] p = Upsample(c, x) y = Identity(p) }",
               {}, 11);
  EXPECT_EQ(error.code(), errors::kUnsupportedOperators);
  for (const char* line : {"TfIdfVectorizer-9 (node 'unique'): not implemented",
                           "Gelu-11 (node 'gelu'): it is defined from operator set 20 on",
                           "HardSwish-11 (node 'scan'): it is defined from operator set 14 on",
                           "Cast0-11 (node 'typo'): this operator is unknown",
                           "com.microsoft.Pack-1 (node 'other'): this operator is unknown",
                           "CastLike-11 (node 'like'): it is defined from operator set 15 on",
                           "Upsample-10 (node 'up'): this operator is deprecated"}) {
    EXPECT_THAT(error.what(), HasSubstr(line));
  }
}

// The result of an unsupported operator has no type, so its readers are not judged. All other unsupported
// operators are named at once.
// operators are named at once.
TEST(FrontendErrors, UnsupportedElementTypesAreAllNamed) {
  const ir::UserError error = error_in(
      "g (float8e4m3fn[2] x, float8e5m2[2] z) => (bool[2] v, bool[2] w, bool[2] u) { [first] y = IsNaN(x) "
      "[behind] "
      "v = Not(y) [second] w = IsInf(z) [third] u = IsInf(z) }",
      {}, 23);
  EXPECT_EQ(error.code(), errors::kUnsupportedOperators) << error.what();
  EXPECT_THAT(error.what(),
              HasSubstr("2 operators are not supported:\n    IsNaN-20 (node 'first'): not "
                        "implemented for the element type FLOAT8E4M3FN\n    IsInf-20 (node 'second' "
                        "and 1 more): not implemented for the element type FLOAT8E5M2"));
}

// Neither an operator nor a constant that nothing reads refuses a model.
TEST(FrontendErrors, WhatNothingReadsIsLeftOut) {
  const onnx::ModelProto model = parse_model(
      "g (float[2] x, bool c) => (float[2] y) <string[1] s = {\"text\"}> { k = Cast <to = 7> (x) u = " +
          kTfIdf +
          "(k) e = StringNormalizer(s) y = If (c) <then_branch = t () => (float[2] a) { w = Cast <to = 2> "
          "(x) "
          "b = ImageDecoder(w) a = Neg(x) }, else_branch = f () => (float[2] d) { d = Abs(x) }> }",
      20);
  EXPECT_EQ(import_proto(model).graph.outputs.size(), 1u);
}

TEST(FrontendErrors, AStringThatIsReadIsRefused) {
  const ir::UserError error = error_in(
      "g (float[2] x) => (float[2] y) <string[1] s = {\"text\"}> { e = Equal(s, s) y = Where(e, x, x) }", {},
      20);
  EXPECT_EQ(error.code(), errors::kUnsupportedType) << error.what();
}

// ONNX makes the body of this function for the types of its inputs.
TEST(FrontendErrors, UnsupportedOperatorsInABodyThatIsMadeForTypesAreNamed) {
  const ir::UserError error = error_in(
      "g (float[2, 3] x, int64[2] t) => (float l, float[n] y) { [loss] l = SoftmaxCrossEntropyLoss(x, t) "
      "[rows] y = " +
          kTfIdf + "(t) }",
      {}, 11);
  EXPECT_THAT(error.what(), HasSubstr("TfIdfVectorizer-9 (node 'rows'): not implemented"));
}

TEST(FrontendErrors, StringInput) {
  const ir::UserError error =
      error_in("g (string[2] x, string[2] z) => (bool[2] y) { y = Equal(x, z) }", {}, 19);
  EXPECT_EQ(error.code(), errors::kUnsupportedType);
}

}  // namespace
}  // namespace braid::frontend
