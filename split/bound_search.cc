#include "split/bound_search.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>

#include "split/candidates.h"
#include "split/kernel_floors.h"
#include "split/machine_costs.h"
#include "split/work.h"

namespace braid::split {

namespace {

using analysis::KernelClass;

constexpr Cost kParts = 64;  // weights are multiples of one part

// Chooses weights of rows, in parts that add up to kParts, so that the least mean over the plans is as large
// as possible: fictitious play.
std::vector<Cost> best_weights(const std::vector<std::vector<double>>& value) {  // [row][plan]
  const std::size_t rows = value.size(), plans = value[0].size();
  std::vector<double> of_row(rows, 0), of_plan(plans, 0);
  std::vector<std::int64_t> taken(rows, 0);
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t row = std::ranges::max_element(of_row) - of_row.begin();
    ++taken[row];
    for (std::size_t p = 0; p < plans; ++p) of_plan[p] += value[row][p];
    const std::size_t plan = std::ranges::min_element(of_plan) - of_plan.begin();
    for (std::size_t r = 0; r < rows; ++r) of_row[r] += value[r][plan];
  }
  std::vector<Cost> weights(rows, 0);
  Cost left = kParts;
  for (std::size_t r = 0; r < rows; ++r) {
    weights[r] = taken[r] * kParts / kRounds;
    left -= weights[r];
  }
  *std::max_element(weights.begin(), weights.end()) += left;
  return weights;
}

SplitCosts floors_of(const std::shared_ptr<const analysis::CostModel>& costs,
                     std::function<Cost(const ConversionStep& step, int ranks)> collective) {
  SplitCosts floors;
  floors.size = [costs](const ir::Expr& size) { return costs->value(size); };
  floors.key = [](const Graph&, const GraphNode&) { return WorkId{0}; };
  floors.of_key = [](WorkId, Combination, const Mesh&) { return Cost{0}; };
  floors.step = [collective = std::move(collective)](const ConversionStep& step, int ranks) {
    return ranks > 1 && moves_between_ranks(step.kind) ? collective(step, ranks) : 0;
  };
  return with_memory(std::move(floors));
}

// A lower bound on this part of the cost of a program's conversions, with any kernels and memory
// (passes/select_kernels.h).
SplitCosts least_of(const std::shared_ptr<const analysis::CostModel>& costs,
                    analysis::Time analysis::CollectiveCost::*what) {
  return floors_of(costs, [costs, what](const ConversionStep& step, int ranks) {
    using ir::Algorithm;
    analysis::Time least = analysis::Time::max();
    for (const bool symmetric : {false, true}) {
      for (const Algorithm algorithm : {Algorithm::unasked, Algorithm::one_shot, Algorithm::two_shot,
                                        Algorithm::ring, Algorithm::library})
        least = std::min(least, collective_cost(*costs, step, ranks, symmetric, algorithm).*what);
    }
    return least.ps;
  });
}

// Whether it has a second factor, whose parts KernelParts::input counts.
bool has_second(const GraphNode& node) { return node.work.b >= 0 && node.work.b < count_of(node.inputs); }

}  // namespace

BoundSearch::BoundSearch(const Graph& graph, const SplitSpace& space,
                         std::shared_ptr<const analysis::CostModel> costs, BoundOptions options)
    : space_(space),
      options_(std::move(options)),
      nodes_(space.node_variables()),
      passages_(space.passages(true, options_.cells)),
      prices_(space, least_of(costs, &analysis::CollectiveCost::time)),
      floors_(space, least_of(costs, &analysis::CollectiveCost::floor)) {
  launch_ = static_cast<Cost>(costs->machine().launch_us * 1e6 * (1 - 1e-9));
  SplitCosts sizes;
  sizes.size = [costs](const ir::Expr& size) { return costs->value(size); };
  collectives_ = floors_.problem(true, options_.cells);
  find_kernels(graph, *costs, sizes);
  connect(graph, *costs, sizes);
  none_ = may_leave_out(graph);
  find_distinct();
  find_joins(graph);
  count_loops();
  find_chain();
}

void BoundSearch::find_kernels(const Graph& graph, const analysis::CostModel& costs,
                               const SplitCosts& sizes) {
  const KernelFloors kernels(costs, graph, sizes, options_);
  const Mesh& mesh = space_.mesh();
  // All that the floor of a choice depends on, of equal nodes once.
  struct Parts {
    std::vector<KernelParts> distinct;
    std::vector<std::size_t> of;  // per choice
  };
  std::map<const void*, Parts> parts_of;  // by the choices of nodes
  std::map<std::pair<const void*, std::vector<Cost>>, CostTable> known;
  for (const VariableId v : nodes_) {
    const GraphNode& node = graph.nodes[space_.node_of(v)];
    const auto [own_parts, new_choices] = parts_of.try_emplace(space_.address_of_choices(v));
    Parts& parts = own_parts->second;
    for (const ChoiceId c : space_.choices_of(v)) {
      if (!new_choices) break;
      const Combination axes = space_.combination(v, c);
      const KernelParts own = {parts_of_work(axes, mesh),
                               has_second(node) ? parts_of_input(axes, mesh, node.work.b) : 1,
                               node.outputs.empty() ? 1 : parts_of_output(axes, mesh, 0)};
      const auto same = std::ranges::find(parts.distinct, own);
      parts.of.push_back(same - parts.distinct.begin());
      if (same == parts.distinct.end()) parts.distinct.push_back(own);
    }
    std::vector<Cost> floors;
    for (const KernelParts& own : parts.distinct) floors.push_back(kernels(node, own));
    const auto [entry, fresh] = known.try_emplace({space_.address_of_choices(v), std::move(floors)});
    if (fresh) {
      for (const std::size_t part : parts.of) entry->second.edit().push_back(entry->first.second[part]);
    }
    const CostTable& own = kernels_.emplace_back(entry->second);
    reduction_.push_back(reduces(graph, node, sizes, mesh.ranks()) ? 1 : 0);
    product_.push_back(is_own_kernel(graph, node) || multiplies_computed(graph, node) ? 1 : 0);
    copy_.push_back(product_.back() == 0 && *std::ranges::max_element(own) > 0 ? 1 : 0);
  }
  while (kernels_.size() < collectives_.variables.size()) {
    const std::size_t choices = collectives_.variables[kernels_.end_id()].size();
    kernels_.push_back(std::vector<Cost>(choices, 0));
  }
}

void BoundSearch::connect(const Graph& graph, const analysis::CostModel& costs, const SplitCosts& sizes) {
  into_.assign(nodes_, {});
  out_of_.assign(nodes_, {});
  copies_.assign(passages_.ids(), 0);
  const VariableId caches = *nodes_.end();
  for (const PassageId p : passages_.ids()) {
    Passage& passage = passages_[p];
    // The result of a collective lies in the segment, and a kernel copies it into the memory of the program's
    // output.
    if (!passage.reader.valid()) {
      const double bytes = local_bytes(graph.values[passage.value], sizes, 1);
      const double us = costs.machine().launch_us +
                        bytes_us(costs.machine(), 2 * bytes,
                                 {KernelClass::copy, KernelClass::elementwise, KernelClass::gather});
      copies_[p] = static_cast<Cost>(us * 1e6 * (1 - 1e-9));
    }
    // State kept between steps counts as an ordinary input and output.
    if (passage.producer >= caches) passage.producer = {};
    if (passage.reader >= caches) passage.reader = {};
    if (passage.reader.valid()) into_[passage.reader].push_back(p);
    if (passage.producer.valid()) out_of_[passage.producer].push_back(p);
  }
}

void BoundSearch::relax(std::size_t cells) {
  const IdVector<PassageId, Passage> passages = space_.passages(true, cells);
  for (const PassageId p : passages.ids()) passages_[p].free = passages[p].free;
  collectives_ = floors_.problem(true, cells);
  find_distinct();
}

// Equal nodes have equal ones.
void BoundSearch::find_distinct() {
  distinct_.assign(kernels_.ids(), nullptr);
  if (!space_.large()) return;
  IdVector<VariableId, std::vector<States>> states(
      nodes_);  // in which conversions that count see the choices
  for (const Passage& passage : passages_) {
    if (passage.free) continue;
    const auto add = [&](VariableId v, States seen) {
      if (v.valid() && v < states.end_id() && std::ranges::find(states[v], seen) == states[v].end())
        states[v].push_back(seen);
    };
    add(passage.from, passage.given ? passage.taken : passage.produced);
    add(passage.to, passage.taken);
  }
  struct Node {
    const void* choices;
    const std::vector<States>* states;
    const void *kernels, *collectives;
    bool operator<(const Node& other) const {
      return std::tie(choices, kernels, collectives, *states) <
             std::tie(other.choices, other.kernels, other.collectives, *other.states);
    }
  };
  std::map<Node, std::shared_ptr<const IdVector<ChoiceId, ChoiceId>>> known;
  for (const VariableId v : nodes_) {
    const CostTable &kernels = kernels_[v], &collectives = collectives_.variables[v];
    const auto [entry, fresh] = known.try_emplace(
        Node{space_.address_of_choices(v), &states[v], kernels.address(), collectives.address()}, nullptr);
    if (fresh) {
      std::set<std::vector<std::int64_t>> seen;
      IdVector<ChoiceId, ChoiceId> first;
      for (const ChoiceId c : space_.choices_of(v)) {
        std::vector<std::int64_t> own = {kernels[c], collectives[c]};
        for (const States list : states[v]) own.push_back((*list)[c].index);
        if (seen.insert(std::move(own)).second) first.push_back(c);
      }
      if (first.size() < kernels.size())
        entry->second = std::make_shared<const IdVector<ChoiceId, ChoiceId>>(std::move(first));
    }
    distinct_[v] = entry->second;
  }
}

BoundSearch::Plan BoundSearch::plan(const Assignment& choice, bool all) {
  Plan plan{choice, {}, {}, price(collectives_, choice)};
  for (const VariableId v : nodes_) plan.kernels.push_back(kernels_[v][choice[v]]);
  for (const PassageId p : passages_.ids()) {
    const Passage& passage = passages_[p];
    Cost cost = 0;
    if (all || !passage.free)
      cost = prices_.of(passage, choice[passage.from], passage.to.valid() ? choice[passage.to] : ChoiceId{});
    plan.passages.push_back(cost > 0 ? cost + copies_[p] : 0);
  }
  return plan;
}

Cost BoundSearch::value(const Row& row, const Plan& plan) const {
  Cost sum = row.constant;
  if (row.kernels) {
    for (const Cost cost : plan.kernels) sum += cost;
  }
  if (row.collectives) sum += plan.collectives;
  for (const VariableId v : row.nodes) sum += plan.kernels[v];
  for (const PassageId p : row.passages) sum += plan.passages[p];
  return sum;
}

namespace {

// A sum of multiples of costs; forbidden if one of them is.
Cost mix(Cost a, Cost weight_a, Cost b, Cost weight_b) {
  return a == kForbidden || b == kForbidden ? kForbidden : a * weight_a + b * weight_b;
}

}  // namespace

// A weighted sum of rows as a problem over distinct choices. Equal layers share tables.
class BoundSearch::Mixture {
 public:
  Mixture(const BoundSearch& search, const std::vector<Row>& rows, const std::vector<Cost>& weights)
      : s_(search), of_node_(s_.kernels_.ids(), 0), of_passage_(s_.passages_.ids(), 0) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].kernels) {
        for (Cost& weight : of_node_) weight += weights[r];
      }
      if (rows[r].collectives) of_collectives_ += weights[r];
      for (const VariableId v : rows[r].nodes) of_node_[v] += weights[r];
      for (const PassageId p : rows[r].passages) of_passage_[p] += weights[r];
    }
  }

  Problem problem(SpacePrices& prices) {
    add_nodes();
    problem_.order = s_.collectives_.order;
    for (const Edge& edge : s_.collectives_.edges) add(edge.from, edge.to, edge.costs, of_collectives_);
    for (const PassageId p : s_.passages_.ids()) {
      const Passage& passage = s_.passages_[p];
      if (of_passage_[p] == 0 || passage.free) continue;
      const CostTable& costs = prices.table(passage);
      if (passage.to.valid()) {
        add(passage.from, passage.to, costs, of_passage_[p]);
        continue;
      }
      std::vector<Cost>& own = problem_.variables[passage.from].edit();
      for (std::size_t k = 0; k < own.size(); ++k) {
        const Cost cost = costs[choice(passage.from, k)];
        own[k] = mix(own[k], 1, cost > 0 ? cost + s_.copies_[p] : 0, of_passage_[p]);
      }
    }
    return std::move(problem_);
  }

 private:
  std::size_t count(VariableId v) const {
    return s_.distinct_[v] ? s_.distinct_[v]->size() : s_.kernels_[v].size();
  }
  // The place among all choices of one of the distinct ones.
  std::size_t choice(VariableId v, std::size_t k) const {
    return s_.distinct_[v] ? ir::offset_of(s_.distinct_[v]->data()[k]) : k;
  }

  void add_nodes() {
    std::map<std::tuple<const void*, Cost, const void*, const void*>, CostTable> known;
    for (const VariableId v : s_.kernels_.ids()) {
      const CostTable &kernels = s_.kernels_[v], &collectives = s_.collectives_.variables[v];
      const auto [entry, fresh] =
          known.try_emplace({kernels.address(), of_node_[v], collectives.address(), s_.distinct_[v].get()});
      if (fresh) {
        std::vector<Cost>& own = entry->second.edit();
        own.reserve(count(v));
        for (std::size_t k = 0; k < count(v); ++k) {
          const std::size_t c = choice(v, k);
          own.push_back(mix(kernels[c], of_node_[v], collectives[c], of_collectives_));
        }
      }
      problem_.variables.push_back(entry->second);
    }
  }

  void add(VariableId from, VariableId to, const CostTable& table, Cost weight) {
    const auto [entry, fresh] =
        tables_.try_emplace({table.address(), weight, s_.distinct_[from].get(), s_.distinct_[to].get()});
    if (fresh) {
      const std::size_t columns = count(to), all_columns = s_.kernels_[to].size();
      std::vector<Cost>& costs = entry->second.edit();
      costs.resize(count(from) * columns);
      for (std::size_t i = 0; i < count(from); ++i) {
        const Cost* row = table.data() + choice(from, i) * all_columns;
        Cost* own = &costs[i * columns];
        if (s_.distinct_[to]) {
          for (std::size_t j = 0; j < columns; ++j) own[j] = mix(0, 0, row[choice(to, j)], weight);
        } else {
          for (std::size_t j = 0; j < columns; ++j) own[j] = mix(0, 0, row[j], weight);
        }
      }
    }
    problem_.edges.push_back({from, to, entry->second});
  }

  const BoundSearch& s_;
  IdVector<VariableId, Cost> of_node_;
  IdVector<PassageId, Cost> of_passage_;
  Cost of_collectives_ = 0;
  std::map<std::tuple<const void*, Cost, const void*, const void*>, CostTable> tables_;
  Problem problem_;
};

Problem BoundSearch::mixed(const std::vector<Row>& rows, const std::vector<Cost>& weights) {
  return Mixture(*this, rows, weights).problem(prices_);
}

void BoundSearch::play(std::vector<Row>& rows, std::vector<Plan>& plans, bool with_order,
                       std::optional<analysis::Time> known, bool may_end, Cost& best) {
  std::size_t with_rows = 0;  // plans whose longest chains are in the rows
  for (int round = 0; round < options_.solves && !KnownBounds::is_enough({best}, known); ++round) {
    for (; with_order && with_rows < plans.size(); ++with_rows) {
      Row row = longest(plans[with_rows]);
      if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(std::move(row));
    }
    std::vector<std::vector<double>> values;
    for (const Row& row : rows) {
      values.emplace_back();
      for (const Plan& plan : plans) values.back().push_back(static_cast<double>(value(row, plan)));
    }
    const std::vector<Cost> weights = best_weights(values);
    const Problem mixture = mixed(rows, weights);
    // A plan whose costs can be added up may have bounds for which its parts cannot.
    if (largest_total(mixture) > kLargestTotal) return;
    Solution solution = solve(mixture, options_.solve);
    ++solves_;
    if (solution.bound == kForbidden) return;
    Cost constant = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) constant += weights[r] * rows[r].constant;
    best = std::max(best, (solution.bound + constant) / kParts);
    if (!solution.feasible()) return;
    for (const VariableId v : solution.choice.ids())
      if (distinct_[v]) solution.choice[v] = (*distinct_[v])[solution.choice[v]];
    // Nothing is left to gain if this plan's rows are no more than the bound, or it is known.
    if (std::ranges::find(plans, solution.choice, &Plan::choice) != plans.end()) return;
    Plan found = plan(solution.choice, false);
    Cost most = 0;
    for (const Row& row : rows) most = std::max(most, value(row, found));
    if (with_order) most = std::max(most, value(longest(found), found));
    if (most <= best + best / 1000) return;
    found_.push_back(found.choice);
    plans.push_back(std::move(found));
    // No weights make more of this plan.
    if (may_end && known && !KnownBounds::is_enough({most}, known)) return;
  }
}

PlanBounds BoundSearch::over_plans(const Assignment& seed, const std::vector<Assignment>& more,
                                   bool may_end) {
  PlanBounds bounds;
  if (none_) return bounds;
  std::vector<Row> rows(2);
  rows[0].kernels = rows[1].collectives = true;
  rows[0].constant = launch_ * loop_kernels_;
  std::vector<Plan> plans = {plan(seed, false)};
  for (const Assignment& choice : more) {
    // Conversions that were left out may be impossible.
    if (price(collectives_, choice) != kForbidden) plans.push_back(plan(choice, false));
  }
  Cost loads = 0, order = 0;
  const KnownBounds& known = options_.known;
  play(rows, plans, false, known.loads, may_end, loads);
  const bool ends = may_end && known.loads && !KnownBounds::is_enough({loads}, known.loads);
  if (!ends && !KnownBounds::is_enough({loads}, known.order))
    play(rows, plans, true, known.order, false, order);
  bounds.loads.ps = loads;
  bounds.order.ps = std::max(loads, order);
  bounds.solves = solves_;
  return bounds;
}

PlanBounds BoundSearch::of_plan(const Assignment& choice) {
  if (none_) return {};
  const Plan plan = this->plan(choice, true);
  Row kernels, collectives;
  kernels.kernels = collectives.collectives = true;
  kernels.constant = launch_ * loop_kernels_;
  PlanBounds bounds;
  bounds.loads.ps = std::max(value(kernels, plan), value(collectives, plan));
  bounds.order.ps = std::max(bounds.loads.ps, value(longest(plan), plan));
  return bounds;
}

}  // namespace braid::split
