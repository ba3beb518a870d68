// Scatter: a copy of a tensor with elements or slices replaced at given indices. Loops write every element of
// their output once, so each element searches the update that hits it: cheap for the few positions of a cache
// that a step writes, expensive (elements times updates) for many updates of a large tensor.
#include "frontend/ops/index.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::ReduceKind;

// How an element combines with the updates that hit it; nullopt: the last update replaces it.
std::optional<ReduceKind> reduction(OpContext& c) {
  const std::string name = c.string_attribute("reduction", "none");
  if (name == "none") return std::nullopt;
  if (name == "add") return ReduceKind::sum;
  if (name == "mul") return ReduceKind::prod;
  if (name == "max") return ReduceKind::max;
  if (name == "min") return ReduceKind::min;
  c.fail(errors::kInvalidAttribute,
         fmt::format("attribute 'reduction' is '{}', expected none, add, mul, max or min", name));
}

OpCode code_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::prod:
      return OpCode::mul;
    case ReduceKind::max:
      return OpCode::max;
    case ReduceKind::min:
      return OpCode::min;
    default:
      return OpCode::add;
  }
}

// `hits(b, at, k)`: whether update k hits the element at `at`. `update(b, at, k, mask)` reads it.
struct Updates {
  Expr count = 0;
  std::vector<Expr> hit_sizes;  // leading dimensions of the data that decide whether an update hits
  std::function<ValueId(BodyBuilder&, std::span<const Expr> at, Expr k, std::span<const Expr> extents)> hits;
  std::function<ValueId(BodyBuilder&, std::span<const Expr> at, Expr k, ValueId mask)> update;
};

TensorBox replaced(OpContext& c, const TensorBox& data, const Updates& updates) {
  ir::Lowering& l = c.lowering();
  std::vector<Expr> sizes = updates.hit_sizes;
  const int axis = static_cast<int>(sizes.size());
  sizes.push_back(updates.count);
  const TensorBox candidates = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId hit = updates.hits(b, at.first(at.size() - 1), at.back(), sizes);
    return b.where(hit, b.index(at.back()), b.constant(DType::i64, std::int64_t{-1}));
  });
  const TensorBox last = l.realize(l.reduce(candidates, ReduceKind::max, {axis}, false));
  return l.generate(data.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId winner = l.load(b, last, at.first(static_cast<std::size_t>(axis)));
    const ValueId hit = b.binary(OpCode::ge, winner, b.constant(DType::i64, std::int64_t{0}));
    return b.where(hit, updates.update(b, at, b.as_index(winner), hit), l.load(b, data, at));
  });
}

TensorBox combined(OpContext& c, const TensorBox& data, const Updates& updates, ReduceKind kind) {
  ir::Lowering& l = c.lowering();
  const DType dtype = data.dtype(), compute = compute_type(dtype);
  std::vector<Expr> sizes = data.sizes();
  const int axis = static_cast<int>(sizes.size());
  const std::size_t leading = updates.hit_sizes.size();
  sizes.push_back(updates.count);
  // An update that does not hit counts as the element itself for max and min, as 0 or 1 otherwise.
  const TensorBox hits = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId hit = updates.hits(b, at.first(leading), at.back(), sizes);
    const std::span<const Expr> element = at.first(at.size() - 1);
    const ValueId update = b.cast(updates.update(b, element, at.back(), hit), compute);
    const bool neutral = kind == ReduceKind::sum || kind == ReduceKind::prod;
    const ValueId missed = neutral ? b.constant_of(compute, kind == ReduceKind::sum ? 0 : 1)
                                   : b.cast(l.load(b, data, element), compute);
    return b.where(hit, update, missed);
  });
  return l.cast(binary(l, code_of(kind), l.cast(data, compute), l.reduce(hits, kind, {axis}, false)), dtype);
}

void set_scattered(OpContext& c, const TensorBox& data, const Updates& updates) {
  const std::optional<ReduceKind> kind = reduction(c);
  if (kind && data.dtype() == DType::boolean)
    c.fail(errors::kUnsupportedType, "a reduction of bool is not supported");
  c.set_output(0, kind ? combined(c, data, updates, *kind) : replaced(c, data, updates));
}

// Update k goes to the slice that index vector k names.
void lower_scatter_nd(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int rank = c.rank(0), q = c.rank(1);
  if (rank == 0 || q == 0) c.fail(errors::kShapeMismatch, "neither the data nor the indices may be a scalar");
  if (!c.size(1, -1).is_constant()) {
    c.fail(errors::kDataDependentSize, "the length of the index vectors depends on a dimension",
           "fix the dimension to one value");
  }
  const std::int64_t n = c.size(1, -1).constant();
  if (n < 1 || n > rank) {
    c.fail(errors::kShapeMismatch, fmt::format("index vectors of length {} for data of rank {}", n, rank));
  }
  if (c.rank(2) != q - 1 + rank - static_cast<int>(n)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("updates of rank {}, expected {}", c.rank(2), q - 1 + rank - n));
  }
  const TensorBox data = c.input(0);
  const std::vector<Expr>&sizes = data.sizes(), &update_sizes = c.sizes(2);
  Updates updates;
  updates.count = ir::product(std::span(c.sizes(1)).first(static_cast<std::size_t>(q - 1)));
  updates.hit_sizes.assign(sizes.begin(), sizes.begin() + n);
  std::vector<Expr> flat{updates.count};
  for (int k = 0; k + 1 < q; ++k) {
    l.require_equal(c.sizes(1)[static_cast<std::size_t>(k)], update_sizes[static_cast<std::size_t>(k)]);
  }
  for (int k = static_cast<int>(n); k < rank; ++k) {
    const auto d = static_cast<std::size_t>(k);
    l.require_equal(sizes[d], update_sizes[d + static_cast<std::size_t>(q - 1 - n)]);
    flat.push_back(sizes[d]);
  }
  const TensorBox indices = l.reshape(c.input(1), {updates.count, n}), values = l.reshape(c.input(2), flat);
  updates.hits = [&, n](BodyBuilder& b, std::span<const Expr> at, Expr k, std::span<const Expr> extents) {
    std::optional<ValueId> hit;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto d = static_cast<std::size_t>(j);
      const std::vector<Expr> component{k, j};
      const ValueId position = checked_position(b, l.load(b, indices, component), sizes[d], extents);
      const ValueId equal = b.binary(OpCode::eq, position, b.index(at[d]));
      hit = hit ? b.binary(OpCode::logical_and, *hit, equal) : equal;
    }
    return *hit;
  };
  updates.update = [&, n](BodyBuilder& b, std::span<const Expr> at, Expr k, ValueId mask) {
    std::vector<Expr> source{k};
    source.insert(source.end(), at.begin() + n, at.end());
    return l.load(b, values, source, mask);
  };
  set_scattered(c, data, updates);
}

// Update [.., k, ..] goes to the element with the same indices except along the axis, where the index is
// read. Along the other axes there may be fewer updates than elements.
void lower_scatter_elements(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const auto axis = static_cast<std::size_t>(c.axis_attribute(c.rank(0), 0));
  const TensorBox data = c.input(0), indices = c.input(1), values = c.input(2);
  if (indices.rank() != data.rank() || values.rank() != data.rank()) {
    c.fail(errors::kShapeMismatch,
           fmt::format("ranks {}, {} and {} differ", data.rank(), indices.rank(), values.rank()));
  }
  Updates updates;
  updates.count = indices.sizes()[axis];
  updates.hit_sizes = data.sizes();
  for (std::size_t d = 0; d < data.rank(); ++d) l.require_equal(indices.sizes()[d], values.sizes()[d]);
  updates.hits = [&](BodyBuilder& b, std::span<const Expr> at, Expr k, std::span<const Expr> extents) {
    std::optional<ValueId> inside;
    std::vector<Expr> source(at.begin(), at.end());
    source[axis] = k;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const Expr size = indices.sizes()[d];
      if (d == axis || size == data.sizes()[d]) continue;
      const ValueId in = b.binary(OpCode::lt, b.index(at[d]), b.index(size));
      inside = inside ? b.binary(OpCode::logical_and, *inside, in) : in;
    }
    const ValueId read = l.load(b, indices, source, inside);
    const ValueId position = checked_position(b, read, data.sizes()[axis], extents);
    const ValueId equal = b.binary(OpCode::eq, position, b.index(at[axis]));
    return inside ? b.binary(OpCode::logical_and, *inside, equal) : equal;
  };
  updates.update = [&](BodyBuilder& b, std::span<const Expr> at, Expr k, ValueId mask) {
    std::vector<Expr> source(at.begin(), at.end());
    source[axis] = k;
    return l.load(b, values, source, mask);
  };
  set_scattered(c, data, updates);
}

}  // namespace

std::span<const OpSpec> scatter_ops() {
  static const OpSpec ops[] = {
      {"", "Scatter", 9, 10, kAllTypes, lower_scatter_elements, work::scatter_elements(),
       rule::kScatterElements, kNoState, kNoSizes},
      {"", "ScatterElements", 11, kNewestOpset, kAllTypes, lower_scatter_elements, work::scatter_elements(),
       rule::kScatterElements, carries({{0, 0}}), kNoSizes},
      {"", "ScatterND", 11, kNewestOpset, kAllTypes, lower_scatter_nd, work::scatter_slices(),
       rule::kScatterNd, carries({{0, 0}}), kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
