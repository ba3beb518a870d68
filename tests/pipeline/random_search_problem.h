// Random problems for the schedule search: unequal costs, latencies, byte caps. Also measured by
// bench/pipeline.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "pipeline/search_problem.h"

namespace braid::pipeline {

// Costs are log-uniform over a factor `spread`, so that ranks are bottlenecks of different strength, or all
// equal (1). A latency is up to `latency` of a mean cost. Any part of a micro-batch's bytes stays from I to
// W. A cap holds between one and `cap_most` micro-batches of the rank's largest stage, in bytes, not whole
// micro-batches; a quarter of the problems has no cap.
struct RandomProblemOptions {
  int ranks_least = 2, ranks_most = 4;
  int microbatches_least = 1, microbatches_most = 8;
  double spread = 4;
  double latency = 0.5;
  double cap_most = 8;
  bool split_backward = true;
};

inline SearchProblem random_search_problem(std::uint64_t seed, const RandomProblemOptions& options,
                                           const std::vector<std::int32_t>& placement = {}) {
  // The distributions of the standard library differ between implementations; the generator does not.
  std::mt19937_64 generator(seed * 0x9E3779B97F4A7C15u + 1);
  const auto unit = [&] { return static_cast<double>(generator() >> 11) * 0x1.0p-53; };
  const auto between = [&](int least, int most) {
    return least + static_cast<int>(generator() % static_cast<std::uint64_t>(most - least + 1));
  };
  const auto cost = [&] {
    return analysis::Time{static_cast<std::int64_t>(50e6 * std::pow(options.spread, unit()))};
  };
  SearchProblem p;
  p.split_backward = options.split_backward;
  p.ranks = between(options.ranks_least, options.ranks_most);
  p.microbatches = between(options.microbatches_least, options.microbatches_most);
  p.rank_of_stage = RankOfStage(placement);
  if (placement.empty())
    for (int s = 0; s < p.ranks; ++s) p.rank_of_stage.push_back(s);
  else
    p.ranks = 1 + *std::max_element(placement.begin(), placement.end());
  for (std::size_t s = 0; s < p.rank_of_stage.size(); ++s) {
    SearchStage stage;
    stage.forward = cost();
    stage.backward_input = cost();
    stage.backward_weight = cost();
    if (!p.split_backward) stage.backward_input += stage.backward_weight;
    stage.activation_bytes = between(64, 256) << 20;
    stage.weight_bytes = static_cast<std::int64_t>(unit() * static_cast<double>(stage.activation_bytes));
    p.stages.push_back(stage);
  }
  const double mean = 50e6 * (1 + options.spread) / 2;
  for (std::size_t s = 0; s + 1 < p.rank_of_stage.size(); ++s) {
    const bool transfer = p.rank_of_stage[s] != p.rank_of_stage[s + 1];
    const analysis::Time latency{transfer ? static_cast<std::int64_t>(unit() * options.latency * mean) : 0};
    p.forward_delay.push_back(latency);
    p.backward_delay.push_back(latency);
  }
  if (between(0, 3) == 0) return p;
  for (int r = 0; r < p.ranks; ++r) {
    std::int64_t largest = 0;
    for (std::size_t s = 0; s < p.stages.size(); ++s)
      if (p.rank_of_stage[s] == r) largest = std::max(largest, p.stages[s].activation_bytes);
    p.byte_cap.push_back(
        static_cast<std::int64_t>(static_cast<double>(largest) * (1 + unit() * (options.cap_most - 1))));
  }
  return p;
}

}  // namespace braid::pipeline
