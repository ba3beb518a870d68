// Attention, MultiHeadAttention, GroupQueryAttention, RotaryEmbedding.
#include "frontend/microsoft_schemas.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
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
          .Output(1, "present", "(2, batch, heads, total, head size)", "T", OpSchema::Optional));
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
          .Output(3, "qk", "the scores (batch, heads, sequence, total)", "T", OpSchema::Optional));
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
          .TypeConstraint("S", {"tensor(float)"}, "types of scales"));
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
          .TypeConstraint("M", {"tensor(int64)"}, "types of positions"));
}

}  // namespace

void register_microsoft_attention() {
  register_fused();
  register_multi_head();
  register_group_query();
  register_rotary();
}

}  // namespace braid::frontend
