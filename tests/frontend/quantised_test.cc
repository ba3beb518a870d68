// Quantised operators and small types where random cases (reference/quantisation.py) do not look: refusals,
// constants that stay packed in memory, the forms that passes look for, and every code of every small float.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ir::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An initializer of a model.
void add_tensor(onnx::ModelProto& model, const std::string& name, int type, std::vector<std::int64_t> dims,
                const std::string& raw) {
  onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (std::int64_t d : dims) tensor.add_dims(d);
  tensor.set_raw_data(raw);
}

std::string floats_text(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<ir::Tensor> run_program(const ir::Schedule& schedule, std::vector<ir::Tensor> inputs) {
  const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
  return ir::run(schedule, per_rank).outputs[0];
}

constexpr char kQuantize[] = "g (float[2,3] x) => (uint8[2,3] y) { y = QuantizeLinear <axis = 1> (x, s) }";

ir::UserError scale_error(const std::vector<float>& scale) {
  onnx::ModelProto model = parse_model(kQuantize, 21);
  model.mutable_graph()->mutable_node(0)->set_name("q");
  add_tensor(model, "s", onnx::TensorProto::FLOAT, {static_cast<std::int64_t>(scale.size())},
             floats_text(scale));
  return error_of([&] { import_proto(model); });
}

TEST(Quantisation, ScalesMustBePositiveNumbers) {
  for (const float bad :
       {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const ir::UserError error = scale_error({1, bad, 1});
    EXPECT_EQ(error.code(), errors::kQuantisationScale) << bad;
    EXPECT_THAT(error.message(), HasSubstr("element 1 of the scale 's'"));
    EXPECT_EQ(error.location().node, "q");
  }
}

TEST(Quantisation, ScalesMustFitTheirTensor) {
  const ir::UserError error = scale_error({1, 1});
  EXPECT_EQ(error.code(), errors::kShapeMismatch);
  EXPECT_THAT(error.message(), HasSubstr("has size 2, expected 3"));
}

struct RefusedProduct {
  const char* graph;
  int opset, code;
};

TEST(Quantisation, ParametersThatDoNotFitAreRefused) {
  const RefusedProduct kCases[] = {
      // The zero point has another shape than the scale.
      {"g (float[2,3] x, float[3] s, uint8[2] z) => (uint8[2,3] y) { y = QuantizeLinear(x, s, z) }", 21,
       errors::kShapeMismatch},
      {"g (float[2,3] x, float s, uint8[3] z) => (uint8[2,3] y) { y = QuantizeLinear(x, s, z) }", 21,
       errors::kShapeMismatch},
      // Blocks: of another rank, and too few of them.
      {"g (float[2,6] x, float[6] s) => (uint8[2,6] y) { y = QuantizeLinear <block_size = 2> (x, s) }", 21,
       errors::kShapeMismatch},
      {"g (float[2,6] x, float[2,2] s) => (uint8[2,6] y) { y = QuantizeLinear <block_size = 2> (x, s) }", 21,
       errors::kShapeMismatch},
      {"g (uint8[2,6] x, float[2,3] s) => (float[2,6] y) { y = DequantizeLinear <block_size = -2> (x, s) }",
       21, errors::kInvalidAttribute},
      // Version 10 has one scale for the tensor.
      {"g (float[2,3] x, float[3] s) => (uint8[2,3] y) { y = QuantizeLinear(x, s) }", 10,
       errors::kShapeMismatch},
      {"g (float[2,3] x, float[3] s) => (uint8[2,3] y) { y = QuantizeLinear <axis = 2> (x, s) }", 13,
       errors::kInvalidAttribute},
      {"g (uint8[2,3] a, float[2] s, uint8[2] z, uint8[3,4] b, float t, uint8 u, float v, uint8 w) => "
       "(uint8[2,4] y) "
       "{ y = QLinearMatMul(a, s, z, b, t, u, v, w) }",
       21, 0},
      {"g (uint8[2,3] a, float[3] s, uint8[3] z, uint8[3,4] b, float t, uint8 u, float v, uint8 w) => "
       "(uint8[2,4] y) "
       "{ y = QLinearMatMul(a, s, z, b, t, u, v, w) }",
       21, errors::kShapeMismatch},
      {"g (uint8[1,2,4,4] x, float s, uint8 z, int8[3,2,1,1] w, float[2] t, int8[2] u, float v, uint8 o) => "
       "(uint8[1,3,4,4] y) { y = QLinearConv(x, s, z, w, t, u, v, o) }",
       21, errors::kShapeMismatch},
      {"g (uint8[2] a, float[2] s, uint8[2] b, float t, float u) => (uint8[2] y) { y = "
       "com.microsoft.QLinearAdd(a, s, "
       ", b, t, , u) }",
       17, errors::kShapeMismatch},
  };
  for (const RefusedProduct& c : kCases) {
    if (c.code == 0) {
      EXPECT_NO_THROW(import_text(c.graph, {}, c.opset)) << c.graph;
      continue;
    }
    const ir::UserError error = error_of([&] { import_text(c.graph, {}, c.opset); });
    EXPECT_EQ(error.code(), c.code) << c.graph << "\n" << error.message();
  }
}

// Neither the numbers nor their sums fit f32; ratios of the scales do.
TEST(Quantisation, ScalesNearTheLimitsOfF32OverflowNothing) {
  const auto run = [](const std::string& text, std::vector<ir::Tensor> inputs) {
    const std::vector<std::vector<ir::Tensor>> of_ranks = {std::move(inputs)};
    const ir::Tensor result = ir::run(import_text(text), of_ranks).outputs[0][0];
    return result.values<std::uint8_t>();
  };
  const auto bytes = [](std::vector<std::int64_t> sizes, std::vector<std::uint8_t> values) {
    return ir::make_tensor(ir::DType::u8, std::move(sizes), values);
  };
  EXPECT_THAT(run("g (uint8[3] a, uint8[3] b) => (uint8[3] y) <float s = {1e38}, float t = {1e-38}, float u "
                  "= {1.5e38}, "
                  "uint8 z = {0}> { y = com.microsoft.QLinearAdd(a, s, z, b, t, z, u, z) }",
                  {bytes({3}, {3, 255, 0}), bytes({3}, {9, 200, 255})}),
              ElementsAre(2, 170, 0));
  EXPECT_THAT(run("g (uint8[3] a, uint8[3] b) => (uint8[3] y) <float s = {2.3e-23}, float t = {1.9e-22}, "
                  "float u = {3e-43}, "
                  "uint8 z = {0}> { y = com.microsoft.QLinearMul(a, s, z, b, t, z, u, z) }",
                  {bytes({3}, {10, 50, 0}), bytes({3}, {100, 200, 255})}),
              ElementsAre(15, 146, 0));
  EXPECT_THAT(
      run("g (uint8[1,1,7,7] x) => (uint8[1,1,1,1] y) <float s = {1e36}, float u = {2e36}, uint8 z = {0}> "
          "{ y = com.microsoft.QLinearGlobalAveragePool(x, s, z, u, z) }",
          {bytes({1, 1, 7, 7}, std::vector<std::uint8_t>(49, 200))}),
      ElementsAre(100));
}

TEST(Quantisation, ZeroPointsOfOtherTypesAreRefused) {
  // ONNX's own operators say so with one type variable; QGemm's result has a type of its own.
  const ir::UserError error = error_of([] {
    import_text(
        "g (float[2] x, float s, uint8 z) => (int8[2] y) { y = QuantizeLinear <output_dtype = 3> (x, s, z) }",
        {}, 21);
  });
  EXPECT_EQ(error.code(), errors::kTypeMismatch);
  const ir::UserError concat = error_of([] {
    import_text(
        "g (float s, uint8 z, uint8[2] x, float t, int8 u) => (uint8[2] y) "
        "{ y = com.microsoft.QLinearConcat <axis = 0> (s, z, x, t, u) }");
  });
  EXPECT_EQ(concat.code(), errors::kTypeMismatch);
}

// round(x / 2) to even, with ties and values beyond the range.
TEST(Quantisation, RoundsHalfToEvenAndSaturates) {
  const ir::Schedule schedule = import_text(
      "g (float[8] x) => (int8[8] y) <float s = {2.0}, int8 z = {1}> { y = QuantizeLinear(x, s, z) }", {},
      21);
  const auto out = run_program(
      schedule, {ir::make_tensor(DType::f32, {8}, std::vector<float>{1, 3, 5, -1, -3, 1000, -1000, 253})});
  EXPECT_THAT(out[0].values<std::int8_t>(), ElementsAre(1, 3, 3, 1, -1, 127, -128, 127));
}

TEST(Quantisation, DynamicQuantisationOfZerosHasNoNaN) {
  const ir::Schedule schedule =
      import_text("g (float[3] x) => (uint8[3] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }");
  const auto out = run_program(schedule, {ir::make_tensor(DType::f32, {3}, std::vector<float>{0, 0, 0})});
  EXPECT_THAT(out[0].values<std::uint8_t>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(out[1].values<float>(), ElementsAre(1.0f / 255));
  EXPECT_THAT(out[2].values<std::uint8_t>(), ElementsAre(0));
}

// A product of integers stays one of i32, so that a pass finds it.
TEST(Quantisation, ProductsOfIntegersAreProductsInTheProgram) {
  const ir::Schedule schedule = import_text(
      "g (uint8[2,3] a, int8[3,4] b) => (uint8[2,4] y) <float s = {0.5}, uint8 z = {3}, float t = {0.25}, "
      "int8 u = {1}> "
      "{ y = QLinearMatMul(a, s, z, b, t, u, s, z) }",
      {}, 21);
  const std::string text = ir::print(schedule);
  EXPECT_THAT(text, HasSubstr("gemm"));
  EXPECT_THAT(text, HasSubstr("i32"));
}

TEST(SmallTypes, ConstantsOfFourBitsStayPackedInMemory) {
  onnx::ModelProto model = parse_model("g (float s) => (float[3,5] y) { y = DequantizeLinear(w, s) }", 21);
  add_tensor(model, "w", onnx::TensorProto::INT4, {3, 5}, std::string("\x10\x32\x54\x76\x98\xba\xdc\x0e", 8));
  const ir::Schedule schedule = import_proto(model);
  std::int64_t bytes = 0;
  for (const ir::Storage& storage : schedule.graph.storages) {
    if (storage.kind == ir::StorageKind::constant) bytes += storage.bytes.constant();
  }
  EXPECT_EQ(bytes, 8);
  const auto out = run_program(schedule, {ir::make_tensor(DType::f32, {}, std::vector<float>{2})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, -16, -14, -12, -10, -8, -6, -4));
}

// Interfaces have one byte per element, of which the low bits count.
TEST(SmallTypes, ProgramsTakeAndGiveBytes) {
  const ir::Schedule schedule = import_text(
      "g (int4[4] x) => (int4[4] y, int8[4] z) { y = Identity(x) z = Cast <to = 3> (x) }", {}, 24);
  EXPECT_EQ(schedule.graph[schedule.graph.inputs[0].buffer].dtype, DType::i8);
  const auto out =
      run_program(schedule, {ir::make_tensor(DType::i8, {4}, std::vector<std::int8_t>{-8, 7, -1, 0x1f})});
  EXPECT_EQ(out[0].dtype, DType::i8);
  EXPECT_THAT(out[1].values<std::int8_t>(), ElementsAre(-8, 7, -1, -1));
}

// All 256 codes go to f32 and back.
TEST(SmallTypes, EveryCodeSurvivesF32) {
  struct Type {
    const char* name;
    int number, codes;
  };
  for (const Type& t :
       {Type{"float8e4m3fn", 17, 256}, Type{"float8e4m3fnuz", 18, 256}, Type{"float8e5m2", 19, 256},
        Type{"float8e5m2fnuz", 20, 256}, Type{"float8e8m0", 24, 256}, Type{"float4e2m1", 23, 16}}) {
    const std::string graph = fmt::format(
        "g ({0}[{2}] x) => ({0}[{2}] y, float[{2}] f) {{ f = Cast <to = 1> (x) y = Cast <to = {1}, saturate "
        "= 0> (f) }}",
        t.name, t.number, t.codes);
    const ir::Schedule schedule = import_text(graph, {}, 25);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(t.codes));
    for (int k = 0; k < t.codes; ++k) codes[static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(k);
    const auto out = run_program(schedule, {ir::make_tensor(DType::u8, {t.codes}, codes)});
    const auto back = out[0].values<std::uint8_t>();
    const auto numbers = out[1].values<float>();
    for (std::size_t k = 0; k < codes.size(); ++k) {
      if (std::isnan(numbers[k])) {
        const std::uint8_t nan = t.number == 18 || t.number == 20 ? 0x80
                                 : t.number == 24                 ? 0xff
                                 : t.number == 17                 ? 0x7f
                                                                  : 0x7e;
        EXPECT_EQ(back[k] & (nan == 0x80 || nan == 0xff ? 0xff : 0x7f), nan) << t.name << " " << k;
      } else {
        EXPECT_EQ(back[k], codes[k]) << t.name << " of " << numbers[k];
      }
    }
  }
}

// ONNX's tables for FLOAT8E8M0.
TEST(SmallTypes, PowersOfTwoRoundAsAsked) {
  const auto cast = [](const std::string& options, const std::vector<float>& x) {
    const ir::Schedule schedule =
        import_text(fmt::format("g (float[{0}] x) => (float8e8m0[{0}] y) {{ y = Cast <to = 24{1}> (x) }}",
                                x.size(), options),
                    {}, 24);
    return run_program(schedule, {ir::make_tensor(DType::f32, {static_cast<std::int64_t>(x.size())}, x)})[0]
        .values<std::uint8_t>();
  };
  const std::vector<float> x = {1, 1.25f, 1.5f, 1.75f, 0, std::numeric_limits<float>::infinity(), NAN, 3e38f};
  EXPECT_THAT(cast("", x), ElementsAre(127, 128, 128, 128, 0, 254, 255, 254));
  EXPECT_THAT(cast(", round_mode = \"down\"", x), ElementsAre(127, 127, 127, 127, 0, 254, 255, 254));
  EXPECT_THAT(cast(", round_mode = \"nearest\"", x), ElementsAre(127, 127, 128, 128, 0, 254, 255, 254));
  EXPECT_THAT(cast(", round_mode = \"nearest\", saturate = 0", x),
              ElementsAre(127, 127, 128, 128, 255, 255, 255, 255));
  EXPECT_EQ(error_of([&] { cast(", round_mode = \"even\"", x); }).code(), errors::kInvalidAttribute);
}

TEST(SmallTypes, AreNotComputedWith) {
  const ir::UserError error = error_of([] {
    import_text("g (float8e5m2[2] x) => (float8e5m2[2] y) { t = Add(x, x) y = Identity(t) }", {}, 24);
  });
  EXPECT_NE(error.code(), 0);
}

}  // namespace
}  // namespace braid::frontend
