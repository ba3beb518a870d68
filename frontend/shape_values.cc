#include "frontend/shape_values.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "frontend/shape_rules.h"
#include "frontend/size_fractions.h"
#include "frontend/size_rule.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::DType;
using ir::Expr;
using Result = std::optional<ShapeValues>;
using Sizes = std::vector<std::int64_t>;

// Tracked types; results that would wrap around in int32 are left to the running program.
bool tracked(DType dtype) { return dtype == DType::i64 || dtype == DType::i32 || dtype == DType::boolean; }

std::int64_t count(const Sizes& sizes) {
  std::int64_t n = 1;
  for (std::int64_t s : sizes) {
    if (s < 0 || (s > 0 && n > kMaxElements / s)) return kMaxElements + 1;
    n *= s;
  }
  return n;
}

std::optional<Sizes> constant_sizes(const std::vector<Expr>& sizes) {
  Sizes result;
  for (const Expr& s : sizes) {
    if (!s.is_constant()) return std::nullopt;
    result.push_back(s.constant());
  }
  return result;
}

Result one(DType dtype, Sizes sizes, std::vector<Expr> values) {
  return ShapeValues{dtype, {Elements{std::move(sizes), std::move(values)}}};
}

// Builds a tensor from the elements of the first input: source(position) is the index of the element to take.
Result rearranged(OpContext& c, Sizes sizes,
                  const std::function<std::int64_t(const Sizes& position)>& source) {
  const std::int64_t n = count(sizes);
  if (n > kMaxElements) return std::nullopt;
  const Elements& in = *elements_of(c.value(0));
  std::vector<Expr> values;
  Sizes position(sizes.size(), 0);
  for (std::int64_t k = 0; k < n; ++k) {
    values.push_back(in.values[static_cast<std::size_t>(source(position))]);
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++position[d] < sizes[d]) break;
      position[d] = 0;
    }
  }
  return one(c.dtype(0), std::move(sizes), std::move(values));
}

// 0, 1, ..., n - 1
Sizes identity(std::size_t n) {
  Sizes result(n);
  std::iota(result.begin(), result.end(), std::int64_t{0});
  return result;
}

// The same elements in another shape.
Result same_elements(OpContext& c, Sizes sizes) {
  const Elements& in = *elements_of(c.value(0));
  if (count(sizes) != static_cast<std::int64_t>(in.values.size())) return std::nullopt;
  return one(c.dtype(0), std::move(sizes), in.values);
}

// Index of the element that a tensor of `sizes` is broadcast from at `position` of a tensor of higher or
// equal rank.
std::int64_t broadcast_source(const Sizes& sizes, const Sizes& position) {
  std::int64_t index = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const std::int64_t p = position[k + position.size() - sizes.size()];
    index = index * sizes[k] + (sizes[k] == 1 ? 0 : p);
  }
  return index;
}

std::optional<Sizes> broadcast_sizes(const std::vector<const Elements*>& inputs) {
  Sizes result;
  for (const Elements* e : inputs) {
    const std::size_t rank = std::max(result.size(), e->sizes.size());
    result.insert(result.begin(), rank - result.size(), 1);
    for (std::size_t k = 0; k < e->sizes.size(); ++k) {
      std::int64_t& r = result[k + rank - e->sizes.size()];
      if (r == 1) r = e->sizes[k];
      if (e->sizes[k] != 1 && e->sizes[k] != r) return std::nullopt;
    }
  }
  return result;
}

// Matrices of numbers are tables rather than sizes, and are folded as bytes.
bool is_table(OpContext& c) {
  for (int k = 0; k < c.input_count(); ++k) {
    if (c.has_input(k) && !c.value(k).constant) return false;
  }
  return c.rank(0) > 1;
}

using Function = std::function<std::optional<Expr>(const std::vector<Expr>&)>;

// An elementwise function of all inputs, broadcast.
Result elementwise(OpContext& c, DType dtype, const Function& f) {
  std::vector<const Elements*> inputs;
  for (int k = 0; k < c.input_count(); ++k) inputs.push_back(&*elements_of(c.value(k)));
  const std::optional<Sizes> sizes = broadcast_sizes(inputs);
  if (!sizes || count(*sizes) > kMaxElements) return std::nullopt;
  std::vector<Expr> values;
  Sizes position(sizes->size(), 0);
  for (std::int64_t k = 0, n = count(*sizes); k < n; ++k) {
    std::vector<Expr> operands;
    for (const Elements* e : inputs)
      operands.push_back(e->values[static_cast<std::size_t>(broadcast_source(e->sizes, position))]);
    const std::optional<Expr> value = f(operands);
    if (!value) return std::nullopt;
    values.push_back(*value);
    for (std::size_t d = sizes->size(); d-- > 0;) {
      if (++position[d] < (*sizes)[d]) break;
      position[d] = 0;
    }
  }
  return one(dtype, *sizes, std::move(values));
}

// ---- single functions

std::optional<Expr> divide(const std::vector<Expr>& v) {
  if (v[0].is_constant() && v[1].is_constant()) {
    if (v[1].constant() == 0 || v[1].constant() == -1)
      return v[1].is_constant(0) ? std::nullopt : std::optional(-v[0]);
    return Expr(v[0].constant() / v[1].constant());
  }
  if (const std::optional<Expr> exact =
          ir::bounds(v[1]).min > 0 ? ir::divide_exactly(v[0], v[1]) : std::nullopt)
    return exact;
  if (ir::bounds(v[1]).min <= 0) return std::nullopt;
  // Truncation rounds non-negative numbers down, and non-positive ones up.
  if (ir::provably_non_negative(v[0])) return ir::floor_div(v[0], v[1]);
  return ir::floor_div(ir::max(v[0], 0), v[1]) - ir::floor_div(ir::max(-v[0], 0), v[1]);
}

std::optional<Expr> modulo(const std::vector<Expr>& v) {
  if (ir::bounds(v[1]).min > 0) return ir::mod(v[0], v[1]);
  return std::nullopt;
}

std::optional<Expr> truth(bool yes, bool no) {
  if (yes == no) return std::nullopt;
  return Expr(yes ? 1 : 0);
}

std::optional<Expr> equal(const std::vector<Expr>& v) {
  const ir::Bounds d = ir::bounds(v[0] - v[1]);
  return truth(v[0] == v[1],
               d.min > 0 || d.max < 0 || ir::provably_less(v[0], v[1]) || ir::provably_less(v[1], v[0]));
}
std::optional<Expr> less(const std::vector<Expr>& v) {
  return truth(ir::provably_less(v[0], v[1]), ir::provably_non_negative(v[0] - v[1]));
}
std::optional<Expr> less_equal(const std::vector<Expr>& v) {
  return truth(ir::provably_non_negative(v[1] - v[0]), ir::provably_less(v[1], v[0]));
}

Result fold(OpContext& c, Expr (*f)(Expr, Expr)) {
  return elementwise(c, c.dtype(0), [f](const std::vector<Expr>& v) {
    Expr result = v[0];
    for (std::size_t k = 1; k < v.size(); ++k) result = f(result, v[k]);
    return std::optional(result);
  });
}
Expr add(Expr a, Expr b) { return a + b; }
Expr subtract(Expr a, Expr b) { return a - b; }
Expr multiply(Expr a, Expr b) { return a * b; }

// Reduces all elements of a vector; of a scalar, the element itself.
Result reduce(OpContext& c, Expr (*f)(Expr, Expr), std::optional<Expr> empty) {
  const Elements& in = *elements_of(c.value(0));
  const int rank = static_cast<int>(in.sizes.size());
  if (rank > 1) return std::nullopt;
  const std::optional<std::vector<int>> axes = c.axes(1, rank);
  if ((!axes || axes->empty()) && c.int_attribute("noop_with_empty_axes", 0) != 0)
    return same_elements(c, in.sizes);
  if (in.values.empty() && !empty) return std::nullopt;
  Expr result = in.values.empty() ? *empty : in.values[0];
  for (std::size_t k = 1; k < in.values.size(); ++k) result = f(result, in.values[k]);
  const bool keep = c.int_attribute("keepdims", 1) != 0;
  return one(c.dtype(0), keep ? Sizes(in.sizes.size(), 1) : Sizes{}, {result});
}

Result gather(OpContext& c) {
  if (is_table(c)) return std::nullopt;
  const Elements &data = *elements_of(c.value(0)), &indices = *elements_of(c.value(1));
  const auto axis = static_cast<std::size_t>(c.axis_attribute(static_cast<int>(data.sizes.size()), 0));
  Sizes taken;
  for (const Expr& e : indices.values) {
    if (!e.is_constant() && data.sizes.size() > 1) return std::nullopt;
    const Expr index = wrapped_index(e, data.sizes[axis]);
    if (!index.is_constant()) return std::nullopt;
    taken.push_back(index.constant());
  }
  Sizes sizes(data.sizes.begin(), data.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  sizes.insert(sizes.end(), indices.sizes.begin(), indices.sizes.end());
  sizes.insert(sizes.end(), data.sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.sizes.end());
  const std::size_t rank = indices.sizes.size();
  return rearranged(c, std::move(sizes), [&](const Sizes& position) {
    std::int64_t which = 0, index = 0;
    for (std::size_t k = 0; k < rank; ++k) which = which * indices.sizes[k] + position[axis + k];
    for (std::size_t k = 0; k < data.sizes.size(); ++k) {
      const std::int64_t p = k < axis   ? position[k]
                             : k > axis ? position[k + rank - 1]
                                        : taken[static_cast<std::size_t>(which)];
      index = index * data.sizes[k] + p;
    }
    return index;
  });
}

Result transpose(OpContext& c) {
  if (is_table(c)) return std::nullopt;
  const Elements& in = *elements_of(c.value(0));
  const std::size_t rank = in.sizes.size();
  Sizes order(rank), sizes(rank);
  for (std::size_t k = 0; k < rank; ++k) order[k] = static_cast<std::int64_t>(rank - 1 - k);
  if (const auto given = c.ints_attribute("perm")) order = *given;
  const Sizes axes = identity(rank);
  if (!std::is_permutation(order.begin(), order.end(), axes.begin(), axes.end())) return std::nullopt;
  for (std::size_t k = 0; k < rank; ++k) sizes[k] = in.sizes[static_cast<std::size_t>(order[k])];
  return rearranged(c, std::move(sizes), [&](const Sizes& position) {
    Sizes from(rank);
    for (std::size_t k = 0; k < rank; ++k) from[static_cast<std::size_t>(order[k])] = position[k];
    return broadcast_source(in.sizes, from);
  });
}

Result concat(OpContext& c) {
  if (is_table(c)) return std::nullopt;
  const auto rank = static_cast<int>(elements_of(c.value(0))->sizes.size());
  if (rank == 0) return std::nullopt;
  const auto axis = static_cast<std::size_t>(c.axis_attribute(rank, 0));
  Sizes sizes = elements_of(c.value(0))->sizes;
  sizes[axis] = 0;
  for (int k = 0; k < c.input_count(); ++k) {
    const Elements& in = *elements_of(c.value(k));
    Sizes others = in.sizes;
    if (others.size() != sizes.size()) return std::nullopt;
    others[axis] = sizes[axis];
    if (others != sizes) return std::nullopt;
    sizes[axis] += in.sizes[axis];
    // A tensor joined with itself doubles with every node.
    if (count(sizes) > kMaxElements) return std::nullopt;
  }
  // A row is the run of elements between two steps along the axes before this one.
  std::int64_t rows = 1;
  for (std::size_t k = 0; k < axis; ++k) rows *= sizes[k];
  std::vector<Expr> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (int k = 0; k < c.input_count(); ++k) {
      const Elements& in = *elements_of(c.value(k));
      const auto length = static_cast<std::ptrdiff_t>(in.values.size()) / static_cast<std::ptrdiff_t>(rows);
      values.insert(values.end(), in.values.begin() + row * length, in.values.begin() + (row + 1) * length);
    }
  }
  return one(c.dtype(0), std::move(sizes), std::move(values));
}

Result slice(OpContext& c) {
  if (is_table(c)) return std::nullopt;
  const Elements& in = *elements_of(c.value(0));
  const auto rank = static_cast<int>(in.sizes.size());
  std::vector<Expr> start, end;
  std::optional<Sizes> axes, steps;
  if (c.version() < 10) {
    const auto starts = c.ints_attribute("starts"), ends = c.ints_attribute("ends");
    if (!starts || !ends) return std::nullopt;
    start.assign(starts->begin(), starts->end());
    end.assign(ends->begin(), ends->end());
    axes = c.ints_attribute("axes");
  } else {
    start = c.positions(1, "the starts");
    end = c.positions(2, "the ends");
    if (c.has_input(3)) axes = c.constant_ints(3, "the axes");
    if (c.has_input(4)) steps = c.constant_ints(4, "the steps");
  }
  if (!axes) axes = identity(start.size());
  if (!steps) steps = Sizes(start.size(), 1);
  if (end.size() != start.size() || axes->size() != start.size() || steps->size() != start.size())
    return std::nullopt;
  Sizes begins(in.sizes.size(), 0), strides(in.sizes.size(), 1), sizes = in.sizes;
  for (std::size_t k = 0; k < start.size(); ++k) {
    const auto axis = static_cast<std::size_t>(c.normalize_axis((*axes)[k], rank));
    const Range range = sliced(in.sizes[axis], start[k], end[k], (*steps)[k]);
    if (!range.start.is_constant() || !range.count.is_constant()) return std::nullopt;
    begins[axis] = range.start.constant();
    strides[axis] = range.step;
    sizes[axis] = range.count.constant();
  }
  return rearranged(c, std::move(sizes), [&](const Sizes& position) {
    Sizes from(position.size());
    for (std::size_t k = 0; k < from.size(); ++k) from[k] = begins[k] + position[k] * strides[k];
    return broadcast_source(in.sizes, from);
  });
}

Result split(OpContext& c) {
  const Elements& in = *elements_of(c.value(0));
  if (in.sizes.size() != 1 || c.output_count() == 0) return std::nullopt;
  const std::int64_t n = in.sizes[0], parts = c.output_count();
  std::vector<std::int64_t> sizes;
  if (const auto given = c.ints_attribute("split"))
    sizes = *given;
  else if (c.has_input(1))
    sizes = c.constant_ints(1, "the sizes of the parts");
  else if (n % parts == 0)
    sizes.assign(static_cast<std::size_t>(parts), n / parts);
  else
    return std::nullopt;
  if (static_cast<std::int64_t>(sizes.size()) != parts) return std::nullopt;
  ShapeValues result{c.dtype(0), {}};
  std::int64_t start = 0;
  for (std::int64_t s : sizes) {
    if (s < 0 || start + s > n) return std::nullopt;
    result.outputs.push_back({{s}, {in.values.begin() + start, in.values.begin() + start + s}});
    start += s;
  }
  return result;
}

Result shape(OpContext& c) {
  const std::vector<Expr>& sizes = c.sizes(0);
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const auto position = [&](const char* name, std::int64_t fallback) {
    const std::int64_t p = c.int_attribute(name, fallback);
    return std::clamp(p < 0 ? p + rank : p, std::int64_t{0}, rank);
  };
  const std::int64_t start = position("start", 0), end = std::max(position("end", rank), start);
  return one(DType::i64, {end - start}, {sizes.begin() + start, sizes.begin() + end});
}

Result squeeze(OpContext& c) {
  const Elements& in = *elements_of(c.value(0));
  const std::optional<std::vector<int>> axes = c.axes(1, static_cast<int>(in.sizes.size()));
  Sizes sizes;
  for (std::size_t k = 0; k < in.sizes.size(); ++k) {
    const bool drop =
        axes ? std::count(axes->begin(), axes->end(), static_cast<int>(k)) > 0 : in.sizes[k] == 1;
    if (!drop) sizes.push_back(in.sizes[k]);
  }
  return same_elements(c, std::move(sizes));
}

Result unsqueeze(OpContext& c) {
  const Elements& in = *elements_of(c.value(0));
  std::optional<std::vector<std::int64_t>> given = c.ints_attribute("axes");
  if (!given) given = c.constant_ints(1, "axes");
  const int rank = static_cast<int>(in.sizes.size() + given->size());
  std::vector<bool> added(static_cast<std::size_t>(rank), false);
  for (std::int64_t axis : *given)
    added[static_cast<std::size_t>(c.normalize_axis(axis, rank, "an axis"))] = true;
  if (std::count(added.begin(), added.end(), true) != static_cast<std::ptrdiff_t>(given->size()))
    return std::nullopt;
  Sizes sizes;
  std::size_t next = 0;
  for (int k = 0; k < rank; ++k) sizes.push_back(added[static_cast<std::size_t>(k)] ? 1 : in.sizes[next++]);
  return same_elements(c, std::move(sizes));
}

Result reshape(OpContext& c) {
  const std::optional<Sizes> sizes = constant_sizes(
      reshaped(c.sizes(0), c.shape_values(1, "the sizes"), c.int_attribute("allowzero", 0) != 0));
  if (!sizes) return std::nullopt;
  return same_elements(c, *sizes);
}

Result expand(OpContext& c) {
  const Elements& in = *elements_of(c.value(0));
  std::optional<Sizes> target = constant_sizes(c.shape_values(1, "the sizes"));
  if (!target) return std::nullopt;
  const Elements wanted{*target, {}};
  const std::optional<Sizes> sizes = broadcast_sizes({&in, &wanted});
  if (!sizes) return std::nullopt;
  return rearranged(c, *sizes, [&](const Sizes& position) { return broadcast_source(in.sizes, position); });
}

Result constant_of_shape(OpContext& c) {
  const std::optional<Sizes> sizes = constant_sizes(c.shape_values(0, "the sizes"));
  const std::optional<Tensor> value = c.tensor_attribute("value");
  if (!sizes || count(*sizes) > kMaxElements || !value || !tracked(value->dtype) || value->count() != 1)
    return std::nullopt;
  return one(value->dtype, *sizes,
             std::vector<Expr>(static_cast<std::size_t>(count(*sizes)), integer_at(*value, 0)));
}

Result range(OpContext& c) {
  std::vector<Expr> v;
  for (int k = 0; k < 3; ++k) {
    const std::vector<Expr> values = c.positions(k, "the bounds");
    if (values.size() != 1) return std::nullopt;
    v.push_back(values[0]);
  }
  if (!v[2].is_constant()) return std::nullopt;
  const Expr n = range_count(v[0], v[1], v[2].constant());
  // Longer ranges are data (positions, masks), not shapes.
  constexpr std::int64_t kMaxRange = 32;
  if (!n.is_constant() || n.constant() > kMaxRange) return std::nullopt;
  std::vector<Expr> values;
  for (std::int64_t k = 0; k < n.constant(); ++k) values.push_back(v[0] + v[2] * k);
  return one(c.dtype(0), {n.constant()}, std::move(values));
}

Result where(OpContext& c) {
  return elementwise(c, c.dtype(1), [](const std::vector<Expr>& v) -> std::optional<Expr> {
    if (v[1] == v[2]) return v[1];
    if (!v[0].is_constant()) return std::nullopt;
    return v[0].is_constant(0) ? v[2] : v[1];
  });
}

Result cast_fractions(OpContext& c, DType to) {
  const std::optional<Fractions>& in = c.value(0).fractions;
  if (!in || to == DType::boolean) return std::nullopt;
  std::vector<Expr> values;
  for (const Fraction& f : in->values) {
    const std::optional<Expr> value = truncated(f);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return one(to, in->sizes, std::move(values));
}

DType type_named(OpContext& c) { return c.dtype_of(c.int_attribute("to")); }
DType type_of_like(OpContext& c) { return c.dtype(1); }

Result cast(OpContext& c, DType (*type)(OpContext&)) {
  if (!c.has_input(0)) return std::nullopt;
  const DType to = type(c);
  if (!tracked(to)) return std::nullopt;
  if (is_float(c.dtype(0))) return cast_fractions(c, to);
  if (!tracked(c.dtype(0)) || !elements_of(c.value(0))) return std::nullopt;
  const Elements& in = *elements_of(c.value(0));
  if (to != DType::boolean || c.dtype(0) == DType::boolean) return one(to, in.sizes, in.values);
  std::vector<Expr> values;
  for (const Expr& e : in.values) {
    if (e.is_constant())
      values.push_back(e.is_constant(0) ? 0 : 1);
    else if (ir::bounds(e).min > 0)
      values.push_back(1);
    else
      return std::nullopt;
  }
  return one(to, in.sizes, std::move(values));
}

Result logic(OpContext& c, bool (*f)(bool, bool)) {
  return elementwise(c, DType::boolean, [f](const std::vector<Expr>& v) {
    return std::optional<Expr>(f(!v[0].is_constant(0), !v.back().is_constant(0)) ? 1 : 0);
  });
}

bool fits(Expr e, DType dtype) {
  if (dtype == DType::i64) return true;
  const ir::Bounds b = ir::bounds(e);
  return b.min >= std::numeric_limits<std::int32_t>::min() &&
         b.max <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

std::optional<ShapeValues> shape_values(OpContext& context, const SizeRule& rule) {
  if (rule.values == nullptr) return std::nullopt;
  if (rule.needs_values) {
    if (context.input_count() == 0) return std::nullopt;
    for (int k = 0; k < context.input_count(); ++k) {
      if (!context.has_input(k)) continue;
      if (!tracked(context.dtype(k)) || !elements_of(context.value(k))) return std::nullopt;
    }
  }
  Result result;
  try {
    result = rule.values(context);
  } catch (const ir::UserError& error) {
    // Sizes do not wrap around and are short; other integers, which look the same (bounds of a clip, masks),
    // may be anything and are left to the running program.
    if (error.code() != errors::kSizeOverflow && error.code() != errors::kSizeTooLong) throw;
    return std::nullopt;
  }
  if (!result || !tracked(result->dtype)) return std::nullopt;
  for (const Elements& e : result->outputs) {
    if (!std::all_of(e.values.begin(), e.values.end(), [&](Expr v) { return fits(v, result->dtype); }))
      return std::nullopt;
  }
  return result;
}

namespace size_rule {

constexpr SizeRule kAbs = {[](OpContext& c) {
  return elementwise(c, c.dtype(0),
                     [](const std::vector<Expr>& v) { return std::optional(ir::max(v[0], -v[0])); });
}};
constexpr SizeRule kAdd = {[](OpContext& c) { return fold(c, add); }, fractions::add};
constexpr SizeRule kAnd = {[](OpContext& c) { return logic(c, [](bool a, bool b) { return a && b; }); }};
constexpr SizeRule kCast = {[](OpContext& c) { return cast(c, type_named); }, fractions::cast, false};
constexpr SizeRule kCastLike = {[](OpContext& c) { return cast(c, type_of_like); }, fractions::cast_like,
                                false};
constexpr SizeRule kCeil = {nullptr, fractions::ceil};
constexpr SizeRule kConcat = {concat, fractions::concat};
constexpr SizeRule kConstantOfShape = {constant_of_shape};
constexpr SizeRule kDiv = {[](OpContext& c) { return elementwise(c, c.dtype(0), divide); },
                           fractions::divide};
constexpr SizeRule kEqual = {[](OpContext& c) { return elementwise(c, DType::boolean, equal); }};
constexpr SizeRule kExpand = {expand};
constexpr SizeRule kFloor = {nullptr, fractions::floor};
constexpr SizeRule kGather = {gather};
constexpr SizeRule kGreater = {[](OpContext& c) {
  return elementwise(c, DType::boolean, [](const std::vector<Expr>& v) { return less({v[1], v[0]}); });
}};
constexpr SizeRule kGreaterOrEqual = {[](OpContext& c) {
  return elementwise(c, DType::boolean, [](const std::vector<Expr>& v) { return less_equal({v[1], v[0]}); });
}};
constexpr SizeRule kIdentity = {[](OpContext& c) { return same_elements(c, elements_of(c.value(0))->sizes); },
                                fractions::reshaped};
constexpr SizeRule kLess = {[](OpContext& c) { return elementwise(c, DType::boolean, less); }};
constexpr SizeRule kLessOrEqual = {[](OpContext& c) { return elementwise(c, DType::boolean, less_equal); }};
constexpr SizeRule kMax = {[](OpContext& c) { return fold(c, ir::max); }};
constexpr SizeRule kMin = {[](OpContext& c) { return fold(c, ir::min); }};
constexpr SizeRule kMod = {[](OpContext& c) {
  return c.int_attribute("fmod", 0) != 0 ? std::nullopt : elementwise(c, c.dtype(0), modulo);
}};
constexpr SizeRule kMul = {[](OpContext& c) { return fold(c, multiply); }, fractions::multiply};
constexpr SizeRule kNeg = {[](OpContext& c) {
  return elementwise(c, c.dtype(0), [](const std::vector<Expr>& v) { return std::optional(-v[0]); });
}};
constexpr SizeRule kNot = {[](OpContext& c) { return logic(c, [](bool a, bool) { return !a; }); }};
constexpr SizeRule kOr = {[](OpContext& c) { return logic(c, [](bool a, bool b) { return a || b; }); }};
constexpr SizeRule kRange = {range};
constexpr SizeRule kReduceMax = {[](OpContext& c) { return reduce(c, ir::max, std::nullopt); }};
constexpr SizeRule kReduceMin = {[](OpContext& c) { return reduce(c, ir::min, std::nullopt); }};
constexpr SizeRule kReduceProd = {[](OpContext& c) { return reduce(c, multiply, Expr(1)); }};
constexpr SizeRule kReduceSum = {[](OpContext& c) { return reduce(c, add, Expr(0)); }};
constexpr SizeRule kReshape = {reshape, fractions::reshaped};
constexpr SizeRule kShape = {shape, nullptr, false};
constexpr SizeRule kSize = {[](OpContext& c) { return one(DType::i64, {}, {ir::product(c.sizes(0))}); },
                            nullptr, false};
constexpr SizeRule kSlice = {slice};
constexpr SizeRule kSplit = {split};
constexpr SizeRule kSqueeze = {squeeze, fractions::reshaped};
constexpr SizeRule kSub = {[](OpContext& c) { return fold(c, subtract); }, fractions::subtract};
constexpr SizeRule kSum = {[](OpContext& c) { return fold(c, add); }};
constexpr SizeRule kTranspose = {transpose};
constexpr SizeRule kUnsqueeze = {unsqueeze, fractions::reshaped};
constexpr SizeRule kWhere = {where};

}  // namespace size_rule

}  // namespace braid::frontend
