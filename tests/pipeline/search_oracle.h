// The shortest makespan of tiny problems by trying every order of every rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "pipeline/search_problem.h"

namespace braid::pipeline {

// Every order of a rank in which W follows I follows F, stage by stage.
inline std::vector<std::vector<Move>> all_orders(const SearchProblem& p, int rank) {
  std::vector<std::vector<Move>> out;
  std::vector<Move> order;
  PerStage<std::array<int, 3>> done(p.stages.ids());
  const auto extend = [&](auto&& self) -> void {
    bool complete = true;
    for (const int s : p.stages.ids()) {
      if (p.rank_of_stage[s] != rank) continue;
      for (int kind = 0; kind < p.kinds(); ++kind) {
        const auto x = static_cast<std::size_t>(kind);
        if (done[s][x] == p.microbatches) continue;
        complete = false;
        if (kind > 0 && done[s][x] == done[s][x - 1]) continue;
        ++done[s][x];
        order.push_back({s, kind});
        self(self);
        order.pop_back();
        --done[s][x];
      }
    }
    if (complete) out.push_back(order);
  };
  extend(extend);
  return out;
}

// INT64_MAX: no order is possible under the caps.
inline std::int64_t shortest_makespan(const SearchProblem& p) {
  std::vector<std::vector<std::vector<Move>>> choices;
  for (int r = 0; r < p.ranks; ++r) choices.push_back(all_orders(p, r));
  std::vector<std::size_t> at(choices.size(), 0);
  Orders orders(choices.size());
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (;;) {
    for (std::size_t r = 0; r < at.size(); ++r) orders[r] = choices[r][at[r]];
    const Evaluation e = evaluate(p, orders);
    if (e.status == Evaluation::Status::ok) best = std::min(best, e.makespan.ps);
    std::size_t r = 0;
    while (r < at.size() && ++at[r] == choices[r].size()) at[r++] = 0;
    if (r == at.size()) return best;
  }
}

}  // namespace braid::pipeline
