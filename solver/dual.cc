#include "solver/dual.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace braid::solver {

namespace {

constexpr int kFraction = 32;  // fraction bits of prices

class Ascent {
 public:
  Ascent(Network& network, IdVector<RowId, std::int64_t>& prices)
      : network_(network),
        baked_(prices),
        prices_(prices),
        best_node_(network.nodes.ids(), 0),
        places_(network.pairs.ids()) {
    std::size_t given = 0;
    for (const VariableId v : network.nodes.ids()) {
      const Node& node = network.nodes[v];
      if (node.alive) order_.push_back(v);
      total_.push_back(node.costs);
    }
    IdVector<PairId, std::size_t> tables(network.pairs.ids());
    for (const VariableId v : order_) {
      links_begin_.push_back(links_.size());
      for (const PairId p : network.nodes[v].pairs) {
        const Pair& pair = network.pairs[p];
        const VariableId other = pair.other(v);
        if (other > v) {  // in the order in which sweeps read them
          tables[p] = tables_.size();
          tables_.insert(tables_.end(), pair.costs.costs().begin(), pair.costs.costs().end());
          places_[p] = given;
          given += network.size(pair.from) + network.size(pair.to);
        }
        const std::size_t from = places_[p], to = from + network.size(pair.from);
        const bool down = pair.from == v;
        links_.push_back({other, down, tables[p], down ? from : to, down ? to : from});
      }
    }
    links_begin_.push_back(links_.size());
    given_.assign(given, 0);
    constrained_ = network.constrained();
    worth_.assign(network.uses.ids(), 0);
    average_.assign(network.limits.ids(), 0.0);
  }

  // Moves costs of nodes towards later nodes (or earlier ones), node by node. Afterwards the costs of tables
  // between two nodes are at least 0, so the sum of the nodes' smallest entries is a bound.
  void sweep(bool forward) {
    const std::size_t count = order_.size();
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = forward ? k : count - 1 - k;
      const VariableId v = order_[i];
      const std::span<Cost> total = total_[v];
      const auto least = std::min_element(total.begin(), total.end());
      best_node_[v] = least - total.begin();
      const Cost floor = *least;
      const std::span<const Link> links =
          std::span(links_).subspan(links_begin_[i], links_begin_[i + 1] - links_begin_[i]);
      int ahead = 0, behind = 0;
      for (const Link& link : links) ++((link.other > v) == forward ? ahead : behind);
      if (ahead == 0) continue;
      const Cost parts = std::max(ahead, behind);
      share_.resize(total.size());
      for (std::size_t c = 0; c < total.size(); ++c) share_[c] = (total[c] - floor) / parts;
      for (const Link& link : links) {
        if ((link.other > v) == forward) send(link, total);
      }
    }
    network_.cells += tables_.size();
  }

  // Requires that a sweep came last, or only prices changed since.
  Cost bound() const {
    Cost sum = network_.constant + price_constant_;
    for (const VariableId v : order_) {
      const std::span<const Cost> total = total_[v];
      sum += *std::min_element(total.begin(), total.end());
    }
    return sum;
  }

  void step_prices(Cost bound, Cost reach, double factor) {
    if (!constrained_) return;
    RowSums bytes(network_.limits.ids());
    for (const Use& use : network_.uses) {
      if (!use.alive) continue;
      for (const RowRange& range : *use.rows) bytes.add(range, use.bytes[best_node_[use.variable]]);
    }
    const IdVector<RowId, std::int64_t> occupied = bytes.take();
    double square = 0;
    constexpr double kNew = 0.3;
    for (const RowId row : network_.limits.ids()) {
      const double excess = static_cast<double>(occupied[row] - network_.limits[row]);
      const double old = average_[row] * (1 - kNew);
      average_[row] = first_ ? excess : old + excess * kNew;
      if (average_[row] > 0 || prices_[row] > 0) square += average_[row] * average_[row];
    }
    first_ = false;
    if (square <= 0) return;
    const double length = factor * static_cast<double>(reach - bound) / square * std::ldexp(1.0, kFraction);
    const double most = 4e18 / static_cast<double>(prices_.size());  // so that sums of prices do not overflow
    for (const RowId row : prices_.ids()) {
      const double moved = static_cast<double>(prices_[row]) + length * average_[row];
      prices_[row] = moved <= 0 ? 0 : static_cast<std::int64_t>(std::min(moved, most));
    }
    limit_prices();
    apply_prices();
  }

  struct Saved {
    std::vector<Cost> given;
    IdVector<RowId, std::int64_t> prices;
  };
  void save(Saved& saved) const {  // into the memory that it has already
    saved.given = given_;
    saved.prices = prices_;
  }

  // Makes the saved state the network's.
  void absorb(const Saved& saved, IdVector<RowId, std::int64_t>& prices) {
    IdVector<RowId, std::int64_t> change(prices.ids());
    for (const RowId row : prices.ids()) change[row] = saved.prices[row] - baked_[row];
    network_.add_prices(change);
    for (const PairId p : network_.pairs.ids()) {
      Pair& pair = network_.pairs[p];
      if (!pair.alive) continue;
      const std::size_t n = network_.size(pair.from), m = network_.size(pair.to);
      std::vector<Cost>& costs = pair.costs.edit();
      const Cost *const to_from = &saved.given[places_[p]], *const to_to = to_from + n;
      for (std::size_t i = 0; i < n; ++i) {
        network_.nodes[pair.from].costs[i] += to_from[i];
        Cost* row = &costs[i * m];
        for (std::size_t j = 0; j < m; ++j) {
          if (row[j] < kForbiddenFrom) row[j] -= to_from[i] + to_to[j];
        }
      }
      for (std::size_t j = 0; j < m; ++j) network_.nodes[pair.to].costs[j] += to_to[j];
    }
    network_.normalise();
    prices = saved.prices;
  }

 private:
  // A pair as one of its nodes sees it, with places of its table and of what either end has given.
  struct Link {
    VariableId other;
    bool down = false;  // whether the table has rows of this node
    std::size_t table = 0, mine = 0, theirs = 0;
  };

  void send(const Link& link, std::span<Cost> total) {
    const std::span<Cost> other = total_[link.other];
    Cost *const mine = &given_[link.mine], *const theirs = &given_[link.theirs];
    const Cost* table = &tables_[link.table];
    const std::size_t n = total.size(), m = other.size();
    for (std::size_t c = 0; c < n; ++c) {
      mine[c] -= share_[c];
      total[c] -= share_[c];
    }
    new_.assign(m, std::numeric_limits<Cost>::max());
    if (link.down) {
      for (std::size_t i = 0; i < n; ++i, table += m) {
        const Cost taken = mine[i];
        for (std::size_t j = 0; j < m; ++j) new_[j] = std::min(new_[j], table[j] - taken);
      }
    } else {
      for (std::size_t j = 0; j < m; ++j, table += n) {
        Cost least = new_[j];
        for (std::size_t i = 0; i < n; ++i) least = std::min(least, table[i] - mine[i]);
        new_[j] = least;
      }
    }
    for (std::size_t j = 0; j < m; ++j) {
      other[j] += new_[j] - theirs[j];
      theirs[j] = new_[j];
    }
  }

  // Sums of prices times limits stay far from overflow.
  void limit_prices() {
    double worth = 0;
    for (const RowId row : prices_.ids()) {
      worth += std::ldexp(static_cast<double>(prices_[row]), -kFraction) *
               static_cast<double>(network_.limits[row] + 1);
    }
    constexpr double kMost = 1.0e17;
    if (worth <= kMost) return;
    for (std::int64_t& price : prices_)
      price = static_cast<std::int64_t>(static_cast<double>(price) * (kMost / worth));
  }

  void apply_prices() {
    IdVector<RowId, std::int64_t> change = prices_;
    __int128 total = 0;
    for (const RowId row : prices_.ids()) {
      change[row] -= baked_[row];
      total += static_cast<__int128>(change[row]) * network_.limits[row];
    }
    const IdVector<RowId, std::int64_t> sums = sums_before(change);
    for (const UseId u : network_.uses.ids()) {
      const Use& use = network_.uses[u];
      if (!use.alive) continue;
      std::int64_t worth = 0;
      for (const RowRange& range : *use.rows) worth += sum_in(range, sums);
      if (worth == worth_[u]) continue;
      const std::span<Cost> costs = total_[use.variable];
      for (std::size_t c = 0; c < costs.size(); ++c) {
        costs[c] += static_cast<Cost>((static_cast<__int128>(worth) * use.bytes[c]) >> kFraction) -
                    static_cast<Cost>((static_cast<__int128>(worth_[u]) * use.bytes[c]) >> kFraction);
      }
      worth_[u] = worth;
    }
    price_constant_ = -static_cast<Cost>(-((-total) >> kFraction));
  }

  Network& network_;
  IdVector<RowId, std::int64_t> baked_, prices_;
  std::vector<VariableId> order_;
  ir::IdLists<VariableId, Cost> total_;  // per choice: its cost and all messages to it
  std::vector<Link> links_;
  std::vector<std::size_t> links_begin_;  // by place in the order
  std::vector<Cost> tables_;              // of all pairs
  IdVector<VariableId, std::size_t> best_node_;
  // Per pair alive: the place of what it gave to the choices of `from`, then to those of `to`.
  IdVector<PairId, std::size_t> places_;
  std::vector<Cost> given_;
  IdVector<UseId, std::int64_t> worth_;  // per use: the sum of prices that total_ has
  Cost price_constant_ = 0;
  IdVector<RowId, double> average_;
  bool first_ = true, constrained_ = false;
  std::vector<Cost> share_, new_;
};

}  // namespace

void ascend(Network& network, IdVector<RowId, std::int64_t>& prices, const AscentOptions& options) {
  Ascent ascent(network, prices);
  Cost best = network.constant;
  Ascent::Saved saved;
  ascent.save(saved);
  double factor = 1.0;
  int without = 0, stalled = 0;
  const std::int64_t cells_before = network.cells;
  for (int sweep = 0; sweep < options.sweeps && network.cells - cells_before < options.cells; ++sweep) {
    ascent.sweep(true);
    ascent.sweep(false);
    const Cost bound = ascent.bound();
    const Cost distance = options.reach < kForbiddenFrom ? options.reach - best : best / 20 + 1;
    if (bound > best) {
      stalled = bound - best > distance / 100000 ? 0 : stalled + 1;
      without = 0;
      best = bound;
      ascent.save(saved);
      if (best >= options.target) break;
    } else {
      ++stalled;
      if (++without >= 8) factor *= 0.7, without = 0;
    }
    if (stalled > options.patience || factor < 1e-6) break;
    const Cost reach = options.reach < kForbiddenFrom ? options.reach : best + best / 20 + 1;
    ascent.step_prices(bound, std::max(reach, bound + 1), factor);
  }
  ascent.absorb(saved, prices);
}

}  // namespace braid::solver
