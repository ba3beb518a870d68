#include "split/bounds.h"

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

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Chooses weights of rows, in parts that add up to kParts, so that the least mean over the plans is as large
// as possible: fictitious play.
std::vector<Cost> best_weights(const std::vector<std::vector<double>>& value) {  // [row][plan]
  const std::size_t rows = value.size(), plans = value[0].size();
  std::vector<double> of_row(rows, 0), of_plan(plans, 0);
  std::vector<std::int64_t> taken(rows, 0);
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round) {
    const auto row =
        static_cast<std::size_t>(std::max_element(of_row.begin(), of_row.end()) - of_row.begin());
    ++taken[row];
    for (std::size_t p = 0; p < plans; ++p) of_plan[p] += value[row][p];
    const auto plan =
        static_cast<std::size_t>(std::min_element(of_plan.begin(), of_plan.end()) - of_plan.begin());
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
  floors.key = [](const Graph&, const GraphNode&) { return 0; };
  floors.of_key = [](int, Combination, const Mesh&) { return Cost{0}; };
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
bool has_second(const GraphNode& node) {
  return node.work.b >= 0 && node.work.b < static_cast<int>(node.inputs.size());
}

}  // namespace

BoundSearch::BoundSearch(const Graph& graph, const SplitSpace& space,
                         std::shared_ptr<const analysis::CostModel> costs, BoundOptions options)
    : space_(space),
      options_(std::move(options)),
      passages_(space.passages(true, options_.cells)),
      prices_(space, least_of(costs, &analysis::CollectiveCost::time)),
      floors_(space, least_of(costs, &analysis::CollectiveCost::floor)) {
  launch_ = static_cast<Cost>(costs->machine().launch_us * 1e6 * (1 - 1e-9));
  SplitCosts sizes;
  sizes.size = [costs](const ir::Expr& size) { return costs->value(size); };
  collectives_ = floors_.problem(true, options_.cells);
  const KernelFloors kernels(*costs, graph, sizes, options_);
  kernels_.resize(collectives_.variables.size());
  // All that the floor of a choice depends on, of equal nodes once.
  struct Parts {
    std::vector<KernelParts> distinct;
    std::vector<std::size_t> of;  // per choice
  };
  std::map<const void*, Parts> parts_of;  // by the choices of nodes
  std::map<std::pair<const void*, std::vector<Cost>>, CostTable> known;
  for (; nodes_ < static_cast<int>(kernels_.size()) && space.node_of(nodes_) >= 0; ++nodes_) {
    const GraphNode& node = graph.nodes[at(space.node_of(nodes_))];
    Parts& parts = parts_of[space.address_of_choices(nodes_)];
    for (int c = static_cast<int>(parts.of.size()); c < space.choices_of(nodes_); ++c) {
      const Combination axes = space.combination(nodes_, c);
      const Mesh& mesh = space.mesh();
      const KernelParts own = {parts_of_work(axes, mesh),
                               has_second(node) ? parts_of_input(axes, mesh, at(node.work.b)) : 1,
                               node.outputs.empty() ? 1 : parts_of_output(axes, mesh, 0)};
      const auto known = std::ranges::find(parts.distinct, own);
      parts.of.push_back(static_cast<std::size_t>(known - parts.distinct.begin()));
      if (known == parts.distinct.end()) parts.distinct.push_back(own);
    }
    std::vector<Cost> floors;
    for (const KernelParts& own : parts.distinct) floors.push_back(kernels(node, own));
    const auto [entry, fresh] = known.try_emplace({space.address_of_choices(nodes_), std::move(floors)});
    if (fresh) {
      for (const std::size_t part : parts.of) entry->second.edit().push_back(entry->first.second[part]);
    }
    kernels_[at(nodes_)] = entry->second;
    reduction_.push_back(reduces(graph, node, sizes, space.mesh().ranks()) ? 1 : 0);
    product_.push_back(is_own_kernel(graph, node) || multiplies_computed(graph, node) ? 1 : 0);
    const CostTable& own = kernels_[at(nodes_)];
    copy_.push_back(product_.back() == 0 && *std::max_element(own.begin(), own.end()) > 0 ? 1 : 0);
  }
  for (std::size_t v = at(nodes_); v < kernels_.size(); ++v)
    kernels_[v] = std::vector<Cost>(collectives_.variables[v].size(), 0);
  into_.resize(at(nodes_));
  out_of_.resize(at(nodes_));
  copies_.assign(passages_.size(), 0);
  for (std::size_t p = 0; p < passages_.size(); ++p) {
    // The result of a collective lies in the segment, and a kernel copies it into the memory of the program's
    // output.
    if (passages_[p].reader < 0) {
      const double bytes = local_bytes(graph.values[at(passages_[p].value)], sizes, 1);
      const double us = costs->machine().launch_us +
                        bytes_us(costs->machine(), 2 * bytes,
                                 {KernelClass::copy, KernelClass::elementwise, KernelClass::gather});
      copies_[p] = static_cast<Cost>(us * 1e6 * (1 - 1e-9));
    }
    // State kept between steps counts as an ordinary input and output.
    if (passages_[p].producer >= nodes_) passages_[p].producer = -1;
    if (passages_[p].reader >= nodes_) passages_[p].reader = -1;
    if (passages_[p].reader >= 0) into_[at(passages_[p].reader)].push_back(static_cast<int>(p));
    if (passages_[p].producer >= 0) out_of_[at(passages_[p].producer)].push_back(static_cast<int>(p));
  }
  none_ = may_leave_out(graph);
  find_distinct();
  find_joins(graph, space);
  count_loops();
  find_chain();
}

void BoundSearch::relax(std::size_t cells) {
  const std::vector<Passage> passages = space_.passages(true, cells);
  for (std::size_t p = 0; p < passages.size(); ++p) passages_[p].free = passages[p].free;
  collectives_ = floors_.problem(true, cells);
  find_distinct();
}

// Equal nodes have equal ones.
void BoundSearch::find_distinct() {
  distinct_.assign(kernels_.size(), nullptr);
  if (!space_.large()) return;
  using States = const std::vector<int>*;
  std::vector<std::vector<States>> states(at(nodes_));  // in which conversions that count see the choices
  for (const Passage& passage : passages_) {
    if (passage.free) continue;
    const auto add = [&](int v, States seen) {
      if (v >= 0 && v < nodes_ && std::ranges::find(states[at(v)], seen) == states[at(v)].end())
        states[at(v)].push_back(seen);
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
  std::map<Node, std::shared_ptr<const std::vector<int>>> known;
  for (int v = 0; v < nodes_; ++v) {
    const CostTable &kernels = kernels_[at(v)], &collectives = collectives_.variables[at(v)];
    const auto [entry, fresh] = known.try_emplace(
        Node{space_.address_of_choices(v), &states[at(v)], kernels.address(), collectives.address()},
        nullptr);
    if (fresh) {
      std::set<std::vector<std::int64_t>> seen;
      std::vector<int> first;
      for (std::size_t c = 0; c < kernels.size(); ++c) {
        std::vector<std::int64_t> own = {kernels[c], collectives[c]};
        for (const States list : states[at(v)]) own.push_back((*list)[c]);
        if (seen.insert(std::move(own)).second) first.push_back(static_cast<int>(c));
      }
      if (first.size() < kernels.size())
        entry->second = std::make_shared<const std::vector<int>>(std::move(first));
    }
    distinct_[at(v)] = entry->second;
  }
}

BoundSearch::Plan BoundSearch::plan(const std::vector<int>& choice, bool all) {
  Plan plan{choice, {}, {}, price(collectives_, choice)};
  for (int v = 0; v < nodes_; ++v) plan.kernels.push_back(kernels_[at(v)][at(choice[at(v)])]);
  for (std::size_t p = 0; p < passages_.size(); ++p) {
    const Passage& passage = passages_[p];
    Cost cost = 0;
    if (all || !passage.free)
      cost = prices_.of(passage, choice[at(passage.from)], passage.to < 0 ? -1 : choice[at(passage.to)]);
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
  for (const int v : row.nodes) sum += plan.kernels[at(v)];
  for (const int p : row.passages) sum += plan.passages[at(p)];
  return sum;
}

Problem BoundSearch::mixed(const std::vector<Row>& rows, const std::vector<Cost>& weights) {
  std::vector<Cost> of_node(kernels_.size(), 0), of_passage(passages_.size(), 0);
  Cost of_collectives = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].kernels) {
      for (Cost& weight : of_node) weight += weights[r];
    }
    if (rows[r].collectives) of_collectives += weights[r];
    for (const int v : rows[r].nodes) of_node[at(v)] += weights[r];
    for (const int p : rows[r].passages) of_passage[at(p)] += weights[r];
  }
  const auto mix = [](Cost a, Cost weight_a, Cost b, Cost weight_b) {
    return a == kForbidden || b == kForbidden ? kForbidden : a * weight_a + b * weight_b;
  };
  const auto count = [&](int v) {
    return distinct_[at(v)] ? distinct_[at(v)]->size() : kernels_[at(v)].size();
  };
  const auto choice = [&](int v, std::size_t k) { return distinct_[at(v)] ? at((*distinct_[at(v)])[k]) : k; };
  Problem problem;
  // Equal layers share tables.
  std::map<std::tuple<const void*, Cost, const void*, const void*>, CostTable> nodes, tables;
  for (int v = 0; v < static_cast<int>(kernels_.size()); ++v) {
    const CostTable &kernels = kernels_[at(v)], &collectives = collectives_.variables[at(v)];
    const auto [entry, fresh] =
        nodes.try_emplace({kernels.address(), of_node[at(v)], collectives.address(), distinct_[at(v)].get()});
    if (fresh) {
      std::vector<Cost>& own = entry->second.edit();
      own.reserve(count(v));
      for (std::size_t k = 0; k < count(v); ++k) {
        const std::size_t c = choice(v, k);
        own.push_back(mix(kernels[c], of_node[at(v)], collectives[c], of_collectives));
      }
    }
    problem.variables.push_back(entry->second);
  }
  problem.order = collectives_.order;
  const auto add = [&](int from, int to, const CostTable& table, Cost weight) {
    const auto [entry, fresh] =
        tables.try_emplace({table.address(), weight, distinct_[at(from)].get(), distinct_[at(to)].get()});
    if (fresh) {
      const std::size_t columns = count(to), all_columns = kernels_[at(to)].size();
      std::vector<Cost>& costs = entry->second.edit();
      costs.resize(count(from) * columns);
      for (std::size_t i = 0; i < count(from); ++i) {
        const Cost* row = table.data() + choice(from, i) * all_columns;
        Cost* own = &costs[i * columns];
        if (const auto& picked = distinct_[at(to)]) {
          for (std::size_t j = 0; j < columns; ++j) own[j] = mix(0, 0, row[(*picked)[j]], weight);
        } else {
          for (std::size_t j = 0; j < columns; ++j) own[j] = mix(0, 0, row[j], weight);
        }
      }
    }
    problem.edges.push_back({from, to, entry->second});
  };
  for (const Edge& edge : collectives_.edges) add(edge.from, edge.to, edge.costs, of_collectives);
  for (std::size_t p = 0; p < passages_.size(); ++p) {
    const Passage& passage = passages_[p];
    if (of_passage[p] == 0 || passage.free) continue;
    const CostTable& costs = prices_.table(passage);
    if (passage.to >= 0) {
      add(passage.from, passage.to, costs, of_passage[p]);
      continue;
    }
    std::vector<Cost>& own = problem.variables[at(passage.from)].edit();
    for (std::size_t k = 0; k < own.size(); ++k) {
      const Cost cost = costs[choice(passage.from, k)];
      own[k] = mix(own[k], 1, cost > 0 ? cost + copies_[p] : 0, of_passage[p]);
    }
  }
  return problem;
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
    for (std::size_t v = 0; v < solution.choice.size(); ++v)
      if (distinct_[v]) solution.choice[v] = (*distinct_[v])[at(solution.choice[v])];
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

PlanBounds BoundSearch::over_plans(const std::vector<int>& seed, const std::vector<std::vector<int>>& more,
                                   bool may_end) {
  PlanBounds bounds;
  if (none_) return bounds;
  std::vector<Row> rows(2);
  rows[0].kernels = rows[1].collectives = true;
  rows[0].constant = launch_ * loop_kernels_;
  std::vector<Plan> plans = {plan(seed, false)};
  for (const std::vector<int>& choice : more) {
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

PlanBounds BoundSearch::of_plan(const std::vector<int>& choice) {
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
