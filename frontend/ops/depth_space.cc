// DepthToSpace and SpaceToDepth: blocks of pixels become channels and back. Both only reorder elements.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

struct Image {
  Expr batch, channels, height, width;
};

Image image_of(OpContext& c) {
  if (c.rank(0) != 4)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected 4", c.rank(0)));
  const std::vector<Expr>& s = c.sizes(0);
  return {s[0], s[1], s[2], s[3]};
}

std::int64_t block_of(OpContext& c) {
  const std::int64_t block = c.int_attribute("blocksize");
  if (block < 1)
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'blocksize' is {}, expected at least 1", block));
  return block;
}

// size / by, which must leave no rest.
Expr divided(OpContext& c, Expr size, Expr by, const char* what) {
  if (const std::optional<Expr> exact = ir::divide_exactly(size, by)) return *exact;
  if (size.is_constant() && by.is_constant()) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the number {} of {} is not divisible by {}", size.constant(), what, by.constant()));
  }
  const Expr quotient = ir::floor_div(size, by);
  c.lowering().require_equal(quotient * by, size);
  return quotient;
}

void lower_depth_to_space(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const Image i = image_of(c);
  const std::int64_t block = block_of(c);
  const Expr depth = divided(c, i.channels, Expr(block) * block, "channels");
  const std::string mode = c.string_attribute("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'mode' is '{}', expected DCR or CRD", mode));
  const bool depth_last = mode == "DCR";
  const TensorBox blocks =
      depth_last ? l.permute(l.reshape(c.input(0), {i.batch, block, block, depth, i.height, i.width}),
                             {0, 3, 4, 1, 5, 2})
                 : l.permute(l.reshape(c.input(0), {i.batch, depth, block, block, i.height, i.width}),
                             {0, 1, 4, 2, 5, 3});
  c.set_output(0, l.reshape(blocks, {i.batch, depth, i.height * block, i.width * block}));
}

void lower_space_to_depth(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const Image i = image_of(c);
  const std::int64_t block = block_of(c);
  const std::string mode = c.string_attribute("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'mode' is '{}', expected DCR or CRD", mode));
  const Expr height = divided(c, i.height, block, "rows"), width = divided(c, i.width, block, "columns");
  const TensorBox pixels = l.reshape(c.input(0), {i.batch, i.channels, height, block, width, block});
  const TensorBox blocks =
      mode == "DCR" ? l.permute(pixels, {0, 3, 5, 1, 2, 4}) : l.permute(pixels, {0, 1, 3, 5, 2, 4});
  c.set_output(0, l.reshape(blocks, {i.batch, i.channels * block * block, height, width}));
}

}  // namespace

std::span<const OpSpec> depth_space_ops() {
  static const OpSpec ops[] = {
      {"", "DepthToSpace", 1, kNewestOpset, kAllTypes, lower_depth_to_space, work::reorder(),
       rule::kDepthSpace, kNoState, kNoSizes},
      {"", "SpaceToDepth", 1, kNewestOpset, kAllTypes, lower_space_to_depth, work::reorder(),
       rule::kDepthSpace, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
