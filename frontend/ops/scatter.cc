// Scatter: a copy of a tensor in which elements or slices are replaced, or combined with updates, at indices
// that are read at run time. A loop computes the position of each update, with its check, and the extern
// kernel `scatter` (runtime/host/scatter.h) walks through the updates in order.
#include "frontend/ops/index.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// How updates combine with the elements that they hit, as the kernel names it.
std::string reduction(OpContext& c) {
  const std::string name = c.string_attribute("reduction", "none");
  for (const char* known : {"none", "add", "mul", "max", "min"}) {
    if (name == known) return name;
  }
  c.fail(errors::kInvalidAttribute,
         fmt::format("attribute 'reduction' is '{}', expected none, add, mul, max or min", name));
}

// The operands of the kernel: `blocks` parts of the data, each with `rows` rows of `width` elements, and as
// many updates for each of them.
struct Updates {
  Expr blocks = 1, rows = 1, width = 1, count = 1;
  TensorBox positions, values;
};

void set_scattered(OpContext& c, const TensorBox& data, const Updates& u) {
  ir::Lowering& l = c.lowering();
  const std::string kind = reduction(c);
  const DType dtype = data.dtype(), type = kind == "none" ? dtype : compute_type(dtype);
  if (kind != "none" && dtype == DType::boolean)
    c.fail(errors::kUnsupportedType, "a reduction of bool is not supported");
  const std::vector<Expr> sizes = {u.blocks, u.rows, u.width};
  const TensorBox out =
      l.extern_call("scatter",
                    {l.reshape(l.cast(data, type), sizes), l.reshape(u.positions, {u.blocks, u.count}),
                     l.reshape(l.cast(u.values, type), {u.blocks, u.count, u.width})},
                    {{type, sizes}}, {{"reduction", kind}})[0];
  c.set_output(0, l.cast(l.reshape(out, data.sizes()), dtype));
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
  Updates u;
  for (int k = 0; k + 1 < q; ++k) {
    l.require_equal(c.sizes(1)[static_cast<std::size_t>(k)], update_sizes[static_cast<std::size_t>(k)]);
    u.count = u.count * c.sizes(1)[static_cast<std::size_t>(k)];
  }
  for (int k = 0; k < rank; ++k) {
    const auto d = static_cast<std::size_t>(k);
    Expr& part = k < n ? u.rows : u.width;
    part = part * sizes[d];
    if (k >= n) l.require_equal(sizes[d], update_sizes[d + static_cast<std::size_t>(q - 1 - n)]);
  }
  const TensorBox indices = l.reshape(c.input(1), {u.count, n});
  const std::vector<Expr> extents = {u.count};
  u.positions = l.generate(extents, [&](BodyBuilder& b, std::span<const Expr> at) {
    ValueId row = b.constant(DType::i64, std::int64_t{0});
    for (std::int64_t j = 0; j < n; ++j) {
      const Expr size = sizes[static_cast<std::size_t>(j)];
      const ValueId read = l.load(b, indices, std::vector<Expr>{at[0], j});
      const ValueId position = checked_position(b, read, size, extents);
      row = j == 0 ? position
                   : b.binary(OpCode::add, b.binary(OpCode::mul, row, number(b, size, DType::i64)), position);
    }
    return row;
  });
  u.values = c.input(2);
  set_scattered(c, data, u);
}

// Update [.., k, ..] goes to the element with the same indices except along the axis, where the index is
// read. Along the other axes there may be fewer updates than elements. Leading axes along which there are as
// many make blocks.
void lower_scatter_elements(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const auto axis = static_cast<std::size_t>(c.axis_attribute(c.rank(0), 0));
  const TensorBox data = c.input(0), indices = c.input(1);
  if (indices.rank() != data.rank() || c.rank(2) != c.rank(0)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("ranks {}, {} and {} differ", data.rank(), indices.rank(), c.rank(2)));
  }
  const std::vector<Expr>&sizes = data.sizes(), &given = indices.sizes();
  Updates u;
  std::size_t leading = 0;
  while (leading < axis && given[leading] == sizes[leading]) u.blocks = u.blocks * sizes[leading++];
  for (std::size_t d = 0; d < data.rank(); ++d) {
    l.require_equal(given[d], c.sizes(2)[d]);
    if (d >= leading) {
      u.rows = u.rows * sizes[d];
      u.count = u.count * given[d];
    }
    if (d == axis || given[d] == sizes[d]) continue;
    if (ir::provably_less(sizes[d], given[d])) {
      c.fail(errors::kShapeMismatch,
             fmt::format("the indices have size {} along axis {}, but the data has only {}",
                         to_string(given[d]), d, to_string(sizes[d])));
    }
    l.require_equal(ir::min(sizes[d], given[d]), given[d]);
  }
  u.positions = l.generate(given, [&](BodyBuilder& b, std::span<const Expr> at) {
    // Row-major within the block: the other axes first, then the index times the stride of its axis.
    Expr others = 0, stride = 1, of_axis = 1;
    for (std::size_t d = data.rank(); d-- > leading;) {
      if (d == axis) {
        of_axis = stride;
      } else {
        others = others + at[d] * stride;
      }
      stride = stride * sizes[d];
    }
    const ValueId position = checked_position(b, l.load(b, indices, at), sizes[axis], given);
    return b.binary(OpCode::add, b.binary(OpCode::mul, position, number(b, of_axis, DType::i64)),
                    b.index(others));
  });
  u.values = c.input(2);
  set_scattered(c, data, u);
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
