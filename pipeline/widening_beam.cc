#include "pipeline/widening_beam.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "pipeline/lower_bounds.h"

namespace braid::pipeline {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// States with equally many actions scheduled.
struct Layer {
  std::vector<std::uint16_t> counts;
  std::vector<std::int64_t> times;
  std::vector<LowerBounds::Value> values;
  std::vector<std::uint32_t> parents;
  std::vector<Move> moves;
  std::vector<std::uint32_t> same_counts;  // next state with equal counts
  std::vector<std::uint32_t> table;        // open addressing by counts: first state

  std::size_t size() const { return values.size(); }
  void clear() {
    counts.clear(), times.clear(), values.clear(), parents.clear(), moves.clear(), same_counts.clear();
    std::fill(table.begin(), table.end(), kNone);
  }
};

struct Step {  // what is needed to read a schedule back
  std::uint32_t parent;
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
      const bool finished = pass(static_cast<std::size_t>(width));
      if (finished) proved = std::max(proved, std::min(least_cut_, result_.makespan));
      if (finished && least_cut_ >= result_.makespan) proved = result_.makespan;
      if (!finished || proved >= result_.makespan || width == most) break;
    }
    result_.complete = proved >= result_.makespan;
    result_.lower_bound = std::min(proved, result_.makespan);
    return std::move(result_);
  }

 private:
  // One run. False when the budget ended it.
  bool pass(std::size_t width) {
    steps_.clear();
    now_.clear();
    now_.counts.assign(counts_n_, 0);
    now_.times.assign(times_n_, 0);
    now_.values.push_back({});
    const std::int64_t layers = std::int64_t{in_.kinds} * in_.stages * in_.microbatches;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      next_.clear();
      for (std::uint32_t j = 0; j < now_.size(); ++j) {
        if (now_.values[j].bound >= result_.makespan) continue;
        scratch_counts_.assign(now_.counts.begin() + static_cast<std::ptrdiff_t>(j * counts_n_),
                               now_.counts.begin() + static_cast<std::ptrdiff_t>((j + 1) * counts_n_));
        parent_times_ = now_.times.data() + j * times_n_;
        if (!expand(j, layer + 1 == layers)) return false;
      }
      if (next_.size() == 0) return true;
      if (layer + 1 < layers) keep_best(width);
      std::swap(now_, next_);
    }
    return true;
  }

  // Children of the state in scratch_counts_ / parent_times_.
  bool expand(std::uint32_t parent, bool last) {
    for (;;) {
      const SearchState st = view(in_, scratch_counts_.data(), const_cast<std::int64_t*>(parent_times_));
      Move first{-1, 0};
      std::int64_t first_end = kNever;
      each_candidate(st, [&](Move m, std::int64_t start) {
        const std::int64_t end = start + cost(m);
        if (end < first_end) first_end = end, first = m;
      });
      if (first.stage < 0) return true;  // stuck, or everything left is held
      const int rank = in_.rank_of_stage[static_cast<std::size_t>(first.stage)];
      bool in_budget = true;
      for (const int s : in_.stages_of_rank[static_cast<std::size_t>(rank)])
        for (int kind = 0; kind < in_.kinds; ++kind) {
          const Move m{static_cast<std::int16_t>(s), static_cast<std::int16_t>(kind)};
          if (!is_candidate(in_, st, s, kind)) continue;
          if (start_of(in_, st, s, kind) < first_end || m == first) in_budget &= child(parent, m, last);
        }
      if (!in_budget) return false;
      if (first.kind != kForward || !in_.may_hold[static_cast<std::size_t>(rank)]) return true;
      scratch_counts_[3 * static_cast<std::size_t>(in_.stages) + static_cast<std::size_t>(first.stage)] = 1;
    }
  }

  bool child(std::uint32_t parent, Move move, bool last) {
    if (result_.nodes >= options_.node_budget) return false;
    ++result_.nodes;
    child_counts_ = scratch_counts_;
    child_times_.assign(parent_times_, parent_times_ + times_n_);
    const SearchState st = view(in_, child_counts_.data(), child_times_.data());
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

  void insert(LowerBounds::Value value, std::uint32_t parent, Move move) {
    if (next_.table.size() < 2 * (next_.size() + 1)) grow_table();
    const std::size_t slot = find(child_counts_.data());
    std::uint32_t reuse = kNone;
    for (std::uint32_t j = next_.table[slot]; j != kNone; j = next_.same_counts[j]) {
      const int order = compare(next_.times.data() + j * times_n_);
      if (order <= 0) return;
      if (order ==
          1) {  // the new one is better: takes its place; of several, all but one fall at their bound
        if (reuse == kNone)
          reuse = j;
        else
          next_.values[j].bound = kNever;
      }
    }
    if (reuse != kNone) {
      std::copy(child_times_.begin(), child_times_.end(),
                next_.times.begin() + static_cast<std::ptrdiff_t>(reuse * times_n_));
      next_.values[reuse] = value;
      next_.parents[reuse] = parent;
      next_.moves[reuse] = move;
      return;
    }
    const auto j = static_cast<std::uint32_t>(next_.size());
    next_.counts.insert(next_.counts.end(), child_counts_.begin(), child_counts_.end());
    next_.times.insert(next_.times.end(), child_times_.begin(), child_times_.end());
    next_.values.push_back(value);
    next_.parents.push_back(parent);
    next_.moves.push_back(move);
    next_.same_counts.push_back(next_.table[slot]);
    next_.table[slot] = j;
  }

  // The stored state against the child: -1 or 0 it dominates, 1 it is dominated, 2 neither.
  int compare(const std::int64_t* stored) {
    const std::int64_t* mine = child_times_.data();
    bool less = false, more = false;  // the stored one somewhere
    const auto look = [&](std::int64_t theirs, std::int64_t ours) {
      less |= theirs < ours;
      more |= theirs > ours;
      return less && more;
    };
    for (int r = 0; r < in_.ranks; ++r)
      if (look(stored[r], mine[r])) return 2;
    const SearchState st = view(in_, child_counts_.data(), child_times_.data());
    for (int s = 0; s < in_.stages; ++s) {
      const int r = in_.rank_of_stage[static_cast<std::size_t>(s)];
      for (int kind = 0; kind < 2; ++kind) {
        if (kind == kForward && s == 0) continue;
        const int from = st.done[kind][s];
        const int to = kind == kForward      ? st.done[kForward][s - 1]
                       : s + 1 == in_.stages ? st.done[kForward][s]
                                             : st.done[kInput][s + 1];
        const std::size_t base = static_cast<std::size_t>(st.ready[kind] - mine);
        for (int k = from; k < to; ++k) {
          const std::size_t x = base + in_.at(s, k);
          if (look(std::max(stored[x], stored[r]), std::max(mine[x], mine[r]))) return 2;
        }
      }
    }
    return less ? -1 : more ? 1 : 0;
  }

  void keep_best(std::size_t width) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t j = 0; j < next_.size(); ++j)
      if (next_.values[j].bound < result_.makespan) order.push_back(j);
    if (order.size() > width) {
      const auto better = [&](std::uint32_t a, std::uint32_t b) {
        const LowerBounds::Value &x = next_.values[a], &y = next_.values[b];
        if (x.bound != y.bound) return x.bound < y.bound;
        if (x.sum != y.sum) return x.sum < y.sum;
        return a < b;
      };
      std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(width), order.end(),
                       better);
      for (std::size_t j = width; j < order.size(); ++j)
        least_cut_ = std::min(least_cut_, next_.values[order[j]].bound);
      order.resize(width);
      std::sort(order.begin(), order.end());
    }
    // Compact in place: rising order.
    std::vector<Step> kept;
    kept.reserve(order.size());
    for (std::size_t to = 0; to < order.size(); ++to) {
      const std::size_t from = order[to];
      kept.push_back({next_.parents[from], next_.moves[from]});
      if (from == to) continue;
      std::copy_n(next_.counts.begin() + static_cast<std::ptrdiff_t>(from * counts_n_), counts_n_,
                  next_.counts.begin() + static_cast<std::ptrdiff_t>(to * counts_n_));
      std::copy_n(next_.times.begin() + static_cast<std::ptrdiff_t>(from * times_n_), times_n_,
                  next_.times.begin() + static_cast<std::ptrdiff_t>(to * times_n_));
      next_.values[to] = next_.values[from];
    }
    next_.counts.resize(order.size() * counts_n_);
    next_.times.resize(order.size() * times_n_);
    next_.values.resize(order.size());
    steps_.push_back(std::move(kept));
  }

  void read_back(std::uint32_t parent, Move move) {
    result_.orders.assign(static_cast<std::size_t>(in_.ranks), {});
    const auto put = [&](Move m) {
      const int r = in_.rank_of_stage[static_cast<std::size_t>(m.stage)];
      result_.orders[static_cast<std::size_t>(r)].push_back(m);
    };
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
        if (is_candidate(in_, st, s, kind))
          visit(Move{static_cast<std::int16_t>(s), static_cast<std::int16_t>(kind)},
                start_of(in_, st, s, kind));
  }

  std::int64_t cost(Move m) const { return in_.cost[m.kind][static_cast<std::size_t>(m.stage)]; }

  // The slot of these counts, or the empty one where they belong.
  std::size_t find(const std::uint16_t* counts) const {
    std::uint64_t h = 1469598103934665603u;
    for (std::size_t j = 0; j < counts_n_; ++j) h = (h ^ counts[j]) * 1099511628211u;
    h ^= h >> 29;
    const std::size_t mask = next_.table.size() - 1;
    for (std::size_t slot = h & mask;; slot = (slot + 1) & mask) {
      const std::uint32_t j = next_.table[slot];
      if (j == kNone || std::equal(counts, counts + counts_n_, next_.counts.data() + j * counts_n_))
        return slot;
    }
  }

  void grow_table() {
    next_.table.assign(std::max<std::size_t>(1024, 4 * next_.table.size()), kNone);
    for (std::uint32_t j = 0; j < next_.size(); ++j) {
      const std::size_t slot = find(next_.counts.data() + j * counts_n_);
      next_.same_counts[j] = next_.table[slot];
      next_.table[slot] = j;
    }
  }

  const SearchInstance& in_;
  const BeamOptions options_;
  LowerBounds bounds_;
  const std::size_t counts_n_, times_n_;
  Layer now_, next_;
  std::vector<std::vector<Step>> steps_;  // per layer from the first
  std::vector<std::uint16_t> scratch_counts_, child_counts_;
  std::vector<std::int64_t> child_times_;
  const std::int64_t* parent_times_ = nullptr;
  std::int64_t least_cut_ = kNever;
  BeamResult result_;
};

}  // namespace

BeamResult widening_beam(const SearchInstance& in, std::int64_t incumbent, const BeamOptions& options) {
  return Beam(in, incumbent, options).run();
}

}  // namespace braid::pipeline
