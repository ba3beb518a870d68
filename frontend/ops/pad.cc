// Pad: more (or, for negative numbers, fewer) elements at both ends of axes.
#include "frontend/ops/common.h"
#include "frontend/ops/operand_sizes.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

struct Pads {
  std::vector<Expr> before, after;  // per axis of the data
};

// An attribute before version 11, an input since; for all axes or, since version 18, for given ones.
Pads pads_of(OpContext& c) {
  const int rank = c.rank(0);
  std::vector<Expr> numbers;
  if (const auto given = c.ints_attribute("pads")) {
    numbers.assign(given->begin(), given->end());
  } else {
    numbers = c.shape_values(1, "the pads");
  }
  std::vector<std::size_t> axes;
  if (c.has_input(3)) {
    for (std::int64_t axis : c.constant_ints(3, "the axes")) {
      axes.push_back(static_cast<std::size_t>(c.normalize_axis(axis, rank, "an axis")));
    }
  } else {
    for (int k = 0; k < rank; ++k) axes.push_back(static_cast<std::size_t>(k));
  }
  if (numbers.size() != 2 * axes.size()) {
    c.fail(errors::kShapeMismatch, fmt::format("got {} pads for {} axes", numbers.size(), axes.size()));
  }
  Pads pads{std::vector<Expr>(static_cast<std::size_t>(rank), 0),
            std::vector<Expr>(static_cast<std::size_t>(rank), 0)};
  for (std::size_t k = 0; k < axes.size(); ++k) {
    pads.before[axes[k]] = numbers[k];
    pads.after[axes[k]] = numbers[k + axes.size()];
  }
  return pads;
}

// Returns the source of an element outside of [0, size). A size of 1 has only one element to reflect.
Expr folded(const std::string& mode, Expr at, Expr size) {
  if (mode == "edge") return ir::min(ir::max(at, 0), size - 1);
  if (mode == "wrap") return ir::mod(at, size);
  const Expr period = (size - 1) * 2;
  const Expr phase = ir::mod(at, ir::max(period, 1));
  return ir::min(phase, period - phase);
}

void lower_pad(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::string mode = c.string_attribute("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'mode' is '{}', expected constant, edge, reflect or wrap", mode));
  }
  const Pads pads = pads_of(c);
  const TensorBox x = c.input(0);
  std::vector<Expr> sizes = x.sizes();
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    sizes[k] = sizes[k] + pads.before[k] + pads.after[k];
    if (ir::bounds(sizes[k]).max < 0) {
      c.fail(errors::kShapeMismatch, fmt::format("axis {} would have size {}", k, to_string(sizes[k])));
    }
    l.require_at_most(0, sizes[k]);
  }
  const bool constant = mode == "constant";
  for (std::size_t k = 0; !constant && k < sizes.size(); ++k) {
    if (pads.before[k].is_constant(0) && pads.after[k].is_constant(0)) continue;
    if (x.sizes()[k].is_constant(0))
      c.fail(errors::kShapeMismatch,
             fmt::format("axis {} has no elements that the mode '{}' could repeat", k, mode));
    l.require_at_most(1, x.sizes()[k]);
  }
  TensorBox fill;
  if (constant) {
    const bool given = c.version() >= 11 && c.has_input(2);
    fill = given ? one_element(c, 2, "the value") : l.scalar(x.dtype(), c.float_attribute("value", 0));
  }
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    std::optional<ValueId> inside;
    const auto require = [&](ValueId condition) {
      inside = inside ? b.binary(OpCode::logical_and, *inside, condition) : condition;
    };
    for (std::size_t k = 0; k < source.size(); ++k) {
      if (pads.before[k].is_constant(0) && pads.after[k].is_constant(0)) continue;
      source[k] = at[k] - pads.before[k];
      if (!constant) {
        source[k] = folded(mode, source[k], x.sizes()[k]);
        continue;
      }
      if (ir::bounds(pads.before[k]).max > 0) {
        require(b.binary(OpCode::ge, b.index(source[k]), b.constant(DType::i64, std::int64_t{0})));
      }
      if (ir::bounds(pads.after[k]).max > 0) {
        require(b.binary(OpCode::lt, b.index(source[k]), b.index(x.sizes()[k])));
      }
    }
    if (!inside) return l.load(b, x, source);
    return b.where(*inside, l.load(b, x, source, inside), l.load(b, fill, {}));
  }));
}

}  // namespace

std::span<const OpSpec> pad_ops() {
  static const OpSpec ops[] = {
      {"", "Pad", 2, kNewestOpset, kAllTypes | kStorage, lower_pad, work::select(8), rule::kPad, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
