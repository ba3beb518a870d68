#include "pipeline/list_schedules.h"

#include <algorithm>
#include <limits>

namespace braid::pipeline {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct Choice {
  Move move{-1, 0};
  std::int64_t start = kNever, end = kNever;
};

class ListScheduler {
 public:
  ListScheduler(const SearchInstance& in, const ListRule& rule)
      : in_(in),
        rule_(rule),
        counts_(counts_size(in), 0),
        times_(times_size(in), 0),
        state_(view(in, counts_, times_)) {
    for (int j = 0; j < 3; ++j) precedence_[rule.first_to_last[j]] = j;
  }

  std::optional<ListSchedule> run() {
    ListSchedule out;
    out.orders.resize(in_.stages_of_rank.size());
    const std::int64_t actions = std::int64_t{in_.kinds} * in_.stages * in_.microbatches;
    for (std::int64_t step = 0; step < actions; ++step) {
      Choice first;
      for (int s = 0; s < in_.stages; ++s)
        each_candidate(s, [&](const Choice& c) {
          if (c.end < first.end || first.move.stage < 0) first = c;
        });
      if (first.move.stage < 0) return std::nullopt;
      const int rank = in_.rank_of_stage[first.move.stage];
      Choice best = first;
      for (const int s : in_.stages_of_rank[rank])
        each_candidate(s, [&](const Choice& c) {
          if (c.start < first.end && before(c, best)) best = c;
        });
      out.makespan = std::max(out.makespan, apply(in_, state_, best.move));
      out.orders[rank].push_back(best.move);
    }
    return out;
  }

 private:
  int window(int s) const {
    const int following = in_.stages - s;
    if (rule_.window == ListRule::Window::one_f_one_b) return following;
    return rule_.window == ListRule::Window::zero_bubble ? 2 * following - 1 : in_.microbatches;
  }

  template <class Visit>
  void each_candidate(int s, Visit visit) const {
    for (int kind = 0; kind < in_.kinds; ++kind) {
      if (!is_candidate(in_, state_, s, kind)) continue;
      if (kind == kForward && state_.done[kForward][s] - state_.done[kInput][s] >= window(s)) continue;
      const std::int64_t start = start_of(in_, state_, s, kind);
      visit({{s, kind}, start, start + in_.cost[kind][s]});
    }
  }

  // Among stages, the action that is nearer to the end of its micro-batch comes first: it releases memory.
  bool before(const Choice& a, const Choice& b) const {
    if (!rule_.wait && a.start != b.start) return a.start < b.start;
    const int x = precedence_[a.move.kind], y = precedence_[b.move.kind];
    if (x != y) return x < y;
    if (a.start != b.start) return a.start < b.start;
    return a.move.kind == kForward ? a.move.stage > b.move.stage : a.move.stage < b.move.stage;
  }

  const SearchInstance& in_;
  const ListRule& rule_;
  int precedence_[3] = {};
  std::vector<std::uint16_t> counts_;
  std::vector<std::int64_t> times_;
  const SearchState state_;
};

}  // namespace

std::optional<ListSchedule> list_schedule(const SearchInstance& in, const ListRule& rule) {
  return ListScheduler(in, rule).run();
}

std::optional<ListSchedule> best_list_schedule(const SearchInstance& in) {
  constexpr int kOrders[][3] = {
      {kInput, kForward, kWeight}, {kForward, kInput, kWeight}, {kInput, kWeight, kForward}};
  std::optional<ListSchedule> best;
  for (const auto window :
       {ListRule::Window::one_f_one_b, ListRule::Window::zero_bubble, ListRule::Window::all})
    for (const auto& order : kOrders)
      for (const bool wait : {true, false}) {
        ListRule rule{window, {order[0], order[1], order[2]}, wait};
        std::optional<ListSchedule> found = list_schedule(in, rule);
        if (found && (!best || found->makespan < best->makespan)) best = std::move(found);
      }
  return best;
}

}  // namespace braid::pipeline
