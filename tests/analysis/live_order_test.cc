// Live bytes that are kept while an order changes, against those that are counted anew for the whole order.
#include "analysis/live_order.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/random.h"
#include "tests/support/random_graph.h"

namespace braid::test {
namespace {

using namespace analysis;

int below(int bound, std::mt19937_64& random) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(bound));
}

// Draws tenants at random. Some are used by no node, or are alive before the first node or after the last.
LiveBytes any_memory(int nodes, std::mt19937_64& random) {
  IdVector<TenantId, LiveTenant> tenants(first_ids<TenantId>(below(2 * nodes + 1, random)));
  for (LiveTenant& t : tenants) {
    t = {below(100, random), random() % 2, random() % 8 == 0, random() % 8 == 0, {}};
    for (const NodeId n : first_ids<NodeId>(nodes)) {
      if (below(nodes, random) < 3) t.nodes.push_back(n);
    }
  }
  return LiveBytes(nodes, std::move(tenants));
}

// Returns the live bytes while the node at a position executes, or after it (`behind`).
SpaceBytes alive(const LiveBytes& live, const Order& order, Position p, bool behind) {
  const IdVector<NodeId, Position> position = positions_of(order);
  SpaceBytes bytes{};
  for (const LiveTenant& t : live.tenants()) {
    const bool born = std::ranges::any_of(t.nodes, [&](NodeId n) { return position[n] <= p; });
    const bool needed = std::ranges::any_of(t.nodes, [&](NodeId n) { return position[n] >= p + behind; });
    if ((born || t.from_begin) && (needed || t.to_end || t.nodes.empty())) bytes[t.space] += t.bytes;
  }
  return bytes;
}

struct Range {
  Position first;
  std::vector<NodeId> nodes;
};
// Any permutation of the nodes of any range, often a short one.
Range any_change(const Order& order, std::mt19937_64& random) {
  const int size = count_of(order), longest = random() % 2 == 0 ? size : std::min(size, 3);
  const int count = below(longest + 1, random);
  const Position first{below(size - count + 1, random)};
  const std::span<const NodeId> nodes = order.slice(first, first + count);
  Range range{first, {nodes.begin(), nodes.end()}};
  std::ranges::shuffle(range.nodes, random);
  return range;
}

TEST(LiveOrder, IsWhatCountingAnewFinds) {
  const std::uint64_t first = first_seed();
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(random_cases(300)); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const LiveBytes live = any_memory(1 + below(12, random), random);
    Order order = identity_order(live.nodes());
    std::ranges::shuffle(order, random);
    LiveOrder kept(&live, order);
    SpaceBytes peaks{};
    for (int change = 0; change < 12; ++change) {
      for (const Position p : order.ids()) {
        const SpaceBytes during = alive(live, order, p, false);
        for (std::size_t s = 0; s < 2; ++s) peaks[s] = std::max(peaks[s], during[s]);
        if (live.empty()) continue;
        ASSERT_EQ(kept.during(p), during) << p.index;
        ASSERT_EQ(kept.before(p), alive(live, order, p - 1, true)) << p.index;
        ASSERT_EQ(kept.before(p + 1), alive(live, order, p, true)) << p.index;
      }
      ASSERT_EQ(kept.order(), order);
      for (const Position p : order.ids()) ASSERT_EQ(kept.position(order[p]), p);
      ASSERT_EQ(kept.peaks(), peaks);
      const Range range = any_change(order, random);
      const SpaceBytes expected = kept.peaks_with(range.first, range.nodes);
      ASSERT_EQ(kept.peaks(), peaks) << "a question changes nothing";
      if (change % 3 == 1) continue;  // only asked
      kept.replace(range.first, range.nodes);
      ASSERT_EQ(kept.peaks(), expected);
      std::ranges::copy(range.nodes, order.begin() + range.first.index);
    }
    kept.set(order);
    for (std::size_t s = 0; s < 2; ++s) {
      std::int64_t most = 0;
      for (const Position p : order.ids()) most = std::max(most, alive(live, order, p, false)[s]);
      ASSERT_EQ(kept.peaks()[s], most) << "of this order alone";
    }
  }
}

TEST(LiveOrder, WithInPlaceReuseIsTheMemoryModel) {
  const std::uint64_t first = first_seed();
  std::ptrdiff_t handed_on = 0;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(random_cases(100)); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const MemoryModel memory(random_program(seed, 20).schedule);
    const LiveBytes live(memory, true), apart(memory, false);
    if (live.empty()) continue;
    LiveOrder kept(&live, identity_order(memory.nodes())), kept_apart(&apart, kept.order());
    std::mt19937_64 random(seed);
    for (int change = 0; change < 20; ++change) {
      const MemoryModel::Live anew = memory.live(kept.order());
      for (const Position p : anew.bytes.ids()) {
        ASSERT_EQ(total(kept.during(p)), anew.bytes[p]) << p.index;
        ASSERT_EQ(kept_apart.during(p), alive(live, kept.order(), p, false)) << p.index;
      }
      handed_on += std::ranges::count_if(memory.takes(kept.order()), &TenantId::valid);
      const Range range = any_change(kept.order(), random);
      const SpaceBytes expected = kept.peaks_with(range.first, range.nodes);
      kept.replace(range.first, range.nodes);
      kept_apart.replace(range.first, range.nodes);
      ASSERT_EQ(kept.peaks(), expected);
    }
  }
  EXPECT_GT(handed_on, 0);
}

}  // namespace
}  // namespace braid::test
