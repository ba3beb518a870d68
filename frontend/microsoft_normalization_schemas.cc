// Normalisations after a residual or embeddings; activations of an input and a bias; LayerNormalization of
// older operator sets.
#include "frontend/microsoft_schemas.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

const std::vector<std::string> kFloatTypes = {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"};
const std::vector<std::string> kAllFloats = {"tensor(float)", "tensor(double)", "tensor(float16)",
                                             "tensor(bfloat16)"};

OpSchema skip_normalization(const char* name) {
  OpSchema schema = microsoft_operator(name);
  schema.Attr("epsilon", "added to the variance", AttributeProto::FLOAT, 1e-12f)
      .Input(0, "input", "(batch, sequence, hidden size)", "T")
      .Input(1, "skip", "the same, or without the batch", "T")
      .Input(2, "gamma", "(hidden size)", "T")
      .Output(0, "output", "of the same shape as the input", "T")
      .Output(1, "mean", "(batch, sequence, 1)", "U", OpSchema::Optional)
      .Output(2, "inv_std_var", "(batch, sequence, 1)", "U", OpSchema::Optional)
      .Output(3, "input_skip_bias_sum", "what was normalised", "T", OpSchema::Optional)
      .TypeConstraint("T", kFloatTypes, "types of the input")
      .TypeConstraint("U", {"tensor(float)"}, "types of statistics");
  return schema;
}

void register_embedding() {
  RegisterSchema(
      microsoft_operator("EmbedLayerNormalization")
          .Attr("epsilon", "added to the variance", AttributeProto::FLOAT, 1e-12f)
          .Attr("mask_index_type", "0: mask_index is not needed", AttributeProto::INT, std::int64_t{0})
          .Input(0, "input_ids", "(batch, sequence)", "I")
          .Input(1, "segment_ids", "(batch, sequence)", "I", OpSchema::Optional)
          .Input(2, "word_embedding", "(words, hidden size)", "T")
          .Input(3, "position_embedding", "(positions, hidden size)", "T")
          .Input(4, "segment_embedding", "(segments, hidden size)", "T", OpSchema::Optional)
          .Input(5, "gamma", "(hidden size)", "T")
          .Input(6, "beta", "(hidden size)", "T")
          .Input(7, "mask", "(batch, sequence)", "I", OpSchema::Optional)
          .Input(8, "position_ids", "(batch or 1, sequence)", "I", OpSchema::Optional)
          .Output(0, "output", "(batch, sequence, hidden size)", "T")
          .Output(1, "mask_index", "(batch): ones of the mask", "I", OpSchema::Optional)
          .Output(2, "embedding_sum", "what was normalised", "T", OpSchema::Optional)
          .TypeConstraint("I", {"tensor(int32)"}, "types of ids")
          .TypeConstraint("T", kFloatTypes, "types of embeddings"));
}

OpSchema group_normalization(const char* name) {
  OpSchema schema = microsoft_operator(name);
  schema.Attr("activation", "after it: 0 none, 1 SiLU", AttributeProto::INT, true)
      .Attr("channels_last", "whether channels are the last axis", AttributeProto::INT, std::int64_t{1})
      .Attr("epsilon", "added to the variance", AttributeProto::FLOAT, 1e-5f)
      .Attr("groups", "number of groups of channels", AttributeProto::INT, true)
      .Input(0, "X", "(batch, ..., channels) or (batch, channels, ...)", "T")
      .Input(1, "gamma", "(channels)", "M")
      .Input(2, "beta", "(channels)", "M")
      .Output(0, "Y", "of the same shape as the input", "T")
      .TypeConstraint("T", {"tensor(float)", "tensor(float16)"}, "types of the input")
      .TypeConstraint("M", {"tensor(float)", "tensor(float16)"}, "types of gamma and beta");
  return schema;
}

OpSchema activation(const char* name) {
  OpSchema schema = microsoft_operator(name);
  schema.Input(0, "X", "input", "T")
      .Output(0, "Y", "of the same shape as the input", "T")
      .TypeConstraint("T", kAllFloats, "types of the input");
  return schema;
}

void register_activations() {
  RegisterSchema(activation("Gelu"));
  RegisterSchema(
      activation("QuickGelu").Attr("alpha", "x * sigmoid(alpha x)", AttributeProto::FLOAT, 1.702f));
  RegisterSchema(activation("FastGelu").Input(1, "bias", "added to the input", "T", OpSchema::Optional));
  RegisterSchema(activation("BiasGelu").Input(1, "B", "added to the input", "T"));
  RegisterSchema(activation("BiasAdd")
                     .Input(1, "bias", "one number per channel", "T")
                     .Input(2, "skip", "of the same shape as the input", "T"));
  RegisterSchema(activation("BiasSplitGelu").Input(1, "bias", "(hidden size)", "T"));
}

// ONNX Runtime's optimiser writes LayerNormalization into models of any operator set; ONNX defines it from 17
// on.
void register_old_layer_normalization() {
  OpSchema schema("LayerNormalization", __FILE__, __LINE__);
  schema.SetDomain(onnx::ONNX_DOMAIN).SinceVersion(1);
  schema.Attr("axis", "first normalised axis", AttributeProto::INT, std::int64_t{-1})
      .Attr("epsilon", "added to the variance", AttributeProto::FLOAT, 1e-5f)
      .Attr("stash_type", "type in which the statistics are computed", AttributeProto::INT, std::int64_t{1})
      .Input(0, "X", "input", "T")
      .Input(1, "Scale", "scale", "T")
      .Input(2, "B", "bias", "T", OpSchema::Optional)
      .Output(0, "Y", "of the same shape as X", "T")
      .Output(1, "Mean", "mean", "U", OpSchema::Optional)
      .Output(2, "InvStdDev", "reciprocal of the deviation", "U", OpSchema::Optional)
      .TypeConstraint("T", kAllFloats, "types of the input")
      .TypeConstraint("U", {"tensor(float)", "tensor(double)"}, "types of statistics");
  RegisterSchema(std::move(schema));
}

}  // namespace

void register_microsoft_normalizations() {
  RegisterSchema(skip_normalization("SkipLayerNormalization")
                     .Input(3, "beta", "(hidden size)", "T", OpSchema::Optional)
                     .Input(4, "bias", "(hidden size), added to the input", "T", OpSchema::Optional));
  RegisterSchema(skip_normalization("SkipSimplifiedLayerNormalization")
                     .Input(3, "bias", "(hidden size), added to the input", "T", OpSchema::Optional));
  RegisterSchema(group_normalization("GroupNorm"));
  RegisterSchema(group_normalization("SkipGroupNorm")
                     .Input(3, "skip", "of the shape of the input, or (batch, channels)", "T")
                     .Input(4, "bias", "(channels)", "T", OpSchema::Optional)
                     .Output(1, "S", "what was normalised", "T", OpSchema::Optional));
  register_embedding();
  register_activations();
  register_old_layer_normalization();
}

}  // namespace braid::frontend
