// The masks of ONNX Runtime's attention operators: mask_index and key_padding_mask, in all their shapes, and
// attention_bias.
#pragma once

#include <optional>

#include "frontend/ops/common.h"

namespace braid::frontend {

struct MaskedSpace {
  Expr batch, heads, queries, keys;  // of the scores
  Expr past;                         // position of query 0 among the keys
  // Masks may have fewer keys than the scores, which are those of a whole cache; keys after the mask's are
  // ignored anyway.
  bool shorter_masks = false;
};

// Returns the term that input k adds to the scores, in f32 and broadcast to them: 0 for a key that counts,
// `filter` for one that is masked. nullopt: nothing. Forms, of i32:
//   [batch]              the number of keys, which are followed by padding
//   [2 batch]            the ends of the keys and then their starts (with `starts`)
//   [3 batch + 2]        the number of keys, then where queries and keys begin if they were packed
//   [batch, keys]        positive: counts; with `starts`, [batch or 1, 1] masks nothing
//   [batch, queries, keys]
//   [batch, 1, most, most]  (with `starts`) rows of all positions, of which those of the queries are taken
// kShapeMismatch, kUnsupportedForm: any other shape, or one that could be several of these.
std::optional<TensorBox> padding_mask(OpContext& c, int k, const MaskedSpace& space, double filter,
                                      bool starts);

// Returns input k as a term of the scores: [batch or 1, heads or 1, queries, keys].
TensorBox attention_bias(OpContext& c, int k, const MaskedSpace& space);

// Returns the sum of those that are present.
std::optional<TensorBox> both(OpContext& c, std::optional<TensorBox> mask, std::optional<TensorBox> bias);

}  // namespace braid::frontend
