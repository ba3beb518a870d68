#include "solver/places.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "ir/error.h"
#include "solver/minimise.h"

namespace braid::solver {

namespace {

class TableNumbers {
 public:
  TableNumber of(const std::vector<Cost>& costs) {
    const std::uint64_t hash = hash_of(costs);
    const auto [begin, end] = known_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
      if (*known->second.first == costs) return known->second.second;
    }
    const auto number = ir::id_at<TableNumber>(known_.size());
    known_.emplace(hash, std::pair(&costs, number));
    return number;
  }
  TableNumber of(const CostTable& table) {
    const auto [known, fresh] = by_address_.try_emplace(table.address());
    if (fresh) known->second = of(table.costs());
    return known->second;
  }

 private:
  std::unordered_multimap<std::uint64_t, std::pair<const std::vector<Cost>*, TableNumber>> known_;
  std::unordered_map<const void*, TableNumber> by_address_;
};

// The own costs of a place and its tables, whatever the other ends are.
struct Content {
  TableNumber own;
  std::vector<std::pair<TableNumber, bool>> tables;  // ascending; whether the edge begins at the other end
  friend bool operator==(const Content&, const Content&) = default;
};
struct HashOfContent {
  std::size_t operator()(const Content& content) const {
    std::uint64_t hash = content.tables.size();
    const auto add = [&](std::uint64_t more) { hash = (hash ^ more ^ (hash >> 29)) * 0x9e3779b97f4a7c15u; };
    for (const auto& [table, from] : content.tables) add(2 * ir::offset_of(table) + (from ? 1 : 0));
    add(ir::offset_of(content.own));
    return hash;
  }
};

}  // namespace

Places::Places(const Problem& problem)
    : problem_(problem), variables_(problem.order), places_(problem.variables.ids()) {
  if (variables_.empty()) {
    const IdRange<VariableId> all = problem.variables.ids();
    variables_.assign(all.begin(), all.end());
  }
  ir::internal_check(variables_.size() == problem.variables.size(), "an order of {} of {} variables",
                     variables_.size(), problem.variables.size());
  for (const Place p : ids()) places_[variables_[p]] = p;
  first_end_.assign(variables_.size() + 1, 0);
  for (const Edge& edge : problem.edges)
    for (const VariableId v : {edge.from, edge.to}) ++first_end_[places_[v] + 1];
  std::partial_sum(first_end_.begin(), first_end_.end(), first_end_.begin());
  ends_.resize(first_end_.back());
  IdVector<Place, std::size_t> next = first_end_;
  TableNumbers numbers;
  for (const EdgeId e : problem.edges.ids()) {
    const Edge& edge = problem.edges[e];
    const TableNumber table = numbers.of(edge.costs);
    const Place a = places_[edge.from], b = places_[edge.to];
    ends_[next[a]++] = {b, table, e, false};
    ends_[next[b]++] = {a, table, e, true};
  }
  std::unordered_map<Content, PlaceKind, HashOfContent> kinds;
  Content content;
  kinds_.reserve(variables_.size());
  for (const Place p : ids()) {
    content.own = numbers.of(costs(p));
    content.tables.clear();
    for (const End& end : ends(p)) content.tables.push_back({end.table, end.from});
    std::ranges::sort(content.tables);
    kinds_.push_back(kinds.try_emplace(content, ir::id_at<PlaceKind>(kinds.size())).first->second);
  }
}

}  // namespace braid::solver
