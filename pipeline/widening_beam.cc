#include "pipeline/widening_beam.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "pipeline/lower_bounds.h"

namespace braid::pipeline {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

using State = ir::Id<struct StateTag>;  // of a layer

// States with equally many actions scheduled.
struct Layer {
  std::vector<std::uint16_t> counts;  // counts_size() of each state
  std::vector<std::int64_t> times;    // times_size() of each state
  IdVector<State, LowerBounds::Value> values;
  IdVector<State, State> parents;
  IdVector<State, Move> moves;
  IdVector<State, State> same_counts;  // the next state with equal counts
  std::vector<State> table;            // the first state of each counts: a hash table with open addressing

  std::size_t size() const { return values.size(); }
  void clear() {
    counts.clear(), times.clear(), values.clear(), parents.clear(), moves.clear(), same_counts.clear();
    std::fill(table.begin(), table.end(), State{});
  }
};

struct Step {  // what is needed to read a schedule back
  State parent;
  Move move;
};

class Beam {
 public:
  Beam(const SearchInstance& in, std::int64_t incumbent, const BeamOptions& options)
      : in_(in), options_(options), bounds_(in), counts_n_(counts_size(in)), times_n_(times_size(in)) {
    result_.makespan = incumbent;
  }

  BeamResult run() {
    const std::int64_t bytes_per_state =
        static_cast<std::int64_t>(2 * counts_n_ + 8 * times_n_ + sizeof(LowerBounds::Value) + 24);
    // A layer of width w has up to kinds * w children before the cut, on average fewer.
    const std::int64_t most = std::max<std::int64_t>(options_.max_bytes / (4 * bytes_per_state), 1);
    std::int64_t proved = options_.root_bound;
    for (std::int64_t width = std::min(options_.first_width, most);; width = std::min(width * 4, most)) {
      result_.width = width;
      least_cut_ = kNever;
      const bool finished = pass(width);
      if (finished) proved = std::max(proved, std::min(least_cut_, result_.makespan));
      if (finished && least_cut_ >= result_.makespan) proved = result_.makespan;
      if (!finished || proved >= result_.makespan || width == most) break;
    }
    result_.complete = proved >= result_.makespan;
    result_.lower_bound = std::min(proved, result_.makespan);
    return std::move(result_);
  }

 private:
  // One run. Returns false if the budget ended it.
  bool pass(std::int64_t width) {
    steps_.clear();
    now_.clear();
    now_.counts.assign(counts_n_, 0);
    now_.times.assign(times_n_, 0);
    now_.values.push_back({});
    const std::int64_t layers = std::int64_t{in_.kinds} * in_.stages * in_.microbatches;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      next_.clear();
      for (const State j : now_.values.ids()) {
        if (now_.values[j].bound >= result_.makespan) continue;
        const auto counts = counts_of(now_, j);
        scratch_counts_.assign(counts.begin(), counts.end());
        parent_times_ = times_of(now_, j);
        if (!expand(j, layer + 1 == layers)) return false;
      }
      if (next_.size() == 0) return true;
      if (layer + 1 < layers) keep_best(width);
      std::swap(now_, next_);
    }
    return true;
  }

  std::span<std::uint16_t> counts_of(Layer& layer, State j) const {
    return std::span(layer.counts).subspan(ir::offset_of(j) * counts_n_, counts_n_);
  }
  std::span<std::int64_t> times_of(Layer& layer, State j) const {
    return std::span(layer.times).subspan(ir::offset_of(j) * times_n_, times_n_);
  }

  // Makes the children of the state in scratch_counts_ and parent_times_.
  bool expand(State parent, bool last) {
    for (;;) {
      const SearchState st = view(in_, scratch_counts_, parent_times_);
      Move first{-1, 0};
      std::int64_t first_end = kNever;
      each_candidate(st, [&](Move m, std::int64_t start) {
        const std::int64_t end = start + cost(m);
        if (end < first_end) first_end = end, first = m;
      });
      if (first.stage < 0) return true;  // stuck, or everything left is held
      const int rank = in_.rank_of_stage[first.stage];
      bool in_budget = true;
      for (const int s : in_.stages_of_rank[rank])
        for (int kind = 0; kind < in_.kinds; ++kind) {
          const Move m(s, kind);
          if (!is_candidate(in_, st, s, kind)) continue;
          if (start_of(in_, st, s, kind) < first_end || m == first) in_budget &= child(parent, m, last);
        }
      if (!in_budget) return false;
      if (first.kind != kForward || !in_.may_hold[rank]) return true;
      st.held[first.stage] = 1;
    }
  }

  bool child(State parent, Move move, bool last) {
    if (result_.nodes >= options_.node_budget) return false;
    ++result_.nodes;
    child_counts_ = scratch_counts_;
    child_times_.assign(parent_times_.begin(), parent_times_.end());
    const SearchState st = view(in_, child_counts_, child_times_);
    apply(in_, st, move);
    const LowerBounds::Value value = bounds_.of(st);
    if (value.bound >= result_.makespan) return true;
    if (last) {
      result_.makespan = value.bound;
      result_.improved = true;
      read_back(parent, move);
      return true;
    }
    insert(value, parent, move);
    return true;
  }

  void insert(LowerBounds::Value value, State parent, Move move) {
    if (next_.table.size() < 2 * (next_.size() + 1)) grow_table();
    const std::size_t slot = find(child_counts_);
    State reuse;  // a state that the child dominates and replaces; further ones are dropped by their bound
    for (State j = next_.table[slot]; j.valid(); j = next_.same_counts[j]) {
      const int order = compare(times_of(next_, j));
      if (order <= 0) return;
      if (order != 1) continue;
      if (reuse.valid())
        next_.values[j].bound = kNever;
      else
        reuse = j;
    }
    if (reuse.valid()) {
      std::ranges::copy(child_times_, times_of(next_, reuse).begin());
      next_.values[reuse] = value;
      next_.parents[reuse] = parent;
      next_.moves[reuse] = move;
      return;
    }
    const State j = next_.values.end_id();
    next_.counts.insert(next_.counts.end(), child_counts_.begin(), child_counts_.end());
    next_.times.insert(next_.times.end(), child_times_.begin(), child_times_.end());
    next_.values.push_back(value);
    next_.parents.push_back(parent);
    next_.moves.push_back(move);
    next_.same_counts.push_back(next_.table[slot]);
    next_.table[slot] = j;
  }

  // Compares a stored state that has the child's counts with the child. Returns -1 if it dominates, 0 if both
  // are equal, 1 if the child dominates, 2 if neither does.
  int compare(std::span<std::int64_t> stored_times) {
    const SearchState stored = view(in_, child_counts_, stored_times);
    const SearchState mine = view(in_, child_counts_, child_times_);
    bool less = false, more = false;  // whether a time of the stored state is less, is more
    const auto look = [&](std::int64_t theirs, std::int64_t ours) {
      less |= theirs < ours;
      more |= theirs > ours;
      return less && more;
    };
    for (int r = 0; r < in_.ranks; ++r)
      if (look(stored.free[r], mine.free[r])) return 2;
    for (int s = 0; s < in_.stages; ++s) {
      const int r = in_.rank_of_stage[s];
      for (int kind = 0; kind < 2; ++kind) {
        if (kind == kForward && s == 0) continue;
        const int from = mine.done[kind][s];
        const int to = kind == kForward      ? mine.done[kForward][s - 1]
                       : s + 1 == in_.stages ? mine.done[kForward][s]
                                             : mine.done[kInput][s + 1];
        for (int k = from; k < to; ++k) {
          const StageMicrobatch x = in_.at(s, k);
          if (look(std::max(stored.ready[kind][x], stored.free[r]),
                   std::max(mine.ready[kind][x], mine.free[r])))
            return 2;
        }
      }
    }
    return less ? -1 : more ? 1 : 0;
  }

  void keep_best(std::int64_t width) {
    std::vector<State> order;
    for (const State j : next_.values.ids())
      if (next_.values[j].bound < result_.makespan) order.push_back(j);
    if (std::ssize(order) > width) {
      const auto better = [&](State a, State b) {
        const LowerBounds::Value &x = next_.values[a], &y = next_.values[b];
        if (x.bound != y.bound) return x.bound < y.bound;
        if (x.sum != y.sum) return x.sum < y.sum;
        return a < b;
      };
      const auto cut = order.begin() + width;
      std::nth_element(order.begin(), cut, order.end(), better);
      for (const State j : std::span(cut, order.end()))
        least_cut_ = std::min(least_cut_, next_.values[j].bound);
      order.erase(cut, order.end());
      std::ranges::sort(order);
    }
    // The order ascends, so the states can be compacted in place.
    IdVector<State, Step> kept;
    kept.reserve(order.size());
    for (const State from : order) {
      const State to = kept.end_id();
      kept.push_back({next_.parents[from], next_.moves[from]});
      if (from == to) continue;
      std::ranges::copy(counts_of(next_, from), counts_of(next_, to).begin());
      std::ranges::copy(times_of(next_, from), times_of(next_, to).begin());
      next_.values[to] = next_.values[from];
    }
    next_.counts.resize(order.size() * counts_n_);
    next_.times.resize(order.size() * times_n_);
    next_.values.resize(order.size());
    steps_.push_back(std::move(kept));
  }

  void read_back(State parent, Move move) {
    result_.orders.assign(in_.stages_of_rank.ids(), {});
    const auto put = [&](Move m) { result_.orders[in_.rank_of_stage[m.stage]].push_back(m); };
    put(move);
    for (std::size_t layer = steps_.size(); layer-- > 0;) {
      put(steps_[layer][parent].move);
      parent = steps_[layer][parent].parent;
    }
    for (auto& order : result_.orders) std::reverse(order.begin(), order.end());
  }

  template <class Visit>
  void each_candidate(const SearchState& st, Visit visit) const {
    for (int s = 0; s < in_.stages; ++s)
      for (int kind = 0; kind < in_.kinds; ++kind)
        if (is_candidate(in_, st, s, kind)) visit(Move(s, kind), start_of(in_, st, s, kind));
  }

  std::int64_t cost(Move m) const { return in_.cost[m.kind][m.stage]; }

  // The slot of these counts, or the empty one where they belong.
  std::size_t find(std::span<const std::uint16_t> counts) {
    std::uint64_t h = 1469598103934665603u;
    for (const std::uint16_t count : counts) h = (h ^ count) * 1099511628211u;
    h ^= h >> 29;
    const std::size_t mask = next_.table.size() - 1;
    for (std::size_t slot = h & mask;; slot = (slot + 1) & mask) {
      const State j = next_.table[slot];
      if (!j.valid() || std::ranges::equal(counts, counts_of(next_, j))) return slot;
    }
  }

  void grow_table() {
    next_.table.assign(std::max<std::size_t>(1024, 4 * next_.table.size()), State{});
    for (const State j : next_.values.ids()) {
      const std::size_t slot = find(counts_of(next_, j));
      next_.same_counts[j] = next_.table[slot];
      next_.table[slot] = j;
    }
  }

  const SearchInstance& in_;
  const BeamOptions options_;
  LowerBounds bounds_;
  const std::size_t counts_n_, times_n_;
  Layer now_, next_;
  std::vector<IdVector<State, Step>> steps_;  // per layer from the first
  std::vector<std::uint16_t> scratch_counts_, child_counts_;
  std::vector<std::int64_t> child_times_;
  std::span<std::int64_t> parent_times_;
  std::int64_t least_cut_ = kNever;
  BeamResult result_;
};

}  // namespace

BeamResult widening_beam(const SearchInstance& in, std::int64_t incumbent, const BeamOptions& options) {
  return Beam(in, incumbent, options).run();
}

}  // namespace braid::pipeline
