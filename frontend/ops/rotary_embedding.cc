// RotaryEmbedding of com.microsoft. ONNX's own is a function of simpler operators.
#include "frontend/ops/heads.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

enum Input { input, positions, cos, sin };

// Returns an input with three dimensions as [batch, heads, sequence, size]. The number of heads is attribute
// num_heads if it is given or a part of each head is rotated. Otherwise it follows from the width of the
// caches.
TensorBox heads_of(OpContext& c, std::int64_t turned, std::int64_t width) {
  const std::int64_t heads = c.int_attribute("num_heads", 0);
  if (turned > 0 || heads > 0) {
    if (heads < 1)
      c.fail(errors::kInvalidAttribute, "attribute 'rotary_embedding_dim' requires a positive 'num_heads'");
    return split_heads(c, c.input(input), heads);
  }
  const std::int64_t hidden = known_size(c, c.size(input, 2), "the hidden size");
  if (hidden % (2 * width) != 0)
    c.fail(errors::kShapeMismatch,
           fmt::format("heads of size {} do not divide the hidden size {}", 2 * width, hidden));
  return split_heads(c, c.input(input), hidden / (2 * width));
}

void lower_rotary_embedding(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.int_attribute("is_packed_batching", 0) != 0)
    c.fail(errors::kUnsupportedForm,
           "attribute 'is_packed_batching' is 1: sequences of different lengths are not supported");
  require_rank(c, input, {3, 4});
  require_rank(c, cos, {2});
  require_sizes(c, sin, c.sizes(cos), "(positions, half of the rotated elements)");
  const std::int64_t width = known_size(c, c.size(cos, 1), "the width of the cache");
  const std::int64_t turned = c.int_attribute("rotary_embedding_dim", 0);
  if (width < 1 || turned < 0 || (turned > 0 && turned != 2 * width)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the caches have {} columns, but 'rotary_embedding_dim' is {}", width, turned));
  }
  const bool split = c.rank(input) == 3;
  const TensorBox x = split ? heads_of(c, turned, width) : c.input(input);
  if (turned == 0 && !x.sizes()[3].is_constant(2 * width)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("heads have the size {}, but the caches have {} columns, expected half as many",
                       to_string(x.sizes()[3]), width));
  }
  const bool offset = c.rank(positions) < 2;
  if (offset ? !ir::numel(c.sizes(positions)).is_constant(1) : false)
    c.fail(errors::kShapeMismatch, "position_ids has one dimension and must have one element");
  if (!offset) require_sizes(c, positions, {x.sizes()[0], x.sizes()[2]}, "(batch, sequence)");
  Rotation r{c.input(cos), c.input(sin), c.int_attribute("interleaved", 0) != 0};
  r.row = [&](BodyBuilder& b, const Expr& batch, const Expr& step) {
    if (offset) return b.binary(OpCode::add, only_element(c, b, positions), b.index(step));
    return b.cast(l.load(b, c.input(positions), std::vector<Expr>{batch, step}), DType::i64);
  };
  const TensorBox y = rotated(c, x, r);
  c.set_output(0, split ? join_heads(c, y) : y);
}

constexpr TypeSet kTypes = {DType::f32, DType::f16, DType::bf16};

}  // namespace

std::span<const OpSpec> rotary_embedding_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "RotaryEmbedding", 1, 1, kTypes, lower_rotary_embedding, work::gather(3),
       rule::kRotaryEmbedding, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
