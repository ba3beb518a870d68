// Gather: rows, elements and slices chosen by index. Negative indices count from the end.
#include "frontend/ops/index.h"
#include "frontend/shape_rules.h"
#include "ir/coordinate.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_gather(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int axis = c.axis_attribute(c.rank(0), 0);
  const auto a = static_cast<std::size_t>(axis);
  const TensorBox x = c.input(0);
  const Expr size = x.sizes()[a];
  const std::optional<Elements>& known = elements_of(c.value(1));
  // One row: a view. Positions of ranks whose sign or place differs between them are looked up.
  const auto one_row = [&] {
    if (!known || known->values.size() != 1) return false;
    const Expr at = known->values[0];
    return !ir::depends_on_rank(at) || (ir::provably_non_negative(at) && ir::provably_less(at, size));
  };
  if (one_row()) {
    const Expr index = wrapped_index(known->values[0], size);
    // A view checks nothing when it is read, so a guard does if the size may be too small.
    l.require_equal(ir::max(index, 0), index);
    l.require_equal(ir::max(index + 1, size), size);
    TensorBox row = l.slice(x, axis, index, 1);
    if (known->sizes.empty()) {
      row = l.squeeze(row, axis);
    } else {
      for (std::size_t k = 1; k < known->sizes.size(); ++k) row = l.unsqueeze(row, axis);
    }
    c.set_output(0, row);
    return;
  }
  if (const std::optional<Progression>& p = c.value(1).progression;
      p && c.rank(1) == 1 && p->step > 0) {  // a view
    const Expr count = c.size(1, 0), last = p->first + (count - 1) * p->step;
    if (ir::provably_non_negative(p->first) && ir::provably_less(last, size)) {
      c.set_output(0, l.slice(x, axis, p->first, count, p->step));
      return;
    }
  }
  const TensorBox indices = c.input(1);
  const std::size_t q = indices.rank();
  std::vector<Expr> sizes(x.sizes().begin(), x.sizes().begin() + axis);
  sizes.insert(sizes.end(), indices.sizes().begin(), indices.sizes().end());
  sizes.insert(sizes.end(), x.sizes().begin() + axis + 1, x.sizes().end());
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const Expr row = checked_index(b, l.load(b, indices, at.subspan(a, q)), size, sizes);
    std::vector<Expr> source(at.begin(), at.begin() + axis);
    source.push_back(row);
    source.insert(source.end(), at.begin() + static_cast<std::ptrdiff_t>(a + q), at.end());
    return l.load(b, x, source);
  }));
}

void lower_gather_elements(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const auto axis = static_cast<std::size_t>(c.axis_attribute(c.rank(0), 0));
  const TensorBox x = c.input(0), indices = c.input(1);
  if (x.rank() != indices.rank())
    c.fail(errors::kShapeMismatch, fmt::format("ranks {} and {} differ", x.rank(), indices.rank()));
  for (std::size_t k = 0; k < x.rank(); ++k) {
    if (k == axis) continue;
    // Along the other axes an element of the indices reads at its own position, so there must be data.
    const Expr there = x.sizes()[k], wanted = indices.sizes()[k];
    if (ir::provably_less(there, wanted)) {
      c.fail(errors::kShapeMismatch,
             fmt::format("the indices have size {} along axis {}, but the data has only {}",
                         to_string(wanted), k, to_string(there)));
    }
    l.require_equal(ir::min(there, wanted), wanted);
  }
  c.set_output(0, l.generate(indices.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    source[axis] = checked_index(b, l.load(b, indices, at), x.sizes()[axis], indices.sizes());
    return l.load(b, x, source);
  }));
}

// Each vector of indices names a slice of the data, within its batch. `at` consists of the position of the
// vector (which begins with the batch) and the position in the slice.
void lower_gather_nd(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::int64_t batch = c.version() < 12 ? 0 : c.int_attribute("batch_dims", 0);
  const int rank = c.rank(0), q = c.rank(1);
  if (rank == 0 || q == 0) c.fail(errors::kShapeMismatch, "neither the data nor the indices may be a scalar");
  if (batch < 0 || batch >= std::min(rank, q)) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'batch_dims' is {}, but the ranks are {} and {}", batch, rank, q));
  }
  const Expr length = c.size(1, -1);
  if (!length.is_constant()) {
    c.fail(errors::kDataDependentSize,
           fmt::format("the length {} of the index vectors depends on a dimension", to_string(length)),
           "fix the dimension to one value");
  }
  const auto b0 = static_cast<std::size_t>(batch), vector = static_cast<std::size_t>(q - 1);
  const std::int64_t n = length.constant();
  if (n < 1 || n > rank - batch) {
    c.fail(errors::kShapeMismatch,
           fmt::format("index vectors of length {} for data of rank {}, {} of which are batch dimensions", n,
                       rank, batch));
  }
  const TensorBox x = c.input(0), indices = c.input(1);
  const std::vector<TensorBox> columns =
      c.value(1).columns;  // tell more about their values than the tensor joined from them
  for (std::size_t k = 0; k < b0; ++k) l.require_equal(x.sizes()[k], indices.sizes()[k]);
  std::vector<Expr> sizes(indices.sizes().begin(), indices.sizes().end() - 1);
  sizes.insert(sizes.end(), x.sizes().begin() + batch + n, x.sizes().end());
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.begin() + batch), component(at.begin(), at.begin() + (q - 1));
    component.emplace_back(0);
    for (std::int64_t k = 0; k < n; ++k) {
      const auto j = static_cast<std::size_t>(k);
      component.back() = columns.empty() ? k : 0;
      const ValueId index = l.load(b, columns.empty() ? indices : columns[j], component);
      source.push_back(checked_index(b, index, x.sizes()[b0 + j], sizes));
    }
    source.insert(source.end(), at.begin() + static_cast<std::ptrdiff_t>(vector), at.end());
    return l.load(b, x, source);
  }));
}

}  // namespace

std::span<const OpSpec> gather_ops() {
  static const OpSpec ops[] = {
      {"", "Gather", 1, kNewestOpset, kAllTypes, lower_gather, work::gather(3), rule::kGather, kNoState,
       size_rule::kGather},
      {"", "GatherElements", 11, kNewestOpset, kAllTypes, lower_gather_elements, work::gather(3),
       rule::kGatherElements, kNoState, kNoSizes},
      {"", "GatherND", 11, kNewestOpset, kAllTypes, lower_gather_nd, work::gather(6), rule::kGatherNd,
       kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
