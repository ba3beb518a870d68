// Schemas of the quantised operators, which ONNX Runtime's quantiser and optimiser write.

#include <initializer_list>
#include <string>
#include <vector>

#include "frontend/microsoft_schemas.h"
#include "frontend/schemas.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;
using onnx::TensorProto;
using Types = std::vector<std::string>;

const Types& bytes() {
  static const Types types = {"tensor(uint8)", "tensor(int8)"};
  return types;
}
const Types& stored() {
  static const Types types = {"tensor(int8)",   "tensor(uint8)", "tensor(int16)",
                              "tensor(uint16)", "tensor(int4)",  "tensor(uint4)"};
  return types;
}

struct Input {
  const char* name;
  const char* type;
  bool optional = false;
};
constexpr bool kOptional = true;

OpSchema schema(const char* name, std::initializer_list<Input> inputs, std::initializer_list<Input> outputs) {
  OpSchema s = microsoft_operator(name);
  const auto option = [](const Input& i) { return i.optional ? OpSchema::Optional : OpSchema::Single; };
  int k = 0;
  for (const Input& i : inputs) s.Input(k++, i.name, "", i.type, option(i));
  k = 0;
  for (const Input& o : outputs) s.Output(k++, o.name, "", o.type, option(o));
  return s;
}

OpSchema with_types(OpSchema s, std::initializer_list<std::pair<const char*, Types>> types) {
  for (const auto& [name, allowed] : types) s.TypeConstraint(name, allowed, "");
  return s;
}

void register_linear() {
  RegisterSchema(
      with_types(schema("QuantizeLinear", {{"x", "T1"}, {"y_scale", "T1"}, {"y_zero_point", "T2", kOptional}},
                        {{"y", "T2"}})
                     .Attr("axis", "axis with one scale for each index", AttributeProto::INT, false),
                 {{"T1", {"tensor(float16)", "tensor(float)"}}, {"T2", stored()}}));
  Types dequantised = stored();
  dequantised.push_back("tensor(int32)");
  RegisterSchema(
      with_types(schema("DequantizeLinear",
                        {{"x", "T1"}, {"x_scale", "T2"}, {"x_zero_point", "T1", kOptional}}, {{"y", "T2"}})
                     .Attr("axis", "axis with one scale for each index", AttributeProto::INT, false),
                 {{"T1", dequantised}, {"T2", {"tensor(float16)", "tensor(float)"}}}));
}

void register_products() {
  const Types floats = {"tensor(float)", "tensor(float16)"};
  RegisterSchema(with_types(schema("MatMulIntegerToFloat",
                                   {{"A", "T1"},
                                    {"B", "T2"},
                                    {"a_scale", "T3"},
                                    {"b_scale", "T3"},
                                    {"a_zero_point", "T1", kOptional},
                                    {"b_zero_point", "T2", kOptional},
                                    {"bias", "T3", kOptional}},
                                   {{"Y", "T3"}}),
                            {{"T1", bytes()}, {"T2", bytes()}, {"T3", floats}}));
  RegisterSchema(with_types(schema("DynamicQuantizeMatMul",
                                   {{"A", "T1"},
                                    {"B", "T2"},
                                    {"b_scale", "T1"},
                                    {"b_zero_point", "T2", kOptional},
                                    {"bias", "T1", kOptional}},
                                   {{"Y", "T1"}}),
                            {{"T1", {"tensor(float)"}}, {"T2", bytes()}}));
  RegisterSchema(
      with_types(schema("QGemm",
                        {{"A", "TA"},
                         {"a_scale", "T"},
                         {"a_zero_point", "TA"},
                         {"B", "TB"},
                         {"b_scale", "T"},
                         {"b_zero_point", "TB"},
                         {"C", "TC", kOptional},
                         {"y_scale", "T", kOptional},
                         {"y_zero_point", "TYZ", kOptional}},
                        {{"Y", "TY"}})
                     .Attr("transA", "whether A is transposed", AttributeProto::INT, std::int64_t{0})
                     .Attr("transB", "whether B is transposed", AttributeProto::INT, std::int64_t{0})
                     .Attr("alpha", "factor of the product", AttributeProto::FLOAT, 1.0f),
                 {{"T", {"tensor(float)"}},
                  {"TA", bytes()},
                  {"TB", bytes()},
                  {"TC", {"tensor(int32)"}},
                  {"TYZ", bytes()},
                  {"TY", {"tensor(float)", "tensor(uint8)", "tensor(int8)"}}}));
  RegisterSchema(with_types(schema("QLinearConv",
                                   {{"x", "T1"},
                                    {"x_scale", "tensor(float)"},
                                    {"x_zero_point", "T1"},
                                    {"w", "T2"},
                                    {"w_scale", "tensor(float)"},
                                    {"w_zero_point", "T2"},
                                    {"y_scale", "tensor(float)"},
                                    {"y_zero_point", "T3"},
                                    {"B", "T4", kOptional}},
                                   {{"y", "T3"}})
                                .Attr("auto_pad", "as of Conv", AttributeProto::STRING, std::string("NOTSET"))
                                .Attr("kernel_shape", "as of Conv", AttributeProto::INTS, false)
                                .Attr("dilations", "as of Conv", AttributeProto::INTS, false)
                                .Attr("strides", "as of Conv", AttributeProto::INTS, false)
                                .Attr("pads", "as of Conv", AttributeProto::INTS, false)
                                .Attr("group", "as of Conv", AttributeProto::INT, std::int64_t{1})
                                .Attr("channels_last", "whether x and y have their channels last",
                                      AttributeProto::INT, std::int64_t{0}),
                            {{"T1", bytes()}, {"T2", bytes()}, {"T3", bytes()}, {"T4", {"tensor(int32)"}}}));
}

// x, its scale and zero point; scale and zero point of the result.
OpSchema unary(const char* name) {
  return with_types(schema(name,
                           {{"X", "T"},
                            {"X_scale", "tensor(float)"},
                            {"X_zero_point", "T", kOptional},
                            {"Y_scale", "tensor(float)"},
                            {"Y_zero_point", "T", kOptional}},
                           {{"Y", "T"}}),
                    {{"T", bytes()}});
}

void register_elementwise() {
  for (const char* name : {"QLinearAdd", "QLinearMul"}) {
    RegisterSchema(with_types(schema(name,
                                     {{"A", "T"},
                                      {"A_scale", "tensor(float)"},
                                      {"A_zero_point", "T", kOptional},
                                      {"B", "T"},
                                      {"B_scale", "tensor(float)"},
                                      {"B_zero_point", "T", kOptional},
                                      {"C_scale", "tensor(float)"},
                                      {"C_zero_point", "T", kOptional}},
                                     {{"C", "T"}}),
                              {{"T", bytes()}}));
  }
  RegisterSchema(unary("QLinearSigmoid"));
  RegisterSchema(unary("QLinearLeakyRelu").Attr("alpha", "slope below zero", AttributeProto::FLOAT, 0.01f));
  RegisterSchema(unary("QLinearSoftmax")
                     .Attr("axis", "first normalised axis", AttributeProto::INT, std::int64_t{-1})
                     .Attr("opset", "version of Softmax that it stands for", AttributeProto::INT, true));
  RegisterSchema(
      unary("QLinearReduceMean")
          .Attr("axes", "reduced axes", AttributeProto::INTS, false)
          .Attr("keepdims", "whether they stay with size 1", AttributeProto::INT, std::int64_t{1}));
  RegisterSchema(
      unary("QLinearGlobalAveragePool")
          .Attr("channels_last", "whether channels are last", AttributeProto::INT, std::int64_t{0}));
  RegisterSchema(
      unary("QLinearAveragePool")
          .Attr("auto_pad", "as of AveragePool", AttributeProto::STRING, std::string("NOTSET"))
          .Attr("kernel_shape", "as of AveragePool", AttributeProto::INTS, true)
          .Attr("strides", "as of AveragePool", AttributeProto::INTS, false)
          .Attr("pads", "as of AveragePool", AttributeProto::INTS, false)
          .Attr("ceil_mode", "as of AveragePool", AttributeProto::INT, std::int64_t{0})
          .Attr("count_include_pad", "as of AveragePool", AttributeProto::INT, std::int64_t{0})
          .Attr("channels_last", "whether channels are last", AttributeProto::INT, std::int64_t{0}));
  RegisterSchema(with_types(schema("QLinearWhere",
                                   {{"condition", "B"},
                                    {"X", "T"},
                                    {"x_scale", "TF"},
                                    {"x_zero_point", "T"},
                                    {"Y", "T"},
                                    {"y_scale", "TF"},
                                    {"y_zero_point", "T"},
                                    {"z_scale", "TF"},
                                    {"z_zero_point", "T"}},
                                   {{"Z", "T"}}),
                            {{"B", {"tensor(bool)"}}, {"T", bytes()}, {"TF", {"tensor(float)"}}}));
  OpSchema concat("QLinearConcat", __FILE__, __LINE__);
  concat.SetDomain(kMicrosoftDomain).SinceVersion(1);
  concat.Attr("axis", "axis along which parts follow each other", AttributeProto::INT, true)
      .Input(0, "Y_scale", "scale of the result", "TF")
      .Input(1, "Y_zero_point", "zero point of the result", "T8")
      .Input(2, "inputs", "of each part: tensor, scale, zero point", "TV", OpSchema::Variadic, false)
      .Output(0, "Y", "result", "T8")
      .TypeConstraint("TF", {"tensor(float)"}, "scales")
      .TypeConstraint("T8", bytes(), "tensors")
      .TypeConstraint("TV", {"tensor(uint8)", "tensor(int8)", "tensor(float)"}, "parts");
  RegisterSchema(std::move(concat));
}

void register_lstm() {
  RegisterSchema(
      with_types(schema("DynamicQuantizeLSTM",
                        {{"X", "T"},
                         {"W", "T2"},
                         {"R", "T2"},
                         {"B", "T", kOptional},
                         {"sequence_lens", "T1", kOptional},
                         {"initial_h", "T", kOptional},
                         {"initial_c", "T", kOptional},
                         {"P", "T", kOptional},
                         {"W_scale", "T"},
                         {"W_zero_point", "T2"},
                         {"R_scale", "T"},
                         {"R_zero_point", "T2"}},
                        {{"Y", "T", kOptional}, {"Y_h", "T", kOptional}, {"Y_c", "T", kOptional}})
                     .Attr("activations", "as of LSTM", AttributeProto::STRINGS, false)
                     .Attr("activation_alpha", "as of LSTM", AttributeProto::FLOATS, false)
                     .Attr("activation_beta", "as of LSTM", AttributeProto::FLOATS, false)
                     .Attr("clip", "as of LSTM", AttributeProto::FLOAT, false)
                     .Attr("direction", "as of LSTM", AttributeProto::STRING, std::string("forward"))
                     .Attr("hidden_size", "as of LSTM", AttributeProto::INT, false)
                     .Attr("input_forget", "as of LSTM", AttributeProto::INT, std::int64_t{0}),
                 {{"T", {"tensor(float)"}}, {"T1", {"tensor(int32)"}}, {"T2", bytes()}}));
}

void register_transformer() {
  const Types floats = {"tensor(float)", "tensor(float16)"};
  RegisterSchema(with_types(
      schema("QAttention",
             {{"input", "T1"},
              {"weight", "T2"},
              {"bias", "T3"},
              {"input_scale", "T3"},
              {"weight_scale", "T3"},
              {"mask_index", "T4", kOptional},
              {"input_zero_point", "T1", kOptional},
              {"weight_zero_point", "T2", kOptional},
              {"past", "T3", kOptional}},
             {{"output", "T3"}, {"present", "T3", kOptional}})
          .Attr("num_heads", "number of heads", AttributeProto::INT, true)
          .Attr("unidirectional", "whether positions see only earlier ones", AttributeProto::INT,
                std::int64_t{0})
          .Attr("do_rotary", "whether positions are rotated", AttributeProto::INT, std::int64_t{0})
          .Attr("past_present_share_buffer", "a hint", AttributeProto::INT, std::int64_t{0})
          .Attr("mask_filter_value", "what is added to hidden scores", AttributeProto::FLOAT, false),
      {{"T1", bytes()}, {"T2", bytes()}, {"T3", floats}, {"T4", {"tensor(int32)"}}}));
  RegisterSchema(with_types(schema("QEmbedLayerNormalization",
                                   {{"input_ids", "T1"},
                                    {"segment_ids", "T1", kOptional},
                                    {"word_embedding_quant", "T2"},
                                    {"position_embedding_quant", "T2"},
                                    {"segment_embedding", "T2", kOptional},
                                    {"gamma_quant", "T2"},
                                    {"beta_quant", "T2"},
                                    {"mask", "T1", kOptional},
                                    {"word_embedding_scale", "T"},
                                    {"position_embedding_scale", "T"},
                                    {"segment_embedding_scale", "T", kOptional},
                                    {"gamma_scale", "T"},
                                    {"beta_scale", "T"},
                                    {"word_embedding_zero_point", "T2"},
                                    {"position_embedding_zero_point", "T2"},
                                    {"segment_embedding_zero_point", "T2", kOptional},
                                    {"gamma_zero_point", "T2"},
                                    {"beta_zero_point", "T2"}},
                                   {{"layernorm_out", "T"}, {"mask_index_out", "T1"}})
                                .Attr("epsilon", "added to the variance", AttributeProto::FLOAT, 1e-12f),
                            {{"T1", {"tensor(int32)"}}, {"T2", bytes()}, {"T", {"tensor(float)"}}}));
}

}  // namespace

void register_microsoft_quantised() {
  register_linear();
  register_products();
  register_elementwise();
  register_lstm();
  register_transformer();
}

}  // namespace braid::frontend
