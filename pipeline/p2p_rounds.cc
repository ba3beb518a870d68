#include "pipeline/p2p_rounds.h"

#include <algorithm>
#include <set>

namespace braid::pipeline {

std::vector<std::vector<P2pConnection>> p2p_rounds(const RankOfStage& rank_of_stage, bool backward) {
  std::set<P2pConnection> connections;
  for (int s = 0; s + 1 < count_of(rank_of_stage); ++s) {
    const int from = rank_of_stage[s], to = rank_of_stage[s + 1];
    if (from == to) continue;
    connections.insert({from, to});
    if (backward) connections.insert({to, from});
  }
  std::set<P2pConnection> pairs;
  for (const auto [from, to] : connections) pairs.insert({std::min(from, to), std::max(from, to)});

  struct Round {
    std::vector<P2pConnection> up, down;
    std::set<int> busy;
  };
  std::vector<Round> rounds;
  for (const auto& pair : pairs) {
    const int low = pair.from, high = pair.to;
    auto round = std::ranges::find_if(
        rounds, [&](const Round& r) { return !r.busy.contains(low) && !r.busy.contains(high); });
    if (round == rounds.end()) round = rounds.insert(rounds.end(), Round{});
    round->busy.insert({low, high});
    if (connections.contains({low, high})) round->up.push_back({low, high});
    if (connections.contains({high, low})) round->down.push_back({high, low});
  }
  std::vector<std::vector<P2pConnection>> out;
  for (Round& r : rounds)
    for (auto* half : {&r.up, &r.down})
      if (!half->empty()) out.push_back(std::move(*half));
  return out;
}

}  // namespace braid::pipeline
