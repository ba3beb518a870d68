// Products and convolutions with transposed operands, a residual or an activation, and of block-quantised weights.
#include <algorithm>

#include "frontend/microsoft_schemas.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

const std::vector<std::string> kAllFloats = {"tensor(float)", "tensor(double)", "tensor(float16)",
                                             "tensor(bfloat16)"};
const std::vector<std::string> kReal = {"tensor(float)", "tensor(double)", "tensor(float16)"};
const std::vector<std::string> kFloatTypes = {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"};

// The operand as MatMul sees it.
std::optional<std::vector<Dim>> operand(InferenceContext& ctx, std::size_t k, const char* transposed,
                                        const char* batch_transposed) {
  auto dims = dims_of(ctx, k);
  if (!dims || dims->empty()) return std::nullopt;
  if (dims->size() >= 3 && int_of(ctx, batch_transposed, 0) != 0)
    std::rotate(dims->begin(), dims->begin() + 1, dims->end() - 1);
  if (dims->size() >= 2 && int_of(ctx, transposed, 0) != 0)
    std::swap((*dims)[dims->size() - 2], dims->back());
  return dims;
}

// The size that two operands are broadcast to; unknown if one of them is.
Dim broadcast(const Dim& a, const Dim& b) {
  if (a.has_dim_value() && b.has_dim_value()) return a.dim_value() == 1 ? b : a;
  if (a.has_dim_value() && a.dim_value() > 1) return a;
  if (b.has_dim_value() && b.dim_value() > 1) return b;
  return {};
}

void infer_fused_matmul(InferenceContext& ctx) {
  set_type_of_input(ctx, 0, 0);
  const auto a = operand(ctx, 0, "transA", "transBatchA"), b = operand(ctx, 1, "transB", "transBatchB");
  if (!a || !b) return;
  std::vector<Dim> batch_a(a->begin(), a->size() > 2 ? a->end() - 2 : a->begin()),
      batch_b(b->begin(), b->size() > 2 ? b->end() - 2 : b->begin());
  const std::size_t rank = std::max(batch_a.size(), batch_b.size());
  batch_a.insert(batch_a.begin(), rank - batch_a.size(), dim_of(1));
  batch_b.insert(batch_b.begin(), rank - batch_b.size(), dim_of(1));
  std::vector<Dim> result;
  for (std::size_t d = 0; d < rank; ++d) result.push_back(broadcast(batch_a[d], batch_b[d]));
  if (a->size() >= 2) result.push_back((*a)[a->size() - 2]);
  if (b->size() >= 2) result.push_back(b->back());
  set_dims(ctx, 0, result);
}

OpSchema matmul(const char* name) {
  OpSchema schema = microsoft_operator(name);
  schema.Attr("alpha", "factor of the product", AttributeProto::FLOAT, 1.0f)
      .Attr("transA", "exchanges the last axes of A", AttributeProto::INT, std::int64_t{0})
      .Attr("transB", "exchanges the last axes of B", AttributeProto::INT, std::int64_t{0})
      .Input(0, "A", "matrices", "T")
      .Input(1, "B", "matrices", "T")
      .Output(0, "Y", "products", "T")
      .TypeConstraint("T", kAllFloats, "types of the operands")
      .TypeAndShapeInferenceFunction(infer_fused_matmul);
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
                     .TypeConstraint("T", kReal, "types of the operands")
                     .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
                       set_type_of_input(ctx, 0, 0);
                       const auto a = dims_of(ctx, 0, 2), b = dims_of(ctx, 1, 2);
                       if (!a || !b) return;
                       const bool trans_a = int_of(ctx, "transA", 0) != 0,
                                  trans_b = int_of(ctx, "transB", 0) != 0;
                       set_dims(ctx, 0, {(*a)[trans_a ? 1 : 0], (*b)[trans_b ? 0 : 1]});
                     }));
  RegisterSchema(microsoft_operator("GemmFastGelu")
                     .Input(0, "X", "matrices", "T")
                     .Input(1, "W", "matrix", "T")
                     .Input(2, "bias", "(columns of W)", "T", OpSchema::Optional)
                     .Output(0, "Y", "gelu of the product and the bias", "T")
                     .TypeConstraint("T", kFloatTypes, "types of the operands")
                     .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
                       set_type_of_input(ctx, 0, 0);
                       auto x = dims_of(ctx, 0);
                       const auto w = dims_of(ctx, 1, 2);
                       if (!x || x->empty() || !w) return;
                       x->back() = (*w)[1];
                       set_dims(ctx, 0, *x);
                     }));
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

// Channels are last; spatial sizes are left to lowering.
void infer_channels_last(InferenceContext& ctx) {
  set_type_of_input(ctx, 0, 0);
  auto x = dims_of(ctx, 0);
  const auto w = dims_of(ctx, 1);
  if (!x || !w || x->size() < 3 || w->size() != x->size()) return;
  for (std::size_t d = 1; d + 1 < x->size(); ++d) (*x)[d].Clear();
  x->back() = (*w)[0];
  set_dims(ctx, 0, *x);
}

void register_convolutions() {
  RegisterSchema(
      with_activation(convolution("FusedConv")).TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
        set_type_of_input(ctx, 0, 0);
        onnx::convPoolShapeInference(ctx, true, false, 0, 1);
      }));
  RegisterSchema(convolution("NhwcConv").TypeAndShapeInferenceFunction(infer_channels_last));
  RegisterSchema(
      with_activation(convolution("NhwcFusedConv")).TypeAndShapeInferenceFunction(infer_channels_last));
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
          .TypeConstraint("G", {"tensor(int32)"}, "types of indices")
          .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
            set_type_of_input(ctx, 0, 0);
            auto dims = dims_of(ctx, 0);
            if (!dims || dims->empty()) return;
            dims->back() = dim_of(int_of(ctx, "N", 0));
            set_dims(ctx, 0, *dims);
          }));
  RegisterSchema(
      microsoft_operator("GatherBlockQuantized")
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
          .TypeConstraint("T", kFloatTypes, "types of scales")
          .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
            set_type_of_input(ctx, 2, 0);
            const auto data = dims_of(ctx, 0), indices = dims_of(ctx, 1);
            const std::int64_t bits = int_of(ctx, "bits", 4);
            const bool bytes = has_input(ctx, 0) &&
                               ctx.getInputType(0)->tensor_type().elem_type() == onnx::TensorProto::UINT8;
            if (!data || !indices || data->size() < 2 || !bytes || (bits != 2 && bits != 4 && bits != 8))
              return;
            const std::int64_t axis = int_of(ctx, "gather_axis", 0);
            if (axis != 0 && axis != -static_cast<std::int64_t>(data->size())) return;
            std::vector<Dim> result = *indices;
            result.insert(result.end(), data->begin() + 1, data->end() - 1);
            result.push_back(times(data->back(), 8 / bits));
            set_dims(ctx, 0, result);
          }));
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
