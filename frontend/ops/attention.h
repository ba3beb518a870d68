// Scaled dot-product attention as operators ask for it. All attention operators (ONNX's Attention,
// MultiHeadAttention, GroupQueryAttention, ...) are lowered by this one function.
#pragma once
#include <limits>
#include <optional>

#include "frontend/op_context.h"

namespace braid::frontend {

struct AttentionOperands {
  ir::TensorBox query;  // [batch, heads, queries, head_size]
  ir::TensorBox key;    // [batch, key_heads, keys, head_size]; key_heads divides heads
  ir::TensorBox value;  // [batch, key_heads, keys, value_size]
  // bool (true: attended), or a float type that is added to the score; broadcasts to [batch, heads, queries,
  // keys].
  std::optional<ir::TensorBox> mask;
  // The score where a bool mask is false, or what is added to it there.
  double fill = -std::numeric_limits<double>::infinity();
  bool adds_fill = false;
  // [batch], i32 or i64: keys at this position and after it are not attended.
  std::optional<ir::TensorBox> valid_keys;
  double scale = 1;      // of query times key
  double softcap = 0;    // 0: none; else cap * tanh(score / cap), before the mask
  bool causal = false;   // query i attends to keys up to first_query + i
  ir::Expr first_query;  // position of query 0 among the keys; 0, or keys - queries
  // [batch], i32 or i64; replaces first_query where positions differ by row.
  std::optional<ir::TensorBox> first_query_of_row;
  std::optional<ir::Expr> window;  // with causal: query i attends to this many keys up to its own at most
  // Sliding windows of any form: a query at position p attends to keys in [p - before, p + after].
  std::optional<ir::Expr> before, after;
  ir::UndefinedRows undefined = ir::UndefinedRows::zero_if_masked;
};

// Returns [batch, heads, queries, value_size] in the type of `query`. Scores and softmax are computed in f32
// (f64 for f64). Throws BR0114 for sizes that do not fit, BR0113 for types that do not.
ir::TensorBox attend(OpContext& c, AttentionOperands a);

// The same, spelled out in products and loops, for operators that output an intermediate value too. Each has
// sizes [batch, heads, queries, keys] and the type of the scores.
struct AttentionScores {
  ir::TensorBox product;  // scaled
  ir::TensorBox capped;   // with softcap
  ir::TensorBox masked;   // -inf where a key is not attended
  ir::TensorBox weights;  // the softmax; zeros in rows without any attended key
  ir::TensorBox result;   // [batch, heads, queries, value_size] in the type of `query`
};
AttentionScores spell_out_attention(OpContext& c, AttentionOperands a);

}  // namespace braid::frontend
