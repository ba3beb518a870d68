// Other shapes of the same elements, and shapes as values.
#include <algorithm>

#include "frontend/ops/common.h"
#include "frontend/shape_rules.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// The sizes to which a Reshape of a target known only at run time leads, where 0 copies the input's size
// and -1 takes the rest. Only the one of a vector is bounded by the operator.
std::vector<Expr> measured_target(OpContext& c, bool allow_zero) {
  constexpr const char* kWhat = "the sizes";
  ir::Lowering& l = c.lowering();
  const std::vector<Expr> sizes = c.sizes(0);
  const Expr total = ir::product(sizes);
  const std::int64_t rank = c.size(1, 0).constant();
  const TensorBox given = l.cast(c.input(1), DType::i64);
  const auto size = [&](BodyBuilder& b, std::int64_t axis) {
    const Expr at[] = {axis};
    const ValueId x = l.load(b, given, at);
    if (allow_zero || axis >= std::ssize(sizes)) return x;
    const ValueId is_zero = b.binary(OpCode::eq, x, b.constant_of(DType::i64, 0));
    return b.where(is_zero, b.index(sizes[static_cast<std::size_t>(axis)]), x);
  };
  std::vector<Expr> target;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    const std::string& name = c.value(1).name;
    const std::optional<std::int64_t> most = rank == 1 ? std::optional(ir::bounds(total).max) : std::nullopt;
    target.push_back(
        c.measured_size(1, kWhat, rank == 1 ? name : fmt::format("{}.{}", name, axis), most, [&] {
          return l.generate({}, [&](BodyBuilder& b, std::span<const Expr>) {
            const ValueId minus = b.constant_of(DType::i64, -1), one = b.constant_of(DType::i64, 1);
            ValueId others = one;
            for (std::int64_t other = 0; other < rank; ++other) {
              const ValueId x = size(b, other);
              others = b.binary(OpCode::mul, others, b.where(b.binary(OpCode::eq, x, minus), one, x));
            }
            const ValueId rest = b.binary(OpCode::div, b.index(total), b.binary(OpCode::max, others, one));
            const ValueId own = size(b, axis);
            return b.where(b.binary(OpCode::eq, own, minus), rest, own);
          });
        }));
  }
  return target;
}

void lower_reshape(OpContext& c) {
  const bool allow_zero = c.int_attribute("allowzero", 0) != 0;
  if (!c.knows(1) && c.measures() && c.rank(1) == 1 && c.size(1, 0).is_constant()) {
    c.set_output(0, c.lowering().reshape(c.input(0), measured_target(c, allow_zero)));
    return;
  }
  const std::vector<Expr> target = c.shape_values(1, "the sizes"), &sizes = c.sizes(0);
  const TensorBox y = c.lowering().reshape(c.input(0), reshaped(sizes, target, allow_zero));
  // A size that is 0 in a run only would copy the input's there: this is the same only if that is 0, too.
  for (std::size_t k = 0; k < target.size() && !allow_zero; ++k) {
    if (target[k].is_constant() || ir::bounds(target[k]).min > 0) continue;
    c.lowering().require_at_most(k < sizes.size() ? ir::min(sizes[k], 1) : 1, target[k]);
  }
  c.set_output(0, y);
}

void lower_flatten(OpContext& c) {
  const int rank = c.rank(0);
  const std::int64_t given = c.int_attribute("axis", 1);
  const int axis = given == rank ? rank : c.normalize_axis(given, rank);
  const std::vector<Expr>& s = c.sizes(0);
  const Expr rows = ir::product({s.data(), static_cast<std::size_t>(axis)});
  const Expr columns = ir::product({s.data() + axis, s.size() - static_cast<std::size_t>(axis)});
  c.set_output(0, c.lowering().reshape(c.input(0), {rows, columns}));
}

void lower_squeeze(OpContext& c) {
  const int rank = c.rank(0);
  std::optional<std::vector<int>> axes = c.axes(1, rank);
  if (!axes) {
    axes.emplace();
    for (int k = 0; k < rank; ++k) {
      const Expr size = c.sizes(0)[static_cast<std::size_t>(k)];
      if (size.is_constant(1))
        axes->push_back(k);
      else if (!size.is_constant(0))
        c.lowering().require_at_most(2, size);  // otherwise the result would have another rank
    }
  }
  TensorBox x = c.input(0);
  for (std::size_t k = axes->size(); k-- > 0;) {
    const Expr size = x.sizes()[static_cast<std::size_t>((*axes)[k])];
    if (size.is_constant() && !size.is_constant(1)) {
      c.fail(errors::kShapeMismatch,
             fmt::format("axis {} has size {} and cannot be removed", (*axes)[k], to_string(size)));
    }
    x = c.lowering().squeeze(x, (*axes)[k]);
  }
  c.set_output(0, x);
}

void lower_unsqueeze(OpContext& c) {
  std::optional<std::vector<std::int64_t>> given = c.ints_attribute("axes");
  if (!given) given = c.constant_ints(1, "axes");
  const int rank = c.rank(0) + static_cast<int>(given->size());
  std::vector<int> axes;
  for (std::int64_t axis : *given) {
    if (axis < 0 && c.version() < 11) {
      c.fail(errors::kInvalidAttribute, fmt::format("axis {} of operator set {}", axis, c.version()),
             "axes count from the end from operator set 11 on");
    }
    axes.push_back(c.normalize_axis(axis, rank, "an axis"));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    c.fail(errors::kInvalidAttribute, "an axis is given twice");
  TensorBox x = c.input(0);
  for (int axis : axes) x = c.lowering().unsqueeze(x, axis);
  c.set_output(0, x);
}

// Shape and Size need no lowering: their results are expressions (frontend/shape_values.cc).
void known_while_compiling(OpContext& c) {
  c.fail(errors::kDataDependentSize, "the shape of the input is unknown");
}

constexpr const char* kSizes = "it computes sizes, which are those of whole tensors";

}  // namespace

std::span<const OpSpec> shape_ops() {
  static const OpSpec ops[] = {
      {"", "Flatten", 1, kNewestOpset, kAllTypes | kStorage, lower_flatten, work::view(), rule::kView,
       kNoState, kNoSizes},
      {"", "Reshape", 1, kNewestOpset, kAllTypes | kStorage, lower_reshape, work::view(), rule::kReshape,
       kNoState, size_rule::kReshape},
      {"", "Shape", 1, kNewestOpset, kAllTypes | kStorage, known_while_compiling, work::sizes(),
       sharding::replicated(kSizes), kNoState, size_rule::kShape},
      {"", "Size", 1, kNewestOpset, kAllTypes | kStorage, known_while_compiling, work::sizes(),
       sharding::replicated(kSizes), kNoState, size_rule::kSize},
      {"", "Squeeze", 1, kNewestOpset, kAllTypes | kStorage, lower_squeeze, work::view(), rule::kView,
       kNoState, size_rule::kSqueeze},
      {"", "Unsqueeze", 1, kNewestOpset, kAllTypes | kStorage, lower_unsqueeze, work::view(), rule::kView,
       kNoState, size_rule::kUnsqueeze},
  };
  return ops;
}

}  // namespace braid::frontend
