// Attention, MultiHeadAttention, GroupQueryAttention, RotaryEmbedding.
#include "frontend/microsoft_schemas.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

const std::vector<std::string> kFloatTypes = {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"};

OpSchema attention(const char* name) {
  OpSchema schema = microsoft_operator(name);
  schema.Attr("num_heads", "number of heads of the query", AttributeProto::INT, true)
      .Attr("scale", "of query times key; 0: 1 / sqrt(head size)", AttributeProto::FLOAT, 0.0f)
      .TypeConstraint("T", kFloatTypes, "types of queries, keys and values")
      .TypeConstraint("M", {"tensor(int32)"}, "types of masks and lengths");
  return schema;
}

void infer_fused(InferenceContext& ctx) {
  for (const std::size_t k : {0, 1}) set_type_of_input(ctx, 0, k);
  const auto input = dims_of(ctx, 0, 3), weights = dims_of(ctx, 1, 2);
  if (!input || !weights) return;
  const AttributeProto* sizes = ctx.getAttribute("qkv_hidden_sizes");
  const bool given = sizes != nullptr && sizes->ints_size() == 3;
  set_dims(ctx, 0, {(*input)[0], (*input)[1], given ? dim_of(sizes->ints(2)) : over((*weights)[1], 3)});
  const std::int64_t heads = int_of(ctx, "num_heads", 0);
  std::vector<Dim> present = {dim_of(2), (*input)[0], dim_of(heads), (*input)[1], Dim()};
  if (!given) present[4] = over(over((*weights)[1], 3), heads);
  if (has_input(ctx, 4)) {
    const auto past = dims_of(ctx, 4, 5);
    if (!past) return;
    present[3] = int_of(ctx, "past_present_share_buffer", 0) != 0 ? (*past)[3] : add((*past)[3], (*input)[1]);
  }
  set_dims(ctx, 1, present);
}

void register_fused() {
  RegisterSchema(
      attention("Attention")
          .Attr("do_rotary", "rotates queries and keys by their position", AttributeProto::INT,
                std::int64_t{0})
          .Attr("mask_filter_value", "added to the scores of masked keys", AttributeProto::FLOAT, -10000.0f)
          .Attr("past_present_share_buffer", "past has room for the new keys and values", AttributeProto::INT,
                std::int64_t{0})
          .Attr("qkv_hidden_sizes", "hidden sizes of query, key and value", AttributeProto::INTS, false)
          .Attr("rotary_embedding_dim", "rotated elements of a head; 0: all", AttributeProto::INT,
                std::int64_t{0})
          .Attr("unidirectional", "each token attends to those up to itself", AttributeProto::INT,
                std::int64_t{0})
          .Input(0, "input", "(batch, sequence, input hidden size)", "T")
          .Input(1, "weights", "(input hidden size, hidden sizes of query, key and value)", "T")
          .Input(2, "bias", "of the projections", "T", OpSchema::Optional)
          .Input(3, "mask_index", "mask, or positions where keys end or begin", "M", OpSchema::Optional)
          .Input(4, "past", "(2, batch, heads, past, head size)", "T", OpSchema::Optional)
          .Input(5, "attention_bias", "added to the scores", "T", OpSchema::Optional)
          .Input(6, "past_sequence_length", "valid elements of a shared past", "M", OpSchema::Optional)
          .Output(0, "output", "(batch, sequence, hidden size of the value)", "T")
          .Output(1, "present", "(2, batch, heads, total, head size)", "T", OpSchema::Optional)
          .TypeAndShapeInferenceFunction(infer_fused));
}

void infer_multi_head(InferenceContext& ctx) {
  for (const std::size_t k : {0, 1, 2, 3}) set_type_of_input(ctx, 0, k);
  const std::int64_t heads = int_of(ctx, "num_heads", 0);
  const auto query = dims_of(ctx, 0);
  if (!query || heads < 1 || (query->size() != 3 && query->size() != 5)) return;
  const Dim batch = (*query)[0], length = (*query)[1];
  Dim keys = length, key_size, value_size;  // of heads
  if (query->size() == 5) {
    key_size = value_size = (*query)[4];
  } else {
    key_size = over((*query)[2], heads);
    const auto key = dims_of(ctx, 1), value = dims_of(ctx, 2);
    if (!key) return;
    if (key->size() == 5) {
      keys = (*key)[1];
      value_size = (*key)[4];
    } else if (value && key->size() == 4 && value->size() == 4) {
      keys = (*key)[2];
      value_size = (*value)[3];
    } else if (value && key->size() == 3 && value->size() == 3) {
      keys = (*key)[1];
      value_size = over((*value)[2], heads);
    } else {
      return;
    }
  }
  set_dims(ctx, 0, {batch, length, times(value_size, heads)});
  Dim total = keys;
  if (has_input(ctx, 6)) {
    const auto past = dims_of(ctx, 6, 4);
    if (!past) return;
    total = has_input(ctx, 8) ? (*past)[2] : add((*past)[2], keys);
  }
  set_dims(ctx, 1, {batch, dim_of(heads), total, key_size});
  set_dims(ctx, 2, {batch, dim_of(heads), total, value_size});
  set_dims(ctx, 3, {batch, dim_of(heads), length, total});
}

void register_multi_head() {
  RegisterSchema(
      attention("MultiHeadAttention")
          .Attr("mask_filter_value", "added to the scores of masked keys", AttributeProto::FLOAT, -10000.0f)
          .Attr("unidirectional", "each token attends to those up to itself", AttributeProto::INT,
                std::int64_t{0})
          .Input(0, "query",
                 "(batch, sequence, hidden size), or (batch, sequence, heads, 3, head size) of all three",
                 "T")
          .Input(1, "key",
                 "(batch, keys, hidden size), (batch, keys, heads, 2, head size) with the value, or a cache",
                 "T", OpSchema::Optional)
          .Input(2, "value", "(batch, keys, hidden size of the value), or a cache", "T", OpSchema::Optional)
          .Input(3, "bias", "of the projections", "T", OpSchema::Optional)
          .Input(4, "key_padding_mask", "mask, or numbers of keys", "M", OpSchema::Optional)
          .Input(5, "attention_bias", "added to the scores", "T", OpSchema::Optional)
          .Input(6, "past_key", "(batch, heads, past, head size)", "T", OpSchema::Optional)
          .Input(7, "past_value", "(batch, heads, past, head size of the value)", "T", OpSchema::Optional)
          .Input(8, "past_sequence_length", "valid elements of a shared past", "M", OpSchema::Optional)
          .Input(9, "cache_indirection", "(batch, beams, capacity)", "M", OpSchema::Optional)
          .Output(0, "output", "(batch, sequence, hidden size of the value)", "T")
          .Output(1, "present_key", "(batch, heads, total, head size)", "T", OpSchema::Optional)
          .Output(2, "present_value", "(batch, heads, total, head size of the value)", "T",
                  OpSchema::Optional)
          .Output(3, "qk", "the scores (batch, heads, sequence, total)", "T", OpSchema::Optional)
          .TypeAndShapeInferenceFunction(infer_multi_head));
}

void infer_group_query(InferenceContext& ctx) {
  set_type_of_input(ctx, 0, 0);
  for (const std::size_t k : {1, 2}) set_type_of_input(ctx, has_input(ctx, k + 2) ? k + 2 : 0, k);
  set_type_of_input(ctx, 0, 3);
  const std::int64_t heads = int_of(ctx, "num_heads", 0), key_heads = int_of(ctx, "kv_num_heads", 0);
  const auto query = dims_of(ctx, 0, 3);
  if (!query || heads < 1 || key_heads < 1) return;
  const bool packed = !has_input(ctx, 1);
  const Dim head_size = over((*query)[2], packed ? heads + 2 * key_heads : heads);
  set_dims(ctx, 0, {(*query)[0], (*query)[1], packed ? times(head_size, heads) : (*query)[2]});
  for (const std::size_t k : {1, 2}) {
    // Whether a past has room for the new keys depends on the value of total_sequence_length.
    const Dim total = has_input(ctx, k + 2) ? Dim() : (*query)[1];
    set_dims(ctx, k, {(*query)[0], dim_of(key_heads), total, head_size});
  }
}

void register_group_query() {
  RegisterSchema(
      attention("GroupQueryAttention")
          .Attr("causal", "each token attends to those up to itself", AttributeProto::INT, std::int64_t{1})
          .Attr("do_rotary", "rotates queries and keys", AttributeProto::INT, std::int64_t{0})
          .Attr("k_quant_type", "of the cache of keys", AttributeProto::STRING, std::string("NONE"))
          .Attr("kv_cache_bit_width", "of quantised caches", AttributeProto::INT, std::int64_t{0})
          .Attr("kv_num_heads", "number of heads of key and value", AttributeProto::INT, true)
          .Attr("local_window_size", "keys that a query attends to at most; -1: all", AttributeProto::INT,
                std::int64_t{-1})
          .Attr("qk_norm_epsilon", "added to the mean of squares of each head", AttributeProto::FLOAT, 1e-6f)
          .Attr("qk_output", "which scores are output", AttributeProto::INT, std::int64_t{0})
          .Attr("rotary_interleaved", "pairs are neighbours", AttributeProto::INT, std::int64_t{0})
          .Attr("sliding_window_cache", "caches hold a window", AttributeProto::INT, std::int64_t{0})
          .Attr("smooth_softmax", "adds 1 to the sum of exponentials", AttributeProto::INT, std::int64_t{-1})
          .Attr("softcap", "bound of the scores; 0: none", AttributeProto::FLOAT, 0.0f)
          .Attr("v_quant_type", "of the cache of values", AttributeProto::STRING, std::string("NONE"))
          .Input(0, "query", "(batch, sequence, hidden size), or with key and value behind it", "T")
          .Input(1, "key", "(batch, sequence, hidden size of the key)", "T", OpSchema::Optional)
          .Input(2, "value", "(batch, sequence, hidden size of the value)", "T", OpSchema::Optional)
          .Input(3, "past_key", "(batch, key heads, past, head size)", "C", OpSchema::Optional)
          .Input(4, "past_value", "(batch, key heads, past, head size)", "C", OpSchema::Optional)
          .Input(5, "seqlens_k", "(batch): position of the last valid key", "M")
          .Input(6, "total_sequence_length", "the largest number of keys of a row", "M")
          .Input(7, "cos_cache", "(positions, rotated elements / 2)", "T", OpSchema::Optional)
          .Input(8, "sin_cache", "(positions, rotated elements / 2)", "T", OpSchema::Optional)
          .Input(9, "position_ids", "(batch, sequence)", "tensor(int64)", OpSchema::Optional)
          .Input(10, "attention_bias", "added to the scores", "T", OpSchema::Optional)
          .Input(11, "head_sink", "(heads): one more logit of each head", "T", OpSchema::Optional)
          .Input(12, "k_scale", "of a quantised cache", "S", OpSchema::Optional)
          .Input(13, "v_scale", "of a quantised cache", "S", OpSchema::Optional)
          .Input(14, "q_norm_weight", "(head size)", "T", OpSchema::Optional)
          .Input(15, "k_norm_weight", "(head size)", "T", OpSchema::Optional)
          .Output(0, "output", "(batch, sequence, hidden size)", "T")
          .Output(1, "present_key", "(batch, key heads, capacity, head size)", "C", OpSchema::Optional)
          .Output(2, "present_value", "(batch, key heads, capacity, head size)", "C", OpSchema::Optional)
          .Output(3, "output_qk", "scores", "T", OpSchema::Optional)
          .TypeConstraint("C",
                          {"tensor(float)", "tensor(float16)", "tensor(bfloat16)", "tensor(uint8)",
                           "tensor(int8)", "tensor(float8e4m3fn)"},
                          "types of caches")
          .TypeConstraint("S", {"tensor(float)"}, "types of scales")
          .TypeAndShapeInferenceFunction(infer_group_query));
}

void register_rotary() {
  RegisterSchema(
      microsoft_operator("RotaryEmbedding")
          .Attr("interleaved", "pairs are neighbours", AttributeProto::INT, std::int64_t{0})
          .Attr("is_packed_batching", "sequences of different lengths", AttributeProto::INT, std::int64_t{0})
          .Attr("num_heads", "number of heads; 0: from the caches", AttributeProto::INT, std::int64_t{0})
          .Attr("rotary_embedding_dim", "rotated elements of a head; 0: all", AttributeProto::INT,
                std::int64_t{0})
          .Attr("scale", "has no effect", AttributeProto::FLOAT, 1.0f)
          .Input(0, "input", "(batch, sequence, hidden size) or (batch, heads, sequence, head size)", "T")
          .Input(1, "position_ids", "the first position, or (batch, sequence)", "M")
          .Input(2, "cos_cache", "(positions, rotated elements / 2)", "T")
          .Input(3, "sin_cache", "(positions, rotated elements / 2)", "T")
          .Output(0, "output", "of the same shape as the input", "T")
          .TypeConstraint("T", kFloatTypes, "types of the input")
          .TypeConstraint("M", {"tensor(int64)"}, "types of positions")
          .TypeAndShapeInferenceFunction(onnx::propagateShapeAndTypeFromFirstInput));
}

}  // namespace

void register_microsoft_attention() {
  register_fused();
  register_multi_head();
  register_group_query();
  register_rotary();
}

}  // namespace braid::frontend
