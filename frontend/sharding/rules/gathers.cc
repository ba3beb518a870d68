// Elements chosen and written by index. Rows of a table may be split: each rank looks up the rows that it has
// and gives zeros for the others, which leaves a sum. An index out of range stays an error.
#include <algorithm>

#include "frontend/sharding/local.h"

namespace braid::frontend::sharding {
namespace {

int axis_of(const NodeView& node, std::int64_t fallback = 0) {
  return NodeView::axis(node.int_attribute("axis", fallback), node.rank(0));
}

Factors gather(const NodeView& node, const Rule& rule) {
  Factors f;
  const int axis = axis_of(node), q = node.rank(1);
  for (int d = 0; d < node.rank(0); ++d) {
    if (d != axis)
      add(f, node.size(0, d), "d" + std::to_string(d), {in(0, d), out(0, d < axis ? d : d + q - 1)});
  }
  f = padded(std::move(f));
  for (int d = 0; d < q; ++d) add(f, node.size(1, d), "i" + std::to_string(d), {in(1, d), out(0, axis + d)});
  // Where is for all types from operator set 9 on, and a known index is a view rather than a look-up.
  constexpr int kWhere = 9;
  const ir::DType type = node.input(0).dtype;
  if (node.version() >= kWhere && type != ir::DType::boolean && !is_storage(type) &&
      !node.input(1).elements) {
    if (std::optional<Letter> rows = letter_of(node.size(0, axis), "rows")) {
      rows->at = {in(0, axis)};
      rows->reduce = ir::ReduceKind::sum;
      rows->blocked = false;
      rows->padded = true;
      f.letters.push_back(std::move(*rows));
    }
  }
  f.linear = linear_of(node, rule.pending);
  return f;
}

void write_gather(LocalNode& local) {
  const NodeView& view = local.view;
  if (local.letter == nullptr || local.letter->name != "rows") {
    local.emit();
    return;
  }
  LocalModel& m = local.model;
  const int axis = axis_of(view), rank = view.rank(0);
  const std::int64_t rows = view.size(0, axis).constant(), part = part_of(rows, local.ranks());
  const ir::DType type = view.input(1).dtype;
  const auto number = [&](const char* name, std::int64_t value) {
    return m.integers(local.name(name), type, {}, {value});
  };
  std::vector<std::vector<std::int64_t>> firsts;
  for (int r = 0; r < local.ranks(); ++r) firsts.push_back({r * part});
  const std::string index = local.inputs[1], zero = number("zero", 0), all = number("rows", rows);
  const std::string first = m.integers_of_rank(local.name("first"), type, {}, firsts);
  const auto compute = [&](const char* op, const std::vector<std::string>& inputs, const char* name) {
    return m.compute(op, inputs, local.name(name));
  };
  const std::string negative = compute("Less", {index, zero}, "negative");
  const std::string from_end = compute("Add", {index, all}, "from_end");
  const std::string row = compute("Where", {negative, from_end, index}, "row");
  const std::string own = compute("Sub", {row, first}, "own");
  const std::string before = compute("Less", {own, zero}, "before");
  const std::string after_begin = compute("Not", {before}, "after_begin");
  const std::string before_end = compute("Less", {own, number("part", part)}, "before_end");
  const std::string mine = compute("And", {after_begin, before_end}, "mine");
  // An index out of range goes to the look-up as it is, and lies outside of this rank's rows too.
  const std::string below = compute("Less", {row, zero}, "below");
  const std::string inside = compute("Less", {row, all}, "inside");
  const std::string above = compute("Not", {inside}, "above");
  const std::string wrong = compute("Or", {below, above}, "wrong");
  const std::string other = compute("Where", {wrong, index, zero}, "other");
  local.inputs[1] = compute("Where", {mine, own, other}, "index");
  const std::string result = local.outputs[0];
  local.outputs[0] = m.fresh(local.name("found"));
  local.emit();
  // The mask has the dimensions of the indices: those of the data after the axis follow.
  std::string mask = mine;
  std::vector<std::int64_t> added;
  for (int d = 0; d < rank - 1 - axis; ++d) added.push_back(view.rank(1) + d);
  if (!added.empty()) mask = m.unsqueezed(mine, added, result + "/mask");
  const std::string nothing = m.number(result + "/nothing", view.input(0).dtype, 0);
  m.add_node("", "Where", {mask, local.outputs[0], nothing}, {result});
}

// Along the other dimensions an element of the indices reads at its own place.
Factors gather_elements(const NodeView& node, const Rule& rule) {
  Factors f;
  for (int d = 0; d < node.rank(0); ++d) {
    if (d == axis_of(node)) {
      add(f, node.size(1, d), "i" + std::to_string(d), {in(1, d), out(0, d)});
    } else if (same(node.size(0, d), node.size(1, d))) {
      add(f, node.size(0, d), "d" + std::to_string(d), {in(0, d), in(1, d), out(0, d)});
    }
  }
  f.linear = linear_of(node, rule.pending);
  return f;
}

Factors scatter_elements(const NodeView& node, const Rule&) {
  Factors f;
  for (int d = 0; d < node.rank(0); ++d) {
    if (d != axis_of(node) && same(node.size(0, d), node.size(1, d)))
      add(f, node.size(0, d), "d" + std::to_string(d), {in(0, d), in(1, d), in(2, d), out(0, d)});
  }
  return f;
}

// A vector of indices names a slice of the data, within its batch.
Factors gather_nd(const NodeView& node, const Rule& rule) {
  Factors f;
  const int q = node.rank(1);
  const auto length = static_size(node.size(1, q - 1));
  if (!length) return f;
  const int batch = node.int_attribute("batch_dims", 0);
  for (int d = 0; d < q - 1; ++d) {
    if (d >= batch) {
      add(f, node.size(1, d), "i" + std::to_string(d), {in(1, d), out(0, d)});
    } else if (same(node.size(0, d), node.size(1, d))) {
      add(f, node.size(1, d), "b" + std::to_string(d), {in(0, d), in(1, d), out(0, d)});
    }
  }
  const int first = batch + *length;
  for (int d = first; d < node.rank(0); ++d)
    add(f, node.size(0, d), "d" + std::to_string(d), {in(0, d), out(0, q - 1 + d - first)});
  f.linear = linear_of(node, rule.pending);
  return f;
}

Factors scatter_nd(const NodeView& node, const Rule&) {
  Factors f;
  const int q = node.rank(1);
  const auto length = static_size(node.size(1, q - 1));
  if (!length) return f;
  const int first = *length;
  for (int d = first; d < node.rank(0); ++d)
    add(f, node.size(0, d), "d" + std::to_string(d), {in(0, d), in(2, q - 1 + d - first), out(0, d)});
  return f;
}

// A cache into which each row of the batch writes along the axis.
Factors tensor_scatter(const NodeView& node, const Rule&) {
  Factors f;
  for (int d = 0; d < node.rank(0); ++d) {
    if (d == axis_of(node, -2) || !same(node.size(0, d), node.size(1, d))) continue;
    std::vector<Occurrence> at = {in(0, d), in(1, d), out(0, d)};
    if (d == 0 && node.has_input(2)) at.push_back(in(2, 0));
    add(f, node.size(0, d), "d" + std::to_string(d), std::move(at));
  }
  return f;
}

// The new dimension stays whole.
Factors one_hot(const NodeView& node, const Rule&) {
  Factors f;
  const int rank = node.output(0).rank(), axis = NodeView::axis(node.int_attribute("axis", -1), rank);
  for (int d = 0; d < node.rank(0); ++d)
    add(f, node.size(0, d), "i" + std::to_string(d), {in(0, d), out(0, d < axis ? d : d + 1)});
  return f;
}

Factors reverse_sequence(const NodeView& node, const Rule& rule) {
  Factors f;
  const int rank = node.rank(0);
  const int time = NodeView::axis(node.int_attribute("time_axis", 0), rank);
  const int batch = NodeView::axis(node.int_attribute("batch_axis", 1), rank);
  for (int d = 0; d < rank; ++d) {
    if (d == time) continue;
    std::vector<Occurrence> at = {in(0, d), out(0, d)};
    if (d == batch) at.push_back(in(1, 0));
    add(f, node.size(0, d), "d" + std::to_string(d), std::move(at));
  }
  f.linear = linear_of(node, rule.pending);
  return f;
}

// The number of slices that are kept depends on values; the other dimensions pass. Without an axis the
// elements are one row.
Factors compress(const NodeView& node, const Rule& rule) {
  if (node.attribute("axis") == nullptr) return {};
  Factors f;
  for (int d = 0; d < node.rank(0); ++d) {
    if (d != axis_of(node)) add(f, node.size(0, d), "d" + std::to_string(d), {in(0, d), out(0, d)});
  }
  f.linear = linear_of(node, rule.pending);
  return f;
}

constexpr Pending kAny = Pending::any;

}  // namespace

namespace rule {
constexpr Rule kCompress = {compress, kAny, nullptr, "the number of results depends on values"};
constexpr Rule kGather = {gather, kAny, write_gather};
constexpr Rule kGatherElements = {gather_elements, kAny, nullptr, "the axis of the data stays whole"};
constexpr Rule kGatherNd = {gather_nd, kAny, nullptr, "indexed dimensions of the data stay whole"};
constexpr Rule kOneHot = {one_hot};
constexpr Rule kReverseSequence = {reverse_sequence, kAny, nullptr, "the time axis stays whole"};
constexpr Rule kScatterElements = {scatter_elements, Pending::none, nullptr, "the axis stays whole"};
constexpr Rule kScatterNd = {scatter_nd, Pending::none, nullptr, "indexed dimensions stay whole"};
constexpr Rule kTensorScatter = {tensor_scatter, Pending::none, nullptr,
                                 "the axis that is written along stays whole"};
}  // namespace rule

}  // namespace braid::frontend::sharding
