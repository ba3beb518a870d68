#include "solver/fold.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <unordered_map>

#include "ir/error.h"

namespace braid::solver {

namespace {

constexpr int kFewestLayers = 3;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// An edge as one of its ends sees it. Places are positions in the problem's order.
struct End {
  int other = -1;  // place
  int table = -1;
  int edge = -1;
  bool from = false;  // whether it is at the other end that the edge begins
};

// Numbers of costs: equal ones have one.
class Numbers {
 public:
  int of(const std::vector<Cost>& costs) {
    const std::uint64_t hash = hash_of(costs);
    const auto [begin, end] = known_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
      if (*known->second.first == costs) return known->second.second;
    }
    const int number = static_cast<int>(known_.size());
    known_.emplace(hash, std::pair(&costs, number));
    return number;
  }
  int of(const CostTable& table) {
    const auto [known, fresh] = by_address_.try_emplace(table.address(), -1);
    if (fresh) known->second = of(table.costs());
    return known->second;
  }

 private:
  std::unordered_multimap<std::uint64_t, std::pair<const std::vector<Cost>*, int>> known_;
  std::unordered_map<const void*, int> by_address_;
};

struct HashOfNumbers {
  std::size_t operator()(const std::vector<int>& numbers) const {
    std::uint64_t hash = numbers.size();
    for (const int number : numbers)
      hash = (hash ^ static_cast<std::uint64_t>(number) ^ (hash >> 29)) * 0x9e3779b97f4a7c15u;
    return hash;
  }
};

// The problem with places for variables, and numbers for tables.
class Places {
 public:
  explicit Places(const Problem& problem) : problem_(problem), order(problem.order) {
    const std::size_t count = problem.variables.size();
    if (order.empty()) {
      order.resize(count);
      std::iota(order.begin(), order.end(), 0);
    }
    ir::internal_check(order.size() == count, "an order of {} of {} variables", order.size(), count);
    place.assign(count, -1);
    for (std::size_t p = 0; p < count; ++p) place[at(order[p])] = static_cast<int>(p);
    begin_.assign(count + 1, 0);
    for (const Edge& edge : problem.edges)
      for (const int v : {edge.from, edge.to}) ++begin_[at(place[at(v)]) + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    ends_.resize(begin_.back());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    Numbers numbers;
    for (std::size_t e = 0; e < problem.edges.size(); ++e) {
      const Edge& edge = problem.edges[e];
      const int table = numbers.of(edge.costs);
      const int a = place[at(edge.from)], b = place[at(edge.to)];
      ends_[next[at(a)]++] = {b, table, static_cast<int>(e), false};
      ends_[next[at(b)]++] = {a, table, static_cast<int>(e), true};
    }
    std::unordered_map<std::vector<int>, int, HashOfNumbers> kinds;
    std::vector<int> key;
    kind.reserve(count);
    for (std::size_t p = 0; p < count; ++p) {
      // The key of a place: its own costs and the numbers of its tables, whatever the other ends are.
      key.clear();
      for (const End& end : ends(static_cast<int>(p))) key.push_back(2 * end.table + (end.from ? 1 : 0));
      std::sort(key.begin(), key.end());
      key.push_back(numbers.of(problem.variables[at(order[p])]));
      kind.push_back(kinds.try_emplace(key, static_cast<int>(kinds.size())).first->second);
    }
  }

  int count() const { return static_cast<int>(order.size()); }
  // The edges of the variable at a place.
  std::span<const End> ends(int p) const {
    return std::span(ends_).subspan(begin_[at(p)], begin_[at(p) + 1] - begin_[at(p)]);
  }
  double size_of(int p) const {
    return std::log2(static_cast<double>(problem_.variables[at(order[at(p)])].size()));
  }

 private:
  const Problem& problem_;
  std::vector<std::size_t> begin_;  // per place: of its ends
  std::vector<End> ends_;

 public:
  std::vector<int> order, place;  // the variable of a place, and the place of a variable
  std::vector<int> kind;          // variables of one kind have equal costs, and tables of the same numbers
};

// Places `begin` to `end` repeat after `length`.
struct Run {
  int begin = 0, end = 0, length = 0;
};

// Returns the longest run among those that repeat often enough.
std::optional<Run> longest_run(const Places& places) {
  // Candidate lengths, by how often a kind comes again after that many places.
  std::map<int, int> votes;
  std::unordered_map<int, int> last;
  for (int p = 0; p < places.count(); ++p) {
    const auto [known, fresh] = last.try_emplace(places.kind[at(p)], p);
    if (fresh) continue;
    ++votes[p - known->second];
    known->second = p;
  }
  std::vector<std::pair<int, int>> lengths;
  for (const auto& [length, count] : votes) lengths.push_back({-count, length});
  std::sort(lengths.begin(), lengths.end());
  constexpr std::size_t kMostLengths = 8;
  if (lengths.size() > kMostLengths) lengths.resize(kMostLengths);
  std::optional<Run> best;
  for (const auto& [votes_for, length] : lengths) {
    for (int begin = 0; begin + length < places.count();) {
      int p = begin;
      while (p + length < places.count() && places.kind[at(p)] == places.kind[at(p + length)]) ++p;
      const Run run{begin, p + length, length};
      begin = p + 1;
      if (run.end - run.begin < (kFewestLayers + 1) * length) continue;
      if (!best || run.end - run.begin > best->end - best->begin) best = run;
    }
  }
  return best;
}

// A layer that begins at a place, and its inside. Variables with edges to later layers are borders.
struct Layer {
  int begin = 0;
  std::vector<int> inside;  // places
};

class Layers {
 public:
  Layers(const Places& places, const Run& run) : places_(places), run_(run), last_(at(run.end), -1) {
    for (int p = run.begin; p < run.end; ++p) {
      for (const End& end : places.ends(p))
        if (!outside(end.other)) last_[at(p)] = std::max(last_[at(p)], end.other);
    }
  }

  std::vector<Layer> find() const {
    const int n = run_.length, middle = run_.begin + (run_.end - run_.begin) / n / 2 * n;
    // Between layers where the fewest choices are.
    int cut = middle;
    double least = -1;
    for (int p = middle; p < middle + n; ++p) {
      double size = 0;
      for (int q = std::max(run_.begin, p - n); q < p; ++q)
        size += leads_behind(q, p) ? places_.size_of(q) : 0;
      if (least < 0 || size < least) least = size, cut = p;
    }
    if (cut + n > run_.end) cut -= n;
    const Layer model = layer(cut);
    const std::vector<Ends> ends = ends_of(model);
    std::vector<Layer> all = {model};
    for (int p = cut - n; p >= run_.begin; p -= n) {
      Layer own = layer(p);
      if (!equal(own, model, ends)) break;
      all.insert(all.begin(), std::move(own));
    }
    for (int p = cut + n; p + n <= run_.end; p += n) {
      Layer own = layer(p);
      if (!equal(own, model, ends)) break;
      all.push_back(std::move(own));
    }
    return all;
  }

 private:
  bool outside(int p) const { return p < run_.begin || p >= run_.end; }
  bool leads_behind(int p, int border) const { return last_[at(p)] >= border; }
  Layer layer(int begin) const {
    Layer own{begin, {}};
    for (int p = begin; p < begin + run_.length; ++p)
      if (!leads_behind(p, begin + run_.length)) own.inside.push_back(p);
    return own;
  }
  // The edges of a variable, sorted: table, place of the other end, whether that is outside of the run, and
  // whether the edge begins there. Places inside of the run are relative to the layer's beginning.
  using Ends = std::vector<std::tuple<int, int, bool, bool>>;
  void find_ends(int p, int begin, Ends& all) const {
    all.clear();
    for (const End& end : places_.ends(p)) {
      const bool out = outside(end.other);
      all.push_back({end.table, out ? end.other : end.other - begin, out, end.from});
    }
    std::sort(all.begin(), all.end());
  }
  std::vector<Ends> ends_of(const Layer& model) const {
    std::vector<Ends> all(model.inside.size());
    for (std::size_t k = 0; k < all.size(); ++k) find_ends(model.inside[k], model.begin, all[k]);
    return all;
  }
  bool equal(const Layer& own, const Layer& model, const std::vector<Ends>& ends) const {
    if (own.inside.size() != model.inside.size()) return false;
    Ends here;
    for (std::size_t k = 0; k < own.inside.size(); ++k) {
      const int p = own.inside[k], q = model.inside[k];
      if (p - own.begin != q - model.begin || places_.kind[at(p)] != places_.kind[at(q)]) return false;
      find_ends(p, own.begin, here);
      if (here != ends[k]) return false;
    }
    return true;
  }

  const Places& places_;
  Run run_;
  std::vector<int> last_;  // per place of the run: the last one of it to which it is connected
};

// The choices of a variable as the variables inside of a layer see them. Choices of one kind cost these the
// same.
struct Kinds {
  std::vector<int> of;     // per choice
  std::vector<int> first;  // per kind: a choice

  Kinds() = default;
  Kinds(const Problem& problem, const Places& places, int place, const std::vector<int>& inside) {
    const std::size_t count = problem.variables[at(places.order[at(place)])].size();
    std::vector<std::vector<Cost>> seen(count);
    for (const End& end : places.ends(place)) {
      if (!std::binary_search(inside.begin(), inside.end(), end.other)) continue;
      const CostTable& table = problem.edges[at(end.edge)].costs;
      const std::size_t others = table.size() / count;
      for (std::size_t c = 0; c < count; ++c) {
        for (std::size_t j = 0; j < others; ++j)
          seen[c].push_back(end.from ? table[j * count + c] : table[c * others + j]);
      }
    }
    std::map<std::vector<Cost>, int> known;
    for (std::size_t c = 0; c < count; ++c) {
      const auto [entry, fresh] = known.try_emplace(std::move(seen[c]), static_cast<int>(first.size()));
      if (fresh) first.push_back(static_cast<int>(c));
      of.push_back(entry->second);
    }
  }

  // The rows of the kinds, or the columns.
  CostTable picked(const CostTable& table, std::size_t columns, bool rows) const {
    std::vector<Cost> costs;
    if (rows) {
      for (const int c : first) {
        for (std::size_t j = 0; j < columns; ++j) costs.push_back(table[at(c) * columns + j]);
      }
      return costs;
    }
    for (std::size_t i = 0; i < table.size() / columns; ++i) {
      for (const int c : first) costs.push_back(table[i * columns + at(c)]);
    }
    return costs;
  }
};

// The costs over all choices of variables in `problem` of which some are left in the network.
std::shared_ptr<const std::vector<Cost>> with_all_choices(const Factor& factor, const Network& network,
                                                          const Problem& problem) {
  std::vector<Labels> labels;
  std::vector<std::size_t> sizes;
  std::size_t cells = 1;
  for (const int v : factor.variables) {
    labels.push_back(network.nodes[at(v)].labels);
    sizes.push_back(problem.variables[at(v)].size());
    cells *= sizes.back();
  }
  auto all = std::make_shared<std::vector<Cost>>(cells, kInside);
  std::size_t next = 0;
  for (const std::size_t cell : cells_of(labels, sizes)) (*all)[cell] = (*factor.costs)[next++];
  return all;
}

void add(Cost& sum, Cost cost) { sum = sum == kForbidden || cost == kForbidden ? kForbidden : sum + cost; }
Cost allowed(Cost cost) { return cost >= kForbiddenFrom ? kForbidden : cost; }

// Returns a lower bound on the cost of each choice of the variable with all that it reaches through at most
// `pairs` pairs, except through the pair `not_through`. Each path counts by itself. Forbidden costs become
// kInside; allowed sums are capped below kForbiddenFrom.
std::vector<Cost> least_around(const Network& network, int variable, int pairs, int not_through = -1) {
  static constexpr Cost kMost = kForbiddenFrom - 1;
  const auto add = [](Cost& sum, Cost cost) {
    sum = sum >= kForbiddenFrom || cost >= kForbiddenFrom ? kInside : std::min(sum + cost, kMost);
  };
  std::vector<Cost> least = network.nodes[at(variable)].costs;
  for (const int p : network.nodes[at(variable)].pairs) {
    if (pairs == 0 || p == not_through) continue;
    const Pair& pair = network.pairs[at(p)];
    const std::vector<Cost> beyond = least_around(network, pair.other(variable), pairs - 1, p);
    for (int c = 0; c < network.size(variable); ++c) {
      Cost best = kInside;
      for (int j = 0; j < static_cast<int>(beyond.size()); ++j) {
        Cost sum = network.cost(pair, variable, c, j);
        add(sum, beyond[at(j)]);
        best = std::min(best, sum);
      }
      add(least[at(c)], best);
    }
  }
  return least;
}

// Takes a lower bound on what each choice costs within two pairs, minus the least of these, off the
// variable's own costs, and returns it. Any amount would give a valid relaxation; the nearer it is to the
// whole cost, the more copies agree. kForbidden: the choice is not allowed.
std::vector<Cost> take_costs_of(Network& network, int variable, std::size_t size) {
  constexpr int kPairs = 2;
  constexpr Cost kMost = Cost{1} << 58;  // far below what is forbidden
  Node& node = network.nodes[at(variable)];
  std::vector<Cost> least = least_around(network, variable, kPairs);
  const Cost base = *std::min_element(least.begin(), least.end());
  Cost most = 0;
  for (Cost& cost : least) {
    if (cost >= kForbiddenFrom) continue;
    cost = std::min(cost, base + kMost);
    most = std::max(most, cost - base);
  }
  // Costs stay at least 0.
  network.constant -= most;
  std::vector<Cost> all(size, kForbidden);
  for (std::size_t c = 0; c < least.size(); ++c) {
    const bool forbidden = least[c] >= kForbiddenFrom;
    if (!forbidden) all[at(node.labels[c])] = least[c] - base;
    node.costs[c] = forbidden ? kInside : node.costs[c] + most - (least[c] - base);
  }
  return all;
}

}  // namespace

std::optional<FoldedProblem> FoldedProblem::of(const Problem& problem, std::int64_t table) {
  return folded(problem, table, std::nullopt);
}
std::optional<FoldedProblem> FoldedProblem::with_copies(const Problem& problem, std::int64_t table,
                                                        Cost total) {
  return folded(problem, table, total);
}

std::optional<FoldedProblem> FoldedProblem::folded(const Problem& problem, std::int64_t table,
                                                   std::optional<Cost> copied_total) {
  if (!problem.usages.empty() || !problem.limits.empty()) return std::nullopt;
  const Places places(problem);
  const std::optional<Run> run = longest_run(places);
  if (!run) return std::nullopt;
  const std::vector<Layer> layers = Layers(places, *run).find();
  if (static_cast<int>(layers.size()) < kFewestLayers || layers[0].inside.empty()) return std::nullopt;

  FoldedProblem folded;
  const int begin = run->begin, end = run->end;
  const std::size_t count = problem.variables.size();
  // One layer, with the variables that it touches.
  std::vector<char> inside(count, 0);  // by place, of any layer
  for (const Layer& layer : layers) {
    for (const int p : layer.inside) inside[at(p)] = 1;
  }
  const Layer& model = layers[0];
  std::map<int, int> local;  // by place
  std::vector<int> touched = model.inside;
  for (const int p : model.inside) {
    for (const End& e : places.ends(p)) touched.push_back(e.other);
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  Problem one;
  std::vector<char> own(touched.size(), 0);  // whether it is inside
  std::vector<Kinds> kinds(touched.size());  // of what is outside of all layers
  for (std::size_t k = 0; k < touched.size(); ++k) {
    local[touched[k]] = static_cast<int>(k);
    const CostTable& costs = problem.variables[at(places.order[at(touched[k])])];
    own[k] = std::binary_search(model.inside.begin(), model.inside.end(), touched[k]) ? 1 : 0;
    const bool outside = touched[k] < begin || touched[k] >= end;
    if (outside) kinds[k] = Kinds(problem, places, touched[k], model.inside);
    one.variables.push_back(
        own[k] != 0 ? costs
                    : CostTable(std::vector<Cost>(outside ? kinds[k].first.size() : costs.size(), 0)));
  }
  for (const int p : model.inside) {
    for (const End& e : places.ends(p)) {
      const Edge& edge = problem.edges[at(e.edge)];
      const int other = local.at(e.other);
      if (own[at(other)] != 0 && e.from) continue;  // seen from its other end
      CostTable costs = edge.costs;
      if (!kinds[at(other)].first.empty())
        costs = kinds[at(other)].picked(costs, problem.variables[at(edge.to)].size(), e.from);
      one.edges.push_back(
          {local.at(places.place[at(edge.from)]), local.at(places.place[at(edge.to)]), std::move(costs)});
    }
  }
  // Everything else as it was.
  Problem& rest = folded.problem_;
  folded.number_.assign(count, -1);
  for (int p = 0; p < places.count(); ++p) {
    if (inside[at(p)] != 0) continue;
    folded.number_[at(places.order[at(p)])] = static_cast<int>(rest.variables.size());
    rest.variables.push_back(problem.variables[at(places.order[at(p)])]);
  }
  for (const Edge& edge : problem.edges) {
    const int a = folded.number_[at(edge.from)], b = folded.number_[at(edge.to)];
    if (a >= 0 && b >= 0) rest.edges.push_back({a, b, edge.costs});
  }
  // Each variable outside of all layers gets a second variable, whose choices are its kinds.
  std::vector<int> kind_of(touched.size(), -1);
  for (std::size_t k = 0; k < touched.size(); ++k) {
    if (kinds[k].first.empty()) continue;
    kind_of[k] = static_cast<int>(rest.variables.size());
    rest.variables.emplace_back(std::vector<Cost>(kinds[k].first.size(), 0));
    std::vector<Cost> costs;
    for (const int own_kind : kinds[k].of) {
      for (int kind = 0; kind < static_cast<int>(kinds[k].first.size()); ++kind)
        costs.push_back(kind == own_kind ? 0 : kForbidden);
    }
    rest.edges.push_back({folded.number_[at(places.order[at(touched[k])])], kind_of[k], std::move(costs)});
  }
  const auto to_copy = std::ranges::count_if(kinds, [](const Kinds& of) { return !of.first.empty(); });
  const bool copied = copied_total.has_value() && to_copy > 0;
  const Cost scale = copied ? static_cast<Cost>(layers.size()) : 1;
  constexpr Cost kMostTotal = Cost{1} << 58;
  if (copied && *copied_total > kMostTotal / scale / (2 + to_copy)) return std::nullopt;
  folded.inside_.emplace(one, scale);
  Network& network = *folded.inside_;
  for (std::size_t k = 0; k < touched.size(); ++k) {
    if (own[k] != 0) continue;
    if (copied && kind_of[k] >= 0) {
      folded.copies_.push_back({kind_of[k], static_cast<int>(k)});
    } else {
      network.fix(static_cast<int>(k));
    }
  }
  if (copied) {
    Network& outside = folded.outside_.emplace(rest, scale);
    outside.share_results(network);  // the first layer is there if it begins with other states
    for (const Copy& copy : folded.copies_) outside.fix(copy.variable);
    for (const Layer& layer : layers) {
      for (std::size_t k = 0; k < touched.size(); ++k) {
        if (own[k] == 0 && kind_of[k] < 0)
          outside.fix(folded.number_[at(places.order[at(touched[k] - model.begin + layer.begin)])]);
      }
    }
    outside.reduce(kInside, true);
    // Each layer gets an equal share.
    for (std::size_t k = 0; k < folded.copies_.size() && !outside.infeasible; ++k) {
      const auto [variable, inside_one] = folded.copies_[k];
      const std::vector<Cost> costs = take_costs_of(outside, variable, rest.variables[at(variable)].size());
      for (std::size_t c = 0; c < costs.size(); ++c)
        network.nodes[at(inside_one)].costs[c] = costs[c] == kForbidden ? kInside : costs[c] / scale;
    }
  }
  network.reduce(kInside, true);
  std::vector<Factor> left;
  if (!network.infeasible) network.eliminate(table, {}, &left);
  if (network.infeasible) return std::nullopt;  // the caller solves the whole problem, which reports it
  if (copied) {
    if (std::any_of(network.nodes.begin(), network.nodes.end(),
                    [](const Node& node) { return node.alive && !node.fixed; }))
      return std::nullopt;
    // The network of the outside is made already, so the costs of the variables that stay become factors.
    for (std::size_t k = 0; k < touched.size(); ++k) {
      const Node& node = network.nodes[k];
      if (node.alive)
        left.push_back({{static_cast<int>(k)}, std::make_shared<const std::vector<Cost>>(node.costs)});
    }
    for (const Pair& pair : network.pairs) {
      if (pair.alive)
        left.push_back({{pair.from, pair.to}, std::make_shared<const std::vector<Cost>>(pair.costs.costs())});
    }
  }

  std::vector<CostTable> tables(network.pairs.size());
  // Tables have all choices of the variables that stay, and the remaining choices of those inside.
  const auto spread = [&](const Pair& pair) {
    const auto choices = [&](int k) {
      return own[at(k)] != 0 ? network.nodes[at(k)].costs.size() : one.variables[at(k)].size();
    };
    const auto place_of = [&](int k, int c) {
      return own[at(k)] != 0 ? c : network.nodes[at(k)].labels[at(c)];
    };
    std::vector<Cost> costs(choices(pair.from) * choices(pair.to), kForbidden);
    std::size_t next = 0;
    for (int i = 0; i < network.size(pair.from); ++i) {
      for (int j = 0; j < network.size(pair.to); ++j)
        costs[at(place_of(pair.from, i)) * choices(pair.to) + at(place_of(pair.to, j))] =
            allowed(pair.costs[next++]);
    }
    return CostTable(std::move(costs));
  };
  for (std::size_t e = 0; e < network.pairs.size(); ++e) {
    if (network.pairs[e].alive && !copied) tables[e] = spread(network.pairs[e]);
  }
  for (Factor& factor : left) factor.costs = with_all_choices(factor, network, one);
  std::vector<CostTable> own_costs(touched.size());  // of what is left inside
  for (std::size_t k = 0; k < touched.size(); ++k) {
    if (own[k] == 0 || !network.nodes[k].alive) continue;
    for (const Cost cost : network.nodes[k].costs) own_costs[k].edit().push_back(allowed(cost));
  }
  for (const Layer& layer : layers) {
    std::vector<int>& variables = folded.layers_.emplace_back();
    std::vector<int>& stays = folded.rest_.emplace_back();
    for (std::size_t k = 0; k < touched.size(); ++k) {
      const int p = touched[k];
      const int own_place = p < begin || p >= end ? p : p - model.begin + layer.begin;
      const int variable = places.order[at(own_place)];
      variables.push_back(variable);
      const Node& node = network.nodes[k];
      if (own[k] == 0 && node.alive) {
        stays.push_back(kind_of[k] >= 0 ? kind_of[k] : folded.number_[at(variable)]);
        if (copied) continue;
        std::vector<Cost>& costs = rest.variables[at(stays.back())].edit();
        std::vector<Cost> more(costs.size(), kForbidden);
        for (std::size_t c = 0; c < node.labels.size(); ++c)
          more[at(node.labels[c])] = allowed(node.costs[c]);
        for (std::size_t c = 0; c < costs.size(); ++c) add(costs[c], more[c]);
        continue;
      }
      stays.push_back(node.alive ? static_cast<int>(rest.variables.size()) : -1);
      if (!node.alive) continue;
      rest.variables.push_back(own_costs[k]);
    }
    for (std::size_t e = 0; e < network.pairs.size(); ++e) {
      const Pair& pair = network.pairs[e];
      if (pair.alive && !copied) rest.edges.push_back({stays[at(pair.from)], stays[at(pair.to)], tables[e]});
    }
    for (const Factor& factor : left) {
      Factor& own_factor = folded.factors_.emplace_back(factor);
      for (int& variable : own_factor.variables) variable = stays[at(variable)];
    }
    folded.constant_ += network.constant;
  }
  return folded;
}

std::vector<int> FoldedProblem::restore(const std::vector<int>& choice,
                                        std::vector<std::vector<int>>* copied) const {
  std::vector<int> whole(number_.size(), -1);
  for (std::size_t v = 0; v < number_.size(); ++v) {
    if (number_[v] >= 0) whole[v] = choice[at(number_[v])];
  }
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    std::vector<int> own(layers_[l].size(), -1);
    for (std::size_t k = 0; k < own.size(); ++k) {
      if (rest_[l][k] < 0) continue;
      const int chosen = choice[at(rest_[l][k])];
      own[k] = whole[at(layers_[l][k])] >= 0 ? chosen : inside_->nodes[k].labels[at(chosen)];
    }
    inside_->restore(own);
    if (copied != nullptr) {
      std::vector<int>& kinds = copied->emplace_back();
      for (const Copy& copy : copies_) kinds.push_back(own[at(copy.inside)]);
    }
    for (std::size_t k = 0; k < own.size(); ++k) {
      int& known = whole[at(layers_[l][k])];
      if (known < 0) known = own[k];
    }
  }
  return whole;
}

}  // namespace braid::solver
