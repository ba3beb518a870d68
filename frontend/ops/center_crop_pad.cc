// CenterCropPad: the middle of axes that are too long, zeros around axes that are too short.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_center_crop_pad(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = c.input(0);
  const std::vector<Expr> wanted = c.shape_values(1, "the sizes");
  std::vector<std::size_t> axes;
  if (const auto given = c.ints_attribute("axes")) {
    for (const std::int64_t axis : *given)
      axes.push_back(static_cast<std::size_t>(c.normalize_axis(axis, c.rank(0), "an axis")));
  } else {
    for (std::size_t k = 0; k < x.rank(); ++k) axes.push_back(k);
  }
  if (wanted.size() != axes.size())
    c.fail(errors::kShapeMismatch, fmt::format("got {} sizes for {} axes", wanted.size(), axes.size()));
  std::vector<Expr> sizes = x.sizes(), begin(x.rank(), 0);  // of the input that is read
  std::vector<bool> changed(x.rank(), false);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::size_t axis = axes[k];
    if (changed[axis]) c.fail(errors::kInvalidAttribute, "an axis is given twice");
    changed[axis] = true;
    if (ir::bounds(wanted[k]).max < 0)
      c.fail(errors::kShapeMismatch, fmt::format("axis {} would have size {}", axis, to_string(wanted[k])));
    c.lowering().require_at_most(0, wanted[k]);
    sizes[axis] = wanted[k];
    // At most one of the two is positive. If the difference is odd, the larger half is at the end.
    const Expr cropped = ir::max(ir::floor_div(x.sizes()[axis] - wanted[k], 2), 0);
    const Expr padded = ir::max(ir::floor_div(wanted[k] - x.sizes()[axis], 2), 0);
    begin[axis] = cropped - padded;
  }
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    std::optional<ValueId> inside;
    const auto require = [&](ValueId condition) {
      inside = inside ? b.binary(OpCode::logical_and, *inside, condition) : condition;
    };
    for (std::size_t k = 0; k < source.size(); ++k) {
      source[k] = at[k] + begin[k];
      if (ir::provably_non_negative(x.sizes()[k] - sizes[k])) continue;  // only cropped
      require(b.binary(OpCode::ge, b.index(source[k]), b.constant(DType::i64, std::int64_t{0})));
      require(b.binary(OpCode::lt, b.index(source[k]), b.index(x.sizes()[k])));
    }
    return l.load(b, x, source, inside);
  }));
}

}  // namespace

std::span<const OpSpec> center_crop_pad_ops() {
  static const OpSpec ops[] = {
      {"", "CenterCropPad", 18, kNewestOpset, kAllTypes, lower_center_crop_pad, work::select(),
       rule::kCenterCropPad, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
