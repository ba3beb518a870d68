#include "split/obstacles.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "split/plan.h"
#include "split/work.h"

namespace braid::split {

namespace {

constexpr int kMostRanksTried = 64;

// Whether some value that the node reads is computed from a product with weights, without another product in
// between. That is so for queries, keys and values, but not for tables of positions.
bool is_projected(const Graph& graph, const GraphNode& node) {
  std::vector<const GraphNode*> open;
  std::unordered_set<const GraphNode*> seen;
  const auto reach = [&](const GraphNode& reader) {
    for (const ValueId v : reader.inputs) {
      const GraphNode* producer = graph.producer_of(v);
      if (producer != nullptr && seen.insert(producer).second) open.push_back(producer);
    }
  };
  reach(node);
  while (!open.empty()) {
    const GraphNode& next = *open.back();
    open.pop_back();
    const bool is_product = multiplies(next.work.kind);
    if (is_product && has_weights(graph, next)) return true;
    if (!is_product) reach(next);
  }
  return false;
}

bool is_batch_of_product(const Letter& letter) { return letter.name.size() > 1 && letter.name[0] == 'b'; }

}  // namespace

Obstacles::Obstacles(const Graph& graph) {
  std::vector<Need> others;
  for (const GraphNode& node : graph.nodes) {
    if (node.compile_time) continue;
    const Factors& factors = node.factors;
    const WorkKind kind = node.work.kind;
    Need all{plan_name(graph, node), "", "", {}};
    for (const Letter& letter : factors.letters) all.sizes.push_back({letter.size, letter.more_ranks_than});
    const bool attends = kind == WorkKind::attention;
    if (attends || (kind == WorkKind::product && !has_weights(graph, node))) {
      Need need{all.name, "", "", {}};
      for (const Letter& letter : factors.letters) {
        const bool heads = letter.name.ends_with("heads");
        if (attends ? !heads && letter.name != "batch" : !is_batch_of_product(letter)) continue;
        need.sizes.push_back({letter.size, letter.more_ranks_than});
        // The last batch dimension is the heads; an attention's letter says so.
        if (!attends || letter.name == "heads") need.what = fmt::format("{} heads", letter.size);
      }
      if (!need.what.empty() && (attends || is_projected(graph, node))) heads_.push_back(std::move(need));
    }
    if (multiplies(kind) && has_weights(graph, node)) {
      for (const ValueId v : node.inputs) {
        if (!v.valid()) continue;
        const GraphValue& value = graph.values[v];
        if (!value.constant || value.rank() < 2) continue;
        std::vector<std::string> sizes;
        for (const ir::Expr& size : value.sizes) sizes.push_back(ir::to_string(size));
        all.weight = fmt::format("'{}' of {}", value.name, fmt::join(sizes, " x "));
        break;
      }
      products_.push_back(std::move(all));
    } else if (!all.sizes.empty()) {
      others.push_back(std::move(all));
    }
  }
  if (products_.empty()) products_ = std::move(others);
}

bool Obstacles::met(const Need& need, int ranks) {
  return std::any_of(need.sizes.begin(), need.sizes.end(), [&](const Size& s) {
    const bool shared = s.more_ranks_than > 0;
    return s.size > 0 && s.size % ranks == 0 &&
           (!shared || (ranks > s.more_ranks_than && ranks % s.more_ranks_than == 0));
  });
}

std::optional<std::string> Obstacles::of(int ranks) const {
  if (ranks == 1) return std::nullopt;
  for (const Need& need : heads_) {
    if (!met(need, ranks))
      return fmt::format("the {} of '{}' are not divisible by {}", need.what, need.name, ranks);
  }
  if (std::any_of(products_.begin(), products_.end(), [&](const Need& need) { return met(need, ranks); }))
    return std::nullopt;
  if (products_.empty()) return "no rule can split any of its nodes";
  const Need& first = products_.front();
  if (first.weight.empty())
    return fmt::format("no dimension that a rule can split is divisible by {}", ranks);
  return fmt::format("no product has a dimension that {} divides, such as that with {}", ranks, first.weight);
}

std::vector<int> Obstacles::possible() const {
  std::vector<int> numbers;
  for (int ranks = 2; ranks <= kMostRanksTried; ++ranks) {
    if (!of(ranks)) numbers.push_back(ranks);
  }
  return numbers;
}

void require_divisible(const Graph& graph, int ranks) {
  const Obstacles obstacles(graph);
  const std::optional<std::string> why = obstacles.of(ranks);
  if (!why) return;
  const std::vector<int> possible = obstacles.possible();
  ir::user_error(
      errors::kIndivisible, {}, fmt::format("the model cannot be split over {} ranks: {}", ranks, *why),
      possible.empty()
          ? "compile it for one device"
          : fmt::format("these numbers of ranks would do: {}; --devices {} takes the fastest split "
                        "of the rest of the model",
                        fmt::join(possible, ", "), ranks));
}

}  // namespace braid::split
