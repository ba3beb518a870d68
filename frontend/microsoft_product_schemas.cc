// Products and convolutions with transposed operands, a residual or an activation, and with block-quantised
// weights.
#include <algorithm>

#include "frontend/microsoft_schemas.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

const std::vector<std::string> kAllFloats = {"tensor(float)", "tensor(double)", "tensor(float16)",
                                             "tensor(bfloat16)"};
const std::vector<std::string> kReal = {"tensor(float)", "tensor(double)", "tensor(float16)"};
const std::vector<std::string> kFloatTypes = {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"};

OpSchema matmul(const char* name) {
  OpSchema schema = microsoft_operator(name);
  schema.Attr("alpha", "factor of the product", AttributeProto::FLOAT, 1.0f)
      .Attr("transA", "exchanges the last axes of A", AttributeProto::INT, std::int64_t{0})
      .Attr("transB", "exchanges the last axes of B", AttributeProto::INT, std::int64_t{0})
      .Input(0, "A", "matrices", "T")
      .Input(1, "B", "matrices", "T")
      .Output(0, "Y", "products", "T")
      .TypeConstraint("T", kAllFloats, "types of the operands");
  return schema;
}

void register_gemm() {
  RegisterSchema(microsoft_operator("FusedGemm")
                     .Attr("activation", "function of the result", AttributeProto::STRING, std::string())
                     .Attr("activation_alpha", "its first parameter", AttributeProto::FLOAT, false)
                     .Attr("activation_beta", "its second parameter", AttributeProto::FLOAT, false)
                     .Attr("activation_gamma", "its third parameter", AttributeProto::FLOAT, false)
                     .Attr("alpha", "factor of the product", AttributeProto::FLOAT, 1.0f)
                     .Attr("beta", "factor of C", AttributeProto::FLOAT, 1.0f)
                     .Attr("transA", "transposes A", AttributeProto::INT, std::int64_t{0})
                     .Attr("transB", "transposes B", AttributeProto::INT, std::int64_t{0})
                     .Input(0, "A", "matrix", "T")
                     .Input(1, "B", "matrix", "T")
                     .Input(2, "C", "added to the product", "T", OpSchema::Optional)
                     .Output(0, "Y", "matrix", "T")
                     .TypeConstraint("T", kReal, "types of the operands"));
  RegisterSchema(microsoft_operator("GemmFastGelu")
                     .Input(0, "X", "matrices", "T")
                     .Input(1, "W", "matrix", "T")
                     .Input(2, "bias", "(columns of W)", "T", OpSchema::Optional)
                     .Output(0, "Y", "gelu of the product and the bias", "T")
                     .TypeConstraint("T", kFloatTypes, "types of the operands"));
}

OpSchema convolution(const char* name) {
  OpSchema schema = microsoft_operator(name);
  schema
      .Attr("auto_pad", "NOTSET, SAME_UPPER, SAME_LOWER or VALID", AttributeProto::STRING,
            std::string("NOTSET"))
      .Attr("dilations", "distance of the taps", AttributeProto::INTS, false)
      .Attr("group", "groups of channels and filters", AttributeProto::INT, std::int64_t{1})
      .Attr("kernel_shape", "sizes of the windows", AttributeProto::INTS, false)
      .Attr("pads", "zeros around the input", AttributeProto::INTS, false)
      .Attr("strides", "distance of the windows", AttributeProto::INTS, false)
      .Input(0, "X", "input", "T")
      .Input(1, "W", "filters", "T")
      .Input(2, "B", "(filters)", "T", OpSchema::Optional)
      .Output(0, "Y", "result", "T")
      .TypeConstraint("T", kReal, "types of the operands");
  return schema;
}

OpSchema with_activation(OpSchema schema) {
  schema.Attr("activation", "function of the result", AttributeProto::STRING, std::string())
      .Attr("activation_params", "its parameters", AttributeProto::FLOATS, false)
      .Input(3, "Z", "residual, of the shape of the result", "T", OpSchema::Optional);
  return schema;
}

void register_convolutions() {
  RegisterSchema(with_activation(convolution("FusedConv")));
  RegisterSchema(convolution("NhwcConv"));
  RegisterSchema(with_activation(convolution("NhwcFusedConv")));
}

void register_block_quantized() {
  RegisterSchema(
      microsoft_operator("MatMulNBits")
          .Attr("K", "columns of the weights, inner size", AttributeProto::INT, true)
          .Attr("N", "rows of the weights, last size of the result", AttributeProto::INT, true)
          .Attr("accuracy_level", "types that may be computed in", AttributeProto::INT, std::int64_t{0})
          .Attr("bits", "of a weight", AttributeProto::INT, std::int64_t{4})
          .Attr("block_size", "weights of a scale", AttributeProto::INT, true)
          .Attr("weight_prepacked", "weights are in the layout of a device", AttributeProto::INT,
                std::int64_t{0})
          .Input(0, "A", "(..., K)", "T")
          .Input(1, "B", "(N, blocks, bytes of a block)", "B")
          .Input(2, "scales", "(N, blocks)", "T")
          .Input(3, "zero_points", "(N, blocks), or packed like B", "Z", OpSchema::Optional)
          .Input(4, "g_idx", "(K): the block of each column", "G", OpSchema::Optional)
          .Input(5, "bias", "(N)", "T", OpSchema::Optional)
          .Output(0, "Y", "(..., N)", "T")
          .TypeConstraint("T", kFloatTypes, "types of input and scales")
          .TypeConstraint("B", {"tensor(uint8)"}, "types of weights")
          .TypeConstraint("Z", {"tensor(uint8)", "tensor(float)", "tensor(float16)", "tensor(bfloat16)"},
                          "types of zero points")
          .TypeConstraint("G", {"tensor(int32)"}, "types of indices"));
  RegisterSchema(microsoft_operator("GatherBlockQuantized")
                     .Attr("bits", "of a number", AttributeProto::INT, std::int64_t{4})
                     .Attr("block_size", "numbers of a scale", AttributeProto::INT, std::int64_t{128})
                     .Attr("gather_axis", "axis of the indices", AttributeProto::INT, std::int64_t{0})
                     .Attr("quantize_axis", "axis of the blocks", AttributeProto::INT, std::int64_t{1})
                     .Input(0, "data", "rows of packed numbers", "D")
                     .Input(1, "indices", "rows", "I")
                     .Input(2, "scales", "one per block", "T")
                     .Input(3, "zero_points", "one per block, packed like the data", "D", OpSchema::Optional)
                     .Output(0, "output", "rows of numbers", "T")
                     .TypeConstraint("D", {"tensor(uint8)", "tensor(int4)", "tensor(uint4)"}, "types of data")
                     .TypeConstraint("I", {"tensor(int32)", "tensor(int64)"}, "types of indices")
                     .TypeConstraint("T", kFloatTypes, "types of scales"));
}

}  // namespace

void register_microsoft_products() {
  RegisterSchema(matmul("FusedMatMul")
                     .Attr("transBatchA", "moves the first axis of A in front of the last",
                           AttributeProto::INT, std::int64_t{0})
                     .Attr("transBatchB", "moves the first axis of B in front of the last",
                           AttributeProto::INT, std::int64_t{0}));
  RegisterSchema(matmul("TransposeMatMul"));
  register_gemm();
  register_convolutions();
  register_block_quantized();
}

}  // namespace braid::frontend
