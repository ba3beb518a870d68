// Operators whose results have as many elements as the data say: Compress, NonZero, NonMaxSuppression and
// Unique. They are computed while compiling where that is possible, and refused by name otherwise.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/ops/constant_input.h"
#include "ir/element.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr const char* kWhat = "the sizes of the result";  // names in messages what depends on values

void lower_compress(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(1) != 1)
    c.fail(errors::kShapeMismatch, fmt::format("the condition has rank {}, expected 1", c.rank(1)));
  std::vector<std::int64_t> kept;
  const std::vector<double> condition = constant_numbers(c, 1, kWhat);
  for (std::size_t k = 0; k < condition.size(); ++k) {
    if (condition[k] != 0) kept.push_back(static_cast<std::int64_t>(k));
  }
  const bool flat = !c.has_attribute("axis");
  const TensorBox x = flat ? l.reshape(c.input(0), {ir::product(c.sizes(0))}) : c.input(0);
  const auto axis = static_cast<std::size_t>(flat ? 0 : c.axis_attribute(c.rank(0), 0));
  const std::int64_t last = kept.empty() ? -1 : kept.back();
  const Expr size = x.sizes()[axis];
  if (ir::provably_less(size, last + 1))
    c.fail(errors::kShapeMismatch, fmt::format("element {} is kept of {}", last, to_string(size)));
  l.require_equal(ir::max(size, last + 1), size);
  std::vector<Expr> sizes = x.sizes();
  sizes[axis] = kept.size();
  const TensorBox positions = constant_table(c, "kept", DType::i64, {static_cast<std::int64_t>(kept.size())},
                                             std::vector<double>(kept.begin(), kept.end()));
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    source[axis] = b.as_index(l.load(b, positions, at.subspan(axis, 1)));
    return l.load(b, x, source);
  }));
}

void lower_non_zero(OpContext& c) {
  const std::vector<double> values = constant_numbers(c, 0, kWhat);
  std::vector<std::int64_t> sizes;
  for (const Expr& size : c.sizes(0)) sizes.push_back(size.constant());
  if (sizes.empty()) sizes.push_back(1);                           // a scalar counts as one row
  std::vector<std::vector<std::int64_t>> positions(sizes.size());  // by axis
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (values[k] == 0) continue;
    auto rest = static_cast<std::int64_t>(k);
    for (std::size_t d = sizes.size(); d-- > 0;) {
      positions[d].push_back(rest % sizes[d]);
      rest /= sizes[d];
    }
  }
  const auto count = static_cast<std::int64_t>(positions[0].size());
  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& axis : positions) all.insert(all.end(), axis.begin(), axis.end());
  const std::int64_t rows = c.rank(0) == 0 ? 0 : static_cast<std::int64_t>(sizes.size());
  if (rows == 0) all.clear();
  c.set_output(0, integer_tensor(DType::i64, {rows, count}, all));
}

// ---- NonMaxSuppression

struct Box {
  double y1, x1, y2, x2;  // y1 <= y2, x1 <= x2

  double area() const { return (y2 - y1) * (x2 - x1); }
};

Box box_at(const std::vector<double>& boxes, std::size_t index, bool by_center) {
  const double* b = boxes.data() + 4 * index;
  if (by_center) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

// Returns the area of the intersection divided by that of the union.
double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1),
               width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

void lower_non_max_suppression(OpContext& c) {
  const std::vector<double> boxes = constant_numbers(c, 0, kWhat), scores = constant_numbers(c, 1, kWhat);
  const double most = c.has_input(2) ? constant_number(c, 2, kWhat) : 0,
               threshold = c.has_input(3) ? constant_number(c, 3, kWhat) : 0;
  const std::optional<double> lowest_score =
      c.has_input(4) ? std::optional(constant_number(c, 4, kWhat)) : std::nullopt;
  if (c.rank(0) != 3 || c.rank(1) != 3 || !c.size(0, 2).is_constant(4) || !(c.size(0, 0) == c.size(1, 0)) ||
      !(c.size(0, 1) == c.size(1, 2)))
    c.fail(errors::kShapeMismatch, "expected boxes [batch, n, 4] and scores [batch, classes, n]");
  const bool by_center = c.int_attribute("center_point_box", 0) != 0;
  const std::int64_t batches = c.size(1, 0).constant(), classes = c.size(1, 1).constant();
  const auto n = static_cast<std::size_t>(c.size(1, 2).constant());
  std::vector<std::int64_t> selected;
  for (std::int64_t of_class = 0; of_class < batches * classes; ++of_class) {
    const std::int64_t batch = of_class / classes;
    const double* score = scores.data() + static_cast<std::size_t>(of_class) * n;
    const auto box = [&](std::size_t k) {
      return box_at(boxes, static_cast<std::size_t>(batch) * n + k, by_center);
    };
    std::vector<std::size_t> order, kept;
    for (std::size_t k = 0; k < n; ++k) {
      if (!lowest_score || score[k] > *lowest_score) order.push_back(k);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return score[a] > score[b]; });
    for (const std::size_t k : order) {
      if (static_cast<double>(kept.size()) >= most) break;
      const bool covered = std::any_of(kept.begin(), kept.end(), [&](std::size_t other) {
        return overlap(box(k), box(other)) > threshold;
      });
      if (covered) continue;
      kept.push_back(k);
      selected.insert(selected.end(), {batch, of_class % classes, static_cast<std::int64_t>(k)});
    }
  }
  const auto count = static_cast<std::int64_t>(selected.size()) / 3;
  c.set_output(0, integer_tensor(DType::i64, {count, 3}, selected));
}

// ---- Unique

std::vector<ir::Literal> literals(OpContext& c, const char* what) {
  Value& v = c.value(0);
  std::vector<ir::Literal> result;
  if (v.constant && v.constant->data.same_on_all_ranks()) {
    for (std::int64_t k = 0; k < v.constant->count(); ++k) result.push_back(literal_at(*v.constant, k));
    return result;
  }
  if (is_float(v.dtype)) fail_unknown_value(c, 0, what);
  for (const std::int64_t number : c.constant_ints(0, what)) result.emplace_back(number);
  return result;
}

bool less(DType dtype, const ir::Literal& a, const ir::Literal& b) {
  if (dtype != DType::u64) return a < b;
  return static_cast<std::uint64_t>(std::get<std::int64_t>(a)) <
         static_cast<std::uint64_t>(std::get<std::int64_t>(b));
}

// Slices along an axis, and which of them are equal.
void lower_unique(OpContext& c) {
  const std::vector<ir::Literal> x = literals(c, kWhat);
  const bool is_nan = std::any_of(x.begin(), x.end(), [](const ir::Literal& v) {
    return std::holds_alternative<double>(v) && std::isnan(std::get<double>(v));
  });
  if (is_nan) c.fail(errors::kUnsupportedForm, "an element is not a number");
  std::vector<std::int64_t> sizes;
  for (const Expr& size : c.sizes(0)) sizes.push_back(size.constant());
  std::size_t axis = 0;
  if (c.has_attribute("axis"))
    axis = static_cast<std::size_t>(c.axis_attribute(c.rank(0), 0));
  else
    sizes = {static_cast<std::int64_t>(x.size())};
  std::int64_t inner = 1, outer = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : sizes[d];
  const std::int64_t n = sizes[axis];
  const auto slice = [&](std::int64_t k) {
    std::vector<ir::Literal> elements;
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i)
        elements.push_back(x[static_cast<std::size_t>((o * n + k) * inner + i)]);
    }
    return elements;
  };
  const DType dtype = c.dtype(0);
  std::vector<std::vector<ir::Literal>> distinct;
  std::vector<std::int64_t> first, inverse, counts;
  for (std::int64_t k = 0; k < n; ++k) {
    std::vector<ir::Literal> elements = slice(k);
    const auto known = std::find(distinct.begin(), distinct.end(), elements) - distinct.begin();
    inverse.push_back(known);
    if (known < static_cast<std::ptrdiff_t>(distinct.size())) {
      ++counts[static_cast<std::size_t>(known)];
      continue;
    }
    distinct.push_back(std::move(elements));
    first.push_back(k);
    counts.push_back(1);
  }
  std::vector<std::size_t> order(distinct.size());
  std::iota(order.begin(), order.end(), 0);
  if (c.int_attribute("sorted", 1) != 0) {
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::lexicographical_compare(distinct[a].begin(), distinct[a].end(), distinct[b].begin(),
                                          distinct[b].end(),
                                          [&](const auto& p, const auto& q) { return less(dtype, p, q); });
    });
  }
  std::vector<std::int64_t> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = static_cast<std::int64_t>(k);
  const auto in_order = [&](const std::vector<std::int64_t>& of) {
    std::vector<std::int64_t> result;
    for (const std::size_t k : order) result.push_back(of[k]);
    return result;
  };
  sizes[axis] = static_cast<std::int64_t>(order.size());
  const std::int64_t bytes = size_of(dtype), found = sizes[axis];
  std::vector<std::byte> y(static_cast<std::size_t>(outer * found * inner * bytes));
  for (std::int64_t k = 0; k < found; ++k) {
    const std::vector<ir::Literal>& elements = distinct[order[static_cast<std::size_t>(k)]];
    for (std::int64_t j = 0; j < outer * inner; ++j) {
      const std::int64_t at = (j / inner * found + k) * inner + j % inner;
      ir::write_element(dtype, y.data() + at * bytes, elements[static_cast<std::size_t>(j)]);
    }
  }
  c.set_output(0, Tensor{dtype, sizes, ir::own_bytes(std::move(y))});
  c.set_output(1, integer_tensor(DType::i64, {found}, in_order(first)));
  for (std::int64_t& k : inverse) k = place[static_cast<std::size_t>(k)];
  c.set_output(2, integer_tensor(DType::i64, {n}, inverse));
  c.set_output(3, integer_tensor(DType::i64, {found}, in_order(counts)));
}

constexpr const char* kData = "the size of the result depends on values";

}  // namespace

std::span<const OpSpec> data_dependent_ops() {
  static const OpSpec ops[] = {
      {"", "Compress", 9, kNewestOpset, kAllTypes, lower_compress, work::gather(0), rule::kCompress, kNoState,
       kNoSizes},
      {"", "NonMaxSuppression", 10, kNewestOpset, TypeSet{DType::f32}, lower_non_max_suppression,
       work::constant(), sharding::replicated(kData), kNoState, kNoSizes},
      {"", "NonZero", 9, kNewestOpset, kAllTypes, lower_non_zero, work::constant(),
       sharding::replicated(kData), kNoState, kNoSizes},
      {"", "Unique", 11, kNewestOpset, kAllTypes, lower_unique, work::constant(), sharding::replicated(kData),
       kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
