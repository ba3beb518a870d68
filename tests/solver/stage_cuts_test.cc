// Cuts of chains into pipeline stages, against all cuts.
#include "solver/stage_cuts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/support/random.h"

namespace braid::solver {
namespace {

// A stage as the header defines it.
StageCuts::Stage priced(const StageChain& chain, ChainNodeId begin, ChainNodeId end, int stage, bool last,
                        const StageTransfer& transfer) {
  StageCuts::Stage own{begin, end};
  std::int64_t most = 0;
  for (const ChainNodeId k : IdRange(begin, end)) {
    own.compute += chain.nodes[k];
    most = std::max(most, chain.live[k]);
  }
  own.bytes = most;
  for (const StageChain::Shared& shared : chain.shared) {
    bool here = false;
    for (const ChainNodeId reader : shared.readers) here = here || (begin <= reader && reader < end);
    if (!here) continue;
    own.compute += shared.cost;
    own.bytes += shared.bytes;
  }
  own.sent = last ? 0 : chain.passing[end];
  own.transfer = own.sent == 0 ? 0 : transfer(stage, own.sent);
  return own;
}

// The shortest longest stage of all cuts, and the least transfers of those that have it; nullopt: none fits.
std::optional<std::pair<Cost, Cost>> by_trying_all(const StageChain& chain, int stages,
                                                   const StageTransfer& transfer,
                                                   std::optional<std::int64_t> memory) {
  const ChainNodeId behind = chain.nodes.end_id();
  std::optional<std::pair<Cost, Cost>> best;
  const auto extend = [&](const auto& self, int stage, ChainNodeId begin, Cost longest,
                          Cost transfers) -> void {
    const bool last = stage + 1 == stages;
    for (ChainNodeId end = last ? behind : begin + 1; end <= (last ? behind : behind - 1); ++end) {
      if (begin >= end || (!last && chain.may_cut[end] == 0)) continue;
      const StageCuts::Stage own = priced(chain, begin, end, stage, last, transfer);
      if (memory && own.bytes > *memory) continue;
      const std::pair next{std::max(longest, own.cost()), transfers + own.transfer};
      if (!last) {
        self(self, stage + 1, end, next.first, next.second);
      } else if (!best || next < *best) {
        best = next;
      }
    }
  };
  extend(extend, 0, ChainNodeId{0}, 0, 0);
  return best;
}

TEST(StageCuts, AreTheBestOfAllCuts) {
  const auto seed = static_cast<std::uint64_t>(test::first_seed(20261127));
  std::mt19937_64 random(seed);
  const auto upto = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int feasible = 0, infeasible = 0, capped = 0;
  const int cases = test::random_cases(1000);
  for (int k = 0; k < cases; ++k) {
    SCOPED_TRACE(fmt::format("seed {}, case {}", seed, k));
    const int nodes = 1 + static_cast<int>(upto(10)), stages = 1 + static_cast<int>(upto(4));
    StageChain chain;
    for (int n = 0; n < nodes; ++n) {
      chain.nodes.push_back(upto(20));
      chain.live.push_back(upto(30));
      chain.passing.push_back(upto(3) * 5);
      chain.may_cut.push_back(upto(5) > 0 ? 1 : 0);
    }
    for (std::int64_t s = upto(6); s > 0; --s) {
      std::set<ChainNodeId> readers;
      for (std::int64_t r = 1 + upto(3); r > 0; --r) readers.insert({static_cast<int>(upto(nodes))});
      chain.shared.push_back({upto(2) * upto(15), upto(40), {readers.begin(), readers.end()}});
    }
    // Links differ between stages.
    const StageTransfer transfer = [k](int stage, std::int64_t bytes) { return bytes + (stage + k) % 3 * 4; };
    std::optional<std::int64_t> memory;
    if (k % 2 == 1) memory = 20 + upto(90);
    const std::optional<StageCuts> cuts = cut_stages(chain, stages, transfer, memory);
    const auto expected = by_trying_all(chain, stages, transfer, memory);
    ASSERT_EQ(cuts.has_value(), expected.has_value());
    (cuts ? feasible : infeasible) += 1;
    if (!cuts) continue;
    ASSERT_EQ(count_of(cuts->stages), stages);
    Cost longest = 0, transfers = 0;
    ChainNodeId begin{0};
    for (int s = 0; s < stages; ++s) {
      const StageCuts::Stage& own = cuts->stages[s];
      ASSERT_TRUE(own.begin == begin);
      begin = own.end;
      const StageCuts::Stage again = priced(chain, own.begin, own.end, s, s + 1 == stages, transfer);
      EXPECT_EQ(own.compute, again.compute);
      EXPECT_EQ(own.transfer, again.transfer);
      EXPECT_EQ(own.bytes, again.bytes);
      EXPECT_EQ(own.sent, again.sent);
      longest = std::max(longest, own.cost());
      transfers += own.transfer;
    }
    ASSERT_TRUE(begin == chain.nodes.end_id());
    EXPECT_EQ(cuts->longest, longest);
    EXPECT_EQ(std::pair(longest, transfers), *expected);
    capped += memory ? 1 : 0;
  }
  fmt::print("{} chains: {} cut, {} of them under a limit; {} have no cut; seed {}\n", cases, feasible,
             capped, infeasible, seed);
  EXPECT_GT(capped, cases / 10);
  EXPECT_GT(infeasible, cases / 50);
}

}  // namespace
}  // namespace braid::solver
