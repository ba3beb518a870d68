// Operators of com.microsoft where random cases (tests/frontend/reference) do not look: sizes with names,
// caches that are written at run-time positions, the form of the lowered program, and refusals.
#include <gmock/gmock.h>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

std::vector<ir::Tensor> run_program(const ir::Schedule& schedule, std::vector<ir::Tensor> inputs) {
  const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
  return ir::run(schedule, per_rank).outputs[0];
}
ir::Tensor int32s(std::vector<std::int64_t> sizes, const std::vector<std::int32_t>& values) {
  return ir::make_tensor(ir::DType::i32, std::move(sizes), values);
}

// ---- sizes with names

TEST(GroupQueryAttention, CachesGrowByWhatTheMaskIsLonger) {
  // As exporters write it: the total length is a size of the mask, the last key of a row a sum over it.
  const std::string graph =
      "g (float[batch,1,2] q, float[batch,1,1] k, float[batch,1,1] v, float[batch,1,past,1] pk, "
      "float[batch,1,past,1] pv, int64[batch,total] mask) => (float[batch,1,2] y, float[batch,1,new,1] nk, "
      "float[batch,1,new,1] nv) { "
      "axes = Constant <value = int64[1] {1}> () one = Constant <value = int64 {1}> () "
      "sum = ReduceSum <keepdims = 0> (mask, axes) last = Sub(sum, one) last32 = Cast <to = 6> (last) "
      "shape = Shape(mask) total64 = Gather <axis = 0> (shape, one) total32 = Cast <to = 6> (total64) "
      "y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> "
      "(q, k, v, pk, pv, last32, total32) }";
  ImportOptions options;
  options.dims = {{"batch", {1, 4}}, {"past", {0, 8}}, {"total", {1, 9}}, {"new", {1, 9}}};
  const ir::Schedule schedule = import_text(graph, options);
  // Row 0 has two keys before the new one, row 1 none. Queries of 0 attend equally.
  const auto out = run_program(
      schedule, {floats({2, 1, 2}, {0, 0, 0, 0}), floats({2, 1, 1}, {1, 2}), floats({2, 1, 1}, {6, 7}),
                 floats({2, 1, 2, 1}, {10, 11, 12, 13}), floats({2, 1, 2, 1}, {1, 2, 30, 40}),
                 ir::make_tensor(ir::DType::i64, {2, 3}, std::vector<std::int64_t>{1, 1, 1, 1, 0, 0})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(3, 3, 7, 7));
  EXPECT_THAT(out[1].sizes, ElementsAre(2, 1, 3, 1));
  EXPECT_THAT(out[1].values<float>(), ElementsAre(10, 11, 1, 2, 0, 0));
  // With room in the cache, the total is smaller and what is not written stays.
  const auto room =
      run_program(schedule, {floats({1, 1, 2}, {0, 0}), floats({1, 1, 1}, {1}), floats({1, 1, 1}, {6}),
                             floats({1, 1, 4, 1}, {10, 11, 12, 13}), floats({1, 1, 4, 1}, {1, 2, 3, 4}),
                             ir::make_tensor(ir::DType::i64, {1, 3}, std::vector<std::int64_t>{1, 1, 1})});
  EXPECT_THAT(room[0].values<float>(), ElementsAre(3, 3));
  EXPECT_THAT(room[1].sizes, ElementsAre(1, 1, 4, 1));
  EXPECT_THAT(room[1].values<float>(), testing::Contains(1));
}

TEST(GroupQueryAttention, APositionBeyondTheCacheIsAnErrorOfTheStep) {
  const ir::Schedule schedule = import_text(
      "g (float[1,1,1] q, float[1,1,1] k, float[1,1,1] v, float[1,1,4,1] pk, float[1,1,4,1] pv, int32[1] "
      "last) => "
      "(float[1,1,1] y, float[1,1,4,1] nk, float[1,1,4,1] nv) { total = Constant <value = int32 {4}> () "
      "y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1> (q, k, v, pk, pv, "
      "last, total) }");
  const auto inputs = [](std::int32_t last) {
    return std::vector<ir::Tensor>{floats({1, 1, 1}, {0}),
                                   floats({1, 1, 1}, {5}),
                                   floats({1, 1, 1}, {5}),
                                   floats({1, 1, 4, 1}, {1, 2, 3, 4}),
                                   floats({1, 1, 4, 1}, {1, 2, 3, 4}),
                                   int32s({1}, {last})};
  };
  EXPECT_THAT(run_program(schedule, inputs(1))[1].values<float>(), ElementsAre(1, 5, 3, 4));
  EXPECT_THAT(run_program(schedule, inputs(3))[1].values<float>(), ElementsAre(1, 2, 3, 5));
  EXPECT_ANY_THROW(run_program(schedule, inputs(4)));
}

TEST(GroupQueryAttention, TheSizeOfACacheMustNotDependOnAValue) {
  const ir::UserError error = error_of([] {
    import_text(
        "g (float[1,1,1] q, float[1,1,1] k, float[1,1,1] v, float[1,1,4,1] pk, float[1,1,4,1] pv, int32[1] "
        "last, int32 total) "
        "=> (float[1,1,1] y, float[1,1,n,1] nk, float[1,1,n,1] nv) { "
        "[attend] y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1> "
        "(q, k, v, pk, pv, last, total) }",
        {.dims = {{"n", {1, 9}}}});
  });
  EXPECT_EQ(error.code(), errors::kDataDependentSize);
  EXPECT_EQ(error.location().node, "attend");
  EXPECT_THAT(error.message(), HasSubstr("total_sequence_length"));
}

TEST(MultiHeadAttention, ASharedPastIsWrittenAtItsLength) {
  const ir::Schedule schedule = import_text(
      "g (float[1,1,1] q, float[1,1,1] k, float[1,1,1] v, float[1,1,4,1] pk, float[1,1,4,1] pv, int32[1] "
      "length, "
      "int32[1,total] mask) => (float[1,1,1] y, float[1,1,4,1] nk, float[1,1,4,1] nv) { "
      "y, nk, nv = com.microsoft.MultiHeadAttention <num_heads = 1, unidirectional = 1> (q, k, v, , mask, , "
      "pk, pv, length) }",
      {.dims = {{"total", {1, 4}}}});
  // Keys 0 and 2 count; 3 is after the new one.
  const auto out =
      run_program(schedule, {floats({1, 1, 1}, {0}), floats({1, 1, 1}, {5}), floats({1, 1, 1}, {8}),
                             floats({1, 1, 4, 1}, {1, 2, 3, 4}), floats({1, 1, 4, 1}, {2, 100, 100, 100}),
                             int32s({1}, {2}), int32s({1, 3}, {1, 0, 1})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(5));
  EXPECT_THAT(out[1].values<float>(), ElementsAre(1, 2, 5, 4));
}

TEST(Attention, ASharedPastIsWrittenAtItsLength) {
  const ir::Schedule schedule = import_text(
      "g (float[1,1,1] x, float[1,3] w, float[2,1,1,4,1] past, int32[1] length) => (float[1,1,1] y, "
      "float[2,1,1,4,1] present) { "
      "y, present = com.microsoft.Attention <num_heads = 1, unidirectional = 1, past_present_share_buffer = "
      "1> "
      "(x, w, , , past, , length) }");
  const auto out =
      run_program(schedule, {floats({1, 1, 1}, {1}), floats({1, 3}, {0, 7, 9}),
                             floats({2, 1, 1, 4, 1}, {1, 2, 3, 4, 5, 6, 100, 100}), int32s({1}, {1})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(7));
  EXPECT_THAT(out[1].values<float>(), ElementsAre(1, 7, 3, 4, 5, 9, 100, 100));
}

TEST(Attention, RowsWithoutKeysAttendToAllThatAreMaskedAlike) {
  const ir::Schedule schedule = import_text(
      "g (float[batch,n,1] x, float[1,3] w, int32[batch] ends) => (float[batch,n,1] y) { "
      "y = com.microsoft.Attention <num_heads = 1> (x, w, , ends) }",
      {.dims = {{"batch", {1, 4}}, {"n", {1, 8}}}});
  const auto out = run_program(
      schedule, {floats({2, 2, 1}, {1, 3, 1, 3}), floats({1, 3}, {0, 0, 1}), int32s({2}, {1, 0})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(1, 1, 2, 2));
}

TEST(MatMulNBits, ConstantWeightsAreUnpackedWhenTheModelIsCompiled) {
  const std::string graph =
      "(float[2,16] x) => (float[2,1] y) { w = Constant <value = uint8[1,1,8] "
      "{16,50,84,118,152,186,220,254}> () "
      "s = Constant <value = float[1,1] {0.5}> () y = com.microsoft.MatMulNBits <K = 16, N = 1, block_size = "
      "16> (x, w, s) }";
  const ir::Schedule schedule = import_text("g " + graph);
  int constants_of_floats = 0;
  for (const ir::Storage& storage : schedule.graph.storages)
    constants_of_floats +=
        storage.kind == ir::StorageKind::constant && storage.name.find("as_floats") != std::string::npos;
  EXPECT_EQ(constants_of_floats, 1);
  std::vector<float> x(32, 0);
  x[3] = 1, x[16] = 1, x[17] = 1;  // weights 3, then 0 and 1, of which 8 is the middle
  EXPECT_THAT(run_program(schedule, {floats({2, 16}, x)})[0].values<float>(), ElementsAre(-2.5f, -7.5f));
}

// Weights that the kernel takes are constants of the program as they are in the model, and nothing else is
// made of them.
TEST(MatMulNBits, ConstantWeightsStayPacked) {
  const std::string graph =
      "(float[batch,2,64] x) => (float[batch,2,1] y) { w = Constant <value = uint8[1,2,16] "
      "{16,50,84,118,152,186,220,254,16,50,84,118,152,186,220,254,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,240}> "
      "() "
      "z = Constant <value = uint8[1,1] {55}> () s = Constant <value = float[1,2] {0.5, 2.0}> () "
      "y = com.microsoft.MatMulNBits <K = 64, N = 1, block_size = 32> (x, w, s, z) }";
  const ir::Schedule schedule = import_text("g " + graph, {.dims = {{"batch", {1, 4}}}});
  std::int64_t bytes = 0;
  for (const ir::Storage& storage : schedule.graph.storages) {
    if (storage.kind == ir::StorageKind::constant) bytes += storage.bytes.constant();
  }
  EXPECT_EQ(bytes, 32 + 2 + 8);  // zero points of a byte, scales of four
  std::vector<float> x(128, 0);
  x[3] = 1;           // 3, less 7, times 0.5
  x[64] = x[95] = 1;  // 0 and 15, each less 7, times 0.5
  x[64 + 63] = 1;     // 15, less 3, times 2
  EXPECT_THAT(run_program(schedule, {floats({1, 2, 64}, x)})[0].values<float>(), ElementsAre(-2, 24.5f));
}

// ---- what is refused

struct Refusal {
  const char* what;
  const char* node;  // the operator's line
  int code;
  const char* message;
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithNumberAndNode) {
  const std::string graph =
      "g (float[2,3,8] q, float[2,4,8] k, float[2,4,8] v, float[8,24] w, float[8] h, float[7] odd, "
      "float[6,4] table, "
      "int32[2] lengths, int32[5] five, int32[2,3] ids, int32[1] one, float[2,2,4,4] past, int32 total, "
      "int64[2,3] at, "
      "float[2,2,4,5] other, float[2,8,3,3] image, float[4,8,1,1] filter, uint8[4,1,8] bytes, float[4,1] "
      "scales) => (float[n] y) { "
      "[it] t = com.microsoft." +
      std::string(GetParam().node) + " all = Constant <value = int64[1] {-1}> () y = Reshape(t, all) }";
  const ir::UserError error = error_of([&] { import_text(graph, {.dims = {{"n", {1, 100000}}}}); });
  EXPECT_EQ(error.code(), GetParam().code) << error.message();
  EXPECT_EQ(error.location().node, "it");
  EXPECT_THAT(error.message(), HasSubstr(GetParam().message));
}

const Refusal kRefusals[] = {
    {"HeadsThatDoNotDivide", "MultiHeadAttention <num_heads = 3> (q, k, v)", errors::kShapeMismatch,
     "3 heads do not divide"},
    {"NoHeads", "MultiHeadAttention <num_heads = 0> (q, k, v)", errors::kInvalidAttribute,
     "'num_heads' is 0"},
    {"KeyAlone", "MultiHeadAttention <num_heads = 2> (q, k)", errors::kInvalidNode, "input 2 is missing"},
    {"LengthsOfTooManyRows", "MultiHeadAttention <num_heads = 2> (q, k, v, , five)", errors::kShapeMismatch,
     "input 4 has 5"},
    {"MaskOfOtherKeys", "MultiHeadAttention <num_heads = 2> (q, k, v, , ids)", errors::kShapeMismatch,
     "input 4 has the sizes"},
    {"BiasOfOtherSize", "MultiHeadAttention <num_heads = 2> (q, k, v, h)", errors::kShapeMismatch, "input 3"},
    {"HalfAPast", "MultiHeadAttention <num_heads = 2> (q, k, v, , , , past)", errors::kInvalidNode,
     "inputs 6 and 7"},
    {"PastOfOtherHeads", "MultiHeadAttention <num_heads = 2> (q, k, v, , , , other, other)",
     errors::kShapeMismatch, "input 6"},
    {"Beams", "MultiHeadAttention <num_heads = 2> (q, k, v, , , , , , , lengths)", errors::kUnsupportedForm,
     "cache_indirection"},
    {"BiasOfScoresOfOtherSize", "MultiHeadAttention <num_heads = 2> (q, k, v, , , other)",
     errors::kShapeMismatch, "input 5"},
    {"HiddenSizesThatDoNotAddUp", "Attention <num_heads = 2, qkv_hidden_sizes = [8, 8, 4]> (q, w)",
     errors::kShapeMismatch, "add up to 20"},
    {"HiddenSizesOfQueryAndKey", "Attention <num_heads = 2, qkv_hidden_sizes = [4, 8, 12]> (q, w)",
     errors::kInvalidAttribute, "query and key"},
    {"SharedWithoutLength", "Attention <num_heads = 2, past_present_share_buffer = 1> (q, w)",
     errors::kInvalidNode, "requires inputs 4"},
    {"OddRotation", "Attention <num_heads = 2, do_rotary = 1, rotary_embedding_dim = 3> (q, w)",
     errors::kInvalidAttribute, "'rotary_embedding_dim' is 3"},
    {"KeyHeadsThatDoNotDivide",
     "GroupQueryAttention <num_heads = 4, kv_num_heads = 3> (q, q, q, , , lengths, total)",
     errors::kInvalidAttribute, "'kv_num_heads' is 3"},
    {"PackedThatDoesNotDivide",
     "GroupQueryAttention <num_heads = 2, kv_num_heads = 2> (q, , , , , lengths, total)",
     errors::kShapeMismatch, "not divisible by 6"},
    {"RotationWithoutCaches",
     "GroupQueryAttention <num_heads = 2, kv_num_heads = 2, do_rotary = 1> (q, q, q, , , lengths, total)",
     errors::kInvalidNode, "inputs 7"},
    {"QuantisedCache",
     "GroupQueryAttention <num_heads = 2, kv_num_heads = 2, k_quant_type = \"PER_TENSOR\"> (q, q, q, , , "
     "lengths, total)",
     errors::kUnsupportedForm, "PER_TENSOR"},
    {"WindowOfBothSides",
     "GroupQueryAttention <num_heads = 2, kv_num_heads = 2, causal = 0, local_window_size = 2> (q, q, q, , , "
     "lengths, total)",
     errors::kInvalidAttribute, "local_window_size"},
    {"WindowOfNegativeSize",
     "GroupQueryAttention <num_heads = 2, kv_num_heads = 2, local_window_size = -2> (q, q, q, , , lengths, "
     "total)",
     errors::kInvalidAttribute, "'local_window_size' is -2"},
    {"CacheOfAWindow",
     "GroupQueryAttention <num_heads = 2, kv_num_heads = 2, sliding_window_cache = 1> (q, q, q, , , lengths, "
     "total)",
     errors::kUnsupportedForm, "sliding_window_cache"},
    {"EndlessScale", "MultiHeadAttention <num_heads = 2, scale = inf> (q, k, v)", errors::kInvalidAttribute,
     "'scale' is inf"},
    {"SoftcapThatIsNoNumber",
     "GroupQueryAttention <num_heads = 2, kv_num_heads = 2, softcap = nan> (q, q, q, , , lengths, total)",
     errors::kInvalidAttribute, "'softcap' is nan"},
    {"LengthsOfOtherRows", "GroupQueryAttention <num_heads = 2, kv_num_heads = 2> (q, q, q, , , five, total)",
     errors::kShapeMismatch, "input 5"},
    {"PackedBatches", "RotaryEmbedding <is_packed_batching = 1> (q, at, table, table)",
     errors::kUnsupportedForm, "is_packed_batching"},
    {"RotationOfMoreThanAHead",
     "RotaryEmbedding <num_heads = 4, rotary_embedding_dim = 8> (q, at, table, table)",
     errors::kShapeMismatch, "a head has 2"},
    {"SkipOfOtherSize", "SkipLayerNormalization(q, k, h)", errors::kShapeMismatch, "input 1"},
    {"GammaOfOtherSize", "SkipSimplifiedLayerNormalization(q, q, odd)", errors::kShapeMismatch, "input 2"},
    {"SegmentsWithoutTable", "EmbedLayerNormalization(ids, ids, table, table, , odd, odd)",
     errors::kInvalidNode, "inputs 1"},
    {"BiasOfOtherChannels", "BiasGelu(q, odd)", errors::kShapeMismatch, "input 1"},
    {"InnerSizes", "FusedMatMul <transB = 1> (q, w)", errors::kShapeMismatch, "8 and 24"},
    {"UnknownActivation", "FusedGemm <transB = 1, activation = \"Sine\"> (table, table)",
     errors::kInvalidAttribute, "'Sine'"},
    {"UnknownActivationOfConvolution", "FusedConv <activation = \"Sine\"> (image, filter)",
     errors::kInvalidAttribute, "'Sine'"},
    {"ActivationWithoutParameter", "FusedConv <activation = \"LeakyRelu\"> (image, filter)",
     errors::kInvalidAttribute, "LeakyRelu has no parameter 0"},
    {"ResidualOfOtherSize", "FusedConv(image, filter, , image)", errors::kShapeMismatch, "input 3"},
    {"BitsThatDoNotPack", "MatMulNBits <K = 8, N = 4, bits = 3, block_size = 16> (q, bytes, scales)",
     errors::kInvalidAttribute, "'bits' is 3"},
    {"BlockSize", "MatMulNBits <K = 8, N = 4, block_size = 24> (q, bytes, scales)", errors::kInvalidAttribute,
     "'block_size' is 24"},
    {"TooFewWeights", "MatMulNBits <K = 8, N = 5, block_size = 16> (q, bytes, scales)",
     errors::kShapeMismatch, "input 1"},
    {"OtherInnerSize", "MatMulNBits <K = 7, N = 4, block_size = 16> (q, bytes, scales)",
     errors::kShapeMismatch, "8 and 7"},
    {"ZeroColumns", "MatMulNBits <K = 0, N = 4, block_size = 16> (q, bytes, scales)",
     errors::kInvalidAttribute, "'K' is 0"},
    {"GroupsThatDoNotDivide", "GroupNorm <groups = 3, activation = 0> (q, h, h)", errors::kInvalidAttribute,
     "'groups' is 3"},
};
INSTANTIATE_TEST_SUITE_P(MicrosoftOperators, Refused, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(MicrosoftOperators, AttributesThatTheyDoNotHaveAreRefused) {
  const ir::UserError error = error_of([] {
    import_text("g (float[2,3] x) => (float[2,3] y) { [it] y = com.microsoft.FastGelu <alpha = 1.0> (x) }");
  });
  EXPECT_EQ(error.code(), errors::kInvalidAttribute);
  EXPECT_EQ(error.location().node, "it");
}

TEST(MicrosoftOperators, LayoutsOfOneProcessorAreRefusedWithAReason) {
  onnx::ModelProto model = parse_model("g (float[1,8,4,4] x) => (float[1,8,4,4] y) { y = Relu(x) }");
  model.mutable_graph()->mutable_node(0)->set_op_type("ReorderInput");
  model.mutable_graph()->mutable_node(0)->set_domain("com.microsoft.nchwc");
  onnx::OperatorSetIdProto& import = *model.add_opset_import();
  import.set_domain("com.microsoft.nchwc");
  import.set_version(1);
  const ir::UserError error = error_of([&] { import_proto(model); });
  EXPECT_EQ(error.code(), errors::kUnsupportedOperators);
  EXPECT_THAT(error.message(), HasSubstr("ORT_ENABLE_EXTENDED"));
}

TEST(LayerNormalization, StandsInModelsOfOldOperatorSets) {
  const ir::Schedule schedule =
      import_text("g (float[1,2] x, float[2] s) => (float[1,2] y) { y = LayerNormalization(x, s) }", {}, 11);
  EXPECT_THAT(run_program(schedule, {floats({1, 2}, {1, 3}), floats({2}, {1, 2})})[0].values<float>(),
              ElementsAre(FloatNear(-1, 1e-4f), FloatNear(2, 1e-4f)));
}

}  // namespace
}  // namespace braid::frontend
