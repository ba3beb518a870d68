#include "frontend/ops/forest_sums.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "frontend/ops/class_scores.h"
#include "frontend/ops/constant_input.h"

namespace braid::frontend {
namespace {

using Presence = ForestSums::Presence;

// The targets that each leaf of a tree has, and those of which some leaf has one.
struct Leaves {
  std::set<std::int64_t> all, some;
};

Leaves leaves_of(const Forest& forest, std::size_t root, std::vector<std::size_t>& visited,
                 std::size_t stamp) {
  Leaves leaves;
  bool first = true;
  for (std::vector<std::size_t> open = {root}; !open.empty();) {
    const std::size_t at = open.back();
    open.pop_back();
    if (std::exchange(visited[at], stamp) == stamp) continue;
    const ForestNode& node = forest.nodes[at];
    if (node.test) {
      open.push_back(node.on_true);
      open.push_back(node.on_false);
      continue;
    }
    std::set<std::int64_t> own;
    for (const LeafWeight& w : node.weights) own.insert(w.target);
    leaves.some.insert(own.begin(), own.end());
    if (std::exchange(first, false))
      leaves.all = own;
    else
      std::erase_if(leaves.all, [&](std::int64_t target) { return !own.contains(target); });
  }
  return leaves;
}

std::vector<Presence> presence_in(const Forest& forest) {
  std::vector<Presence> presence(static_cast<std::size_t>(forest.targets), Presence::never);
  std::vector<std::size_t> visited(forest.nodes.size(), 0);
  for (std::size_t t = 0; t < forest.roots.size(); ++t) {
    const Leaves leaves = leaves_of(forest, forest.roots[t], visited, t + 1);
    for (const std::int64_t target : leaves.some) {
      Presence& p = presence[static_cast<std::size_t>(target)];
      p = std::max(p, leaves.all.contains(target) ? Presence::always : Presence::sometimes);
    }
  }
  return presence;
}

bool columns_are_features(const std::vector<KeyColumn>& columns) {
  for (std::size_t k = 0; k < columns.size(); ++k) {
    if (columns[k].feature != static_cast<std::int64_t>(k) ||
        columns[k].missing_first != columns[0].missing_first)
      return false;
  }
  return true;
}

// Integers in the order of the numbers, as ordered_key() makes them, with missing values at either end.
ValueId key_of(BodyBuilder& b, ValueId number, ValueId missing) {
  const bool wide = b.dtype(number) == DType::f64;
  const DType type = wide ? DType::i64 : DType::i32;
  const std::int64_t most =
      wide ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
  const ValueId bits = b.bitcast(number, type);
  const ValueId sign = b.binary(OpCode::shift_right, bits, b.constant(type, std::int64_t{wide ? 63 : 31}));
  const ValueId key =
      b.binary(OpCode::bit_xor, bits, b.binary(OpCode::bit_and, sign, b.constant(type, most)));
  const ValueId zero = b.binary(OpCode::eq, number, b.constant_of(b.dtype(number), 0));
  const ValueId ordered = b.where(zero, b.constant(type, std::int64_t{0}), key);
  return b.where(b.unary(OpCode::is_nan, number), missing, ordered);
}

TensorBox keys_of(OpContext& c, const TensorBox& x, const std::vector<KeyColumn>& columns) {
  ir::Lowering& l = c.lowering();
  const DType type = x.dtype() == DType::f64 ? DType::i64 : DType::i32;
  const auto count = static_cast<std::int64_t>(columns.size());
  const auto missing = [&](bool first) -> std::int64_t {
    if (type == DType::i64)
      return first ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
    return first ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int32_t>::max();
  };
  if (columns_are_features(columns)) {
    return l.generate({x.sizes()[0], count}, [&](BodyBuilder& b, std::span<const Expr> at) {
      return key_of(b, l.load(b, x, at), b.constant(type, missing(columns[0].missing_first)));
    });
  }
  std::vector<std::int64_t> features, places;
  for (const KeyColumn& column : columns) {
    features.push_back(column.feature);
    places.push_back(missing(column.missing_first));
  }
  const std::string& name = c.op_type();
  const TensorBox feature =
      l.constant(name + "_features", DType::i64, {count}, integer_tensor(DType::i64, {count}, features).data);
  const TensorBox place =
      l.constant(name + "_missing", type, {count}, integer_tensor(type, {count}, places).data);
  return l.generate({x.sizes()[0], count}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const std::array<Expr, 1> column = {at[1]};
    const std::array<Expr, 2> from = {at[0], b.as_index(l.load(b, feature, column))};
    return key_of(b, l.load(b, x, from), l.load(b, place, column));
  });
}

TensorBox words(OpContext& c, const char* what, std::vector<std::int64_t> sizes,
                const std::vector<std::int32_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return c.lowering().constant(c.op_type() + what, DType::i32, std::move(sizes),
                               ir::own_bytes({bytes.begin(), bytes.end()}));
}

// The count of a target's weights is infinite or 0 if there are none.
ValueId is_counted(Real count) {
  return count.b->binary(OpCode::logical_and, literal(count, 0.5) <= count,
                         count < literal(count, std::numeric_limits<double>::infinity()));
}

std::string name_of(ForestAggregate aggregate) {
  return aggregate == ForestAggregate::min ? "min" : aggregate == ForestAggregate::max ? "max" : "sum";
}

}  // namespace

ForestSums::ForestSums(OpContext& c, Forest forest, ForestAggregate aggregate, bool tells_missing)
    : l_(c.lowering()), real_(forest.real), targets_(forest.targets), presence_(presence_in(forest)) {
  if (aggregate == ForestAggregate::average) divisor_ = static_cast<double>(forest.roots.size());
  counts_.assign(presence_.size(), -1);
  const bool extreme = aggregate == ForestAggregate::min || aggregate == ForestAggregate::max;
  for (std::size_t k = 0; k < presence_.size(); ++k) {
    if (presence_[k] == Presence::sometimes && (tells_missing || extreme)) counts_[k] = forest.targets++;
  }
  for (ForestNode& node : forest.nodes) {
    const std::size_t own = node.weights.size();
    for (std::size_t k = 0; k < own; ++k) {
      const std::int64_t count = counts_[static_cast<std::size_t>(node.weights[k].target)];
      if (count >= 0) node.weights.push_back({count, 1});
    }
  }
  const TensorBox x = feature_rows(c, real_);
  rows_ = x.sizes()[0];
  l_.require_at_most(forest.features(), x.sizes()[1]);
  const ForestLayout layout = lay_out_forest(c, forest, aggregate, is_float(c.dtype(0)));
  const auto size = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  const bool reads_nothing = forest.features() == 0;
  const DType key = real_ == DType::f64 ? DType::i64 : DType::i32;
  const TensorBox keys = reads_nothing ? l_.full({rows_, 1}, key, 0) : keys_of(c, x, layout.columns);
  sums_ = l_.extern_call(
      "tree_ensemble",
      {keys, words(c, "_nodes", {size(layout.nodes)}, layout.nodes),
       words(c, "_trees", {size(forest.roots), size(layout.trees) / size(forest.roots)}, layout.trees),
       constant_table(c, c.op_type() + "_weights", real_, {size(layout.weights)}, layout.weights)},
      {{real_, {rows_, forest.targets}}}, {{"aggregate", name_of(aggregate)}})[0];
}

Real ForestSums::load(BodyBuilder& b, const Expr& row, std::int64_t column) const {
  return {&b, l_.load(b, sums_, std::array<Expr, 2>{row, column})};
}

Real ForestSums::value(BodyBuilder& b, const Expr& row, std::int64_t target) const {
  const Real sum = load(b, row, target);
  if (presence(target) == Presence::never) return literal(sum, 0);
  const Real value = divisor_ == 1 ? sum : sum / divisor_;
  if (counts_[static_cast<std::size_t>(target)] < 0) return value;
  return select(present(b, row, target), value, literal(value, 0));
}

ValueId ForestSums::present(BodyBuilder& b, const Expr& row, std::int64_t target) const {
  if (presence(target) != Presence::sometimes)
    return b.constant(DType::boolean, std::int64_t{presence(target) == Presence::always});
  return is_counted(load(b, row, counts_[static_cast<std::size_t>(target)]));
}

TensorBox ForestSums::where_present(const TensorBox& values, double otherwise) const {
  // By target: the column of its count, or whether it is always there.
  constexpr std::int64_t kAlways = -1, kNever = -2;
  std::vector<std::int64_t> column;
  for (std::size_t k = 0; k < presence_.size(); ++k)
    column.push_back(presence_[k] == Presence::never ? kNever : counts_[k] < 0 ? kAlways : counts_[k]);
  if (std::all_of(column.begin(), column.end(), [](std::int64_t k) { return k == kAlways; })) return values;
  const std::vector<std::int64_t> sizes = {targets_};
  const TensorBox columns =
      l_.constant("count_columns", DType::i64, sizes, integer_tensor(DType::i64, sizes, column).data);
  return l_.generate({rows_, targets_}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId number = l_.load(b, columns, std::array<Expr, 1>{at[1]});
    const ValueId none = b.constant(DType::i64, std::int64_t{0});
    const Expr place = b.as_index(b.binary(OpCode::max, number, none));
    const ValueId counted = is_counted({&b, l_.load(b, sums_, std::array<Expr, 2>{at[0], place})});
    const ValueId always = b.binary(OpCode::eq, number, b.constant(DType::i64, kAlways));
    const Real value{&b, l_.load(b, values, at)};
    const ValueId here = b.where(b.binary(OpCode::ge, number, none), counted, always);
    return select(here, value, literal(value, otherwise)).v;
  });
}

TensorBox ForestSums::all() const {
  const TensorBox own = l_.slice(sums_, 1, 0, targets_);
  if (divisor_ == 1) return where_present(own, 0);
  const TensorBox values = l_.pointwise({own}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return (Real{&b, v[0]} / divisor_).v;
  });
  return where_present(values, 0);
}

}  // namespace braid::frontend
