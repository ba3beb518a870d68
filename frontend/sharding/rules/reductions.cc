// Reductions: dimensions that stay pass; a dimension that is reduced leaves partial results where the reduction is a sum, a
// product, a maximum or a minimum.
#include <algorithm>
#include <numeric>

#include "frontend/sharding/local.h"

namespace braid::frontend::sharding {
namespace {

using ir::ReduceKind;

// nullopt: unknown while compiling.
std::optional<std::set<int>> reduced_axes(const NodeView& node) {
  const int rank = node.rank(0);
  const auto given = node.ints_of("axes", 1);
  if (!given && node.has_input(1)) return std::nullopt;
  std::set<int> axes;
  if (given && !given->empty()) {
    for (const std::int64_t a : *given) axes.insert(NodeView::axis(a, rank));
  } else if (node.int_attribute("noop_with_empty_axes", 0) == 0) {
    for (int d = 0; d < rank; ++d) axes.insert(d);
  }
  return axes;
}

// Letters of the dimensions: those kept pass to output `index`, reduced ones have `reduce`, if it is given.
std::vector<Letter> letters(const NodeView& node, const std::set<int>& axes, bool keep,
                            std::optional<ReduceKind> reduce) {
  std::vector<Letter> result;
  int to = 0;
  for (int d = 0; d < node.rank(0); ++d) {
    const bool reduced = axes.count(d) > 0;
    const int own = to;
    if (!reduced || keep) ++to;
    if (reduced && !reduce) continue;
    std::optional<Letter> letter = letter_of(node.size(0, d), (reduced ? "r" : "d") + std::to_string(d));
    if (!letter) continue;
    letter->at = {in(0, d)};
    if (reduced) {
      letter->reduce = reduce;
    } else {
      letter->at.push_back(out(0, own));
    }
    result.push_back(std::move(*letter));
  }
  return result;
}

bool keeps(const NodeView& node) { return node.int_attribute("keepdims", 1) != 0; }

// Partial results: f is applied to elements before they are summed.
Factors partial(const NodeView& node, const Rule& rule) {
  const auto axes = reduced_axes(node);
  if (!axes) return {};
  Factors f{letters(node, *axes, keeps(node), rule.reduce), {}};
  // A pending input passes if it is of the same reduction and nothing is applied to elements first.
  const bool plain = node.op() != "ReduceL1" && node.op() != "ReduceSumSquare";
  const bool rounds = node.op() == "ReduceMean" && !is_float(node.output(0).dtype);
  if (rounds) std::erase_if(f.letters, [](const Letter& l) { return l.reduce.has_value(); });
  if (plain && !rounds) f.linear = {{{0}, {rule.reduce}}};
  return f;
}

// A function of the whole sum: only dimensions that stay.
Factors whole(const NodeView& node, const Rule&) {
  const auto axes = reduced_axes(node);
  if (!axes) return {};
  return {letters(node, *axes, keeps(node), std::nullopt), {}};
}

// The mean over a part is divided by the number of ranks: their sum is the mean over all.
void write_mean(LocalNode& local) {
  if (local.letter == nullptr || !local.letter->reduce) {
    local.emit();
    return;
  }
  const std::string result = local.outputs[0];
  local.outputs[0] = local.model.fresh(local.name("part"));
  local.emit();
  const std::string ranks = local.model.number(result + "/ranks", local.view.output(0).dtype, local.ranks());
  local.model.add_node("", "Div", {local.outputs[0], ranks}, {result});
}

Factors index_of_extreme(const NodeView& node, const Rule&) {
  const std::set<int> axes = {NodeView::axis(node.int_attribute("axis", 0), node.rank(0))};
  return {letters(node, axes, keeps(node), std::nullopt), {}};
}

// Values and indices, both with the axis changed.
Factors top_k(const NodeView& node, const Rule&) {
  Factors f{broadcast_letters(node, {0}, {NodeView::axis(node.int_attribute("axis", -1), node.rank(0))}), {}};
  for (Letter& letter : f.letters) letter.at.push_back(out(1, letter.at[0].dim));
  return f;
}

// All dimensions but one or more, which are normalised or scanned as a whole.
Factors along_axis(const NodeView& node, const Rule&) {
  const int rank = node.rank(0);
  std::set<int> whole;
  const bool softmax = node.op() != "CumSum" && node.op() != "CumProd" && node.op() != "LpNormalization";
  if (softmax && node.version() < 13) {
    const std::int64_t axis = node.int_attribute("axis", 1);
    for (int d = static_cast<int>(axis < 0 ? axis + rank : axis); d < rank; ++d) whole.insert(d);
  } else if (node.op() == "CumSum" || node.op() == "CumProd") {
    const auto axis = node.known_ints(1);
    if (!axis || axis->size() != 1) return {};
    whole.insert(NodeView::axis(axis->at(0), rank));
  } else {
    whole.insert(NodeView::axis(node.int_attribute("axis", -1), rank));
  }
  return {broadcast_letters(node, {0}, whole), {}};
}

// Sums over spatial dimensions: batch and channels pass.
Factors batch_and_channels(const NodeView& node, const Rule&) {
  std::set<int> spatial;
  for (int d = 2; d < node.rank(0); ++d) spatial.insert(d);
  return {broadcast_letters(node, {0}, spatial), {}};
}

constexpr const char* kWhole =
    "a reduced dimension stays whole: a function is applied to the whole sum (spell the operator out to "
    "split it)";
constexpr const char* kAxis = "the axis stays whole";

const Rule kRules[] = {
    {"", "ReduceL1", partial},
    {"", "ReduceL2", whole, Pending::none, nullptr, kWhole},
    {"", "ReduceLogSum", whole, Pending::none, nullptr, kWhole},
    {"", "ReduceLogSumExp", whole, Pending::none, nullptr, kWhole},
    {"", "ReduceMax", partial, Pending::none, nullptr, "", ReduceKind::max},
    {"", "ReduceMean", partial, Pending::none, write_mean},
    {"", "ReduceMin", partial, Pending::none, nullptr, "", ReduceKind::min},
    {"", "ReduceProd", partial, Pending::none, nullptr, "", ReduceKind::prod},
    {"", "ReduceSum", partial},
    {"", "ReduceSumSquare", partial},
    {"", "ArgMax", index_of_extreme, Pending::none, nullptr, kAxis},
    {"", "ArgMin", index_of_extreme, Pending::none, nullptr, kAxis},
    {"", "TopK", top_k, Pending::none, nullptr, kAxis},
    {"", "Softmax", along_axis, Pending::none, nullptr, kAxis},
    {"", "LogSoftmax", along_axis, Pending::none, nullptr, kAxis},
    {"", "Hardmax", along_axis, Pending::none, nullptr, kAxis},
    {"", "CumSum", along_axis, Pending::none, nullptr, kAxis},
    {"", "CumProd", along_axis, Pending::none, nullptr, kAxis},
    {"", "LpNormalization", along_axis, Pending::none, nullptr, kAxis},
    {"", "GlobalAveragePool", batch_and_channels},
    {"", "GlobalLpPool", batch_and_channels},
    {"", "GlobalMaxPool", batch_and_channels},
};

}  // namespace

std::span<const Rule> reduction_rules() { return kRules; }

}  // namespace braid::frontend::sharding
