#include "analysis/offset_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "ir/error.h"
#include "tests/support/random.h"

namespace braid::analysis {
namespace {

bool at_once(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

void expect_sound(const std::vector<Block>& blocks, const Assignment& a, std::int64_t alignment) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(a.offsets[i] % alignment, 0);
    EXPECT_LE(a.offsets[i] + blocks[i].bytes, a.bytes);
    for (std::size_t k = 0; k < i; ++k) {
      if (!at_once(blocks[i], blocks[k]) || blocks[i].bytes == 0 || blocks[k].bytes == 0) continue;
      EXPECT_TRUE(a.offsets[i] + blocks[i].bytes <= a.offsets[k] ||
                  a.offsets[k] + blocks[k].bytes <= a.offsets[i])
          << "blocks " << i << " and " << k;
    }
  }
}

TEST(OffsetAssignment, DisjointLifetimesShareBytes) {
  const std::vector<Block> blocks = {{256, 0, 1}, {256, 1, 2}, {256, 2, 3}};
  EXPECT_EQ(assign_offsets(blocks, 64, 100).bytes, 512);
}

TEST(OffsetAssignment, FillsTheTightestGap) {
  // At step 1: [0, 512) free of what died at 0, beside a gap of 128.
  const std::vector<Block> blocks = {{1024, 0, 3}, {512, 0, 0}, {512, 1, 3}};
  EXPECT_EQ(assign_largest_first(blocks, 64).bytes, 1536);
  EXPECT_EQ(assign_by_time(blocks, 64).bytes, 1536);
}

TEST(OffsetAssignment, MostAliveCountsWholeSlotsAndDeathsBeforeBirths) {
  EXPECT_EQ(most_alive(std::vector<Block>{{100, 0, 1}, {300, 1, 2}, {64, 2, 3}}, 64), 128 + 320);
  EXPECT_EQ(most_alive({}, 64), 0);
}

TEST(OffsetAssignment, FromTheBottomUpIsTriedWhereTheOthersStickOut) {
  int improved = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<Block> blocks;
    for (int n = 0; n < 200; ++n) {
      const int first = static_cast<int>(random() % 300);
      const int length = static_cast<int>(random() % 10 == 0 ? random() % 100 : random() % 8);
      blocks.push_back({std::int64_t{256} << (random() % 12), first, first + length});
    }
    const std::int64_t two = assign_offsets(blocks, 256, 1000).bytes;
    const std::int64_t three = assign_offsets(blocks, 256, 1000, true).bytes;
    EXPECT_LE(three, two);
    improved += three < two;
  }
  EXPECT_GT(improved, 0);
}

TEST(OffsetAssignment, RandomBlocksNeverOverlapAndNeverNeedMoreThanTheirSum) {
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<Block> blocks;
    std::int64_t sum = 0;
    for (int n = static_cast<int>(random() % 60); n > 0; --n) {
      const int first = static_cast<int>(random() % 30);
      blocks.push_back(
          {static_cast<std::int64_t>(random() % 1000), first, first + static_cast<int>(random() % 10)});
      sum += round_up(blocks.back().bytes, 64);
    }
    for (const Assignment& a :
         {assign_largest_first(blocks, 64), assign_by_time(blocks, 64), assign_troubled_first(blocks, 64, 5),
          assign_offsets(blocks, 64, 10), assign_offsets(blocks, 64, 100, true)}) {
      expect_sound(blocks, a, 64);
      EXPECT_GE(a.bytes, most_alive(blocks, 64));
      EXPECT_LE(a.bytes, sum);
    }
  }
}

// Places the longest lifetimes or the largest areas first, each at the lowest end of a placed block (or 0) at
// which it fits.
Assignment lowest_by_hand(const std::vector<Block>& blocks, std::int64_t alignment, bool by_area) {
  const auto bytes = [&](std::size_t b) { return round_up(blocks[b].bytes, alignment); };
  const auto weight = [&](std::size_t b) {
    const std::int64_t steps = blocks[b].last - blocks[b].first + 1;
    return by_area ? steps * bytes(b) : steps;
  };
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
  Assignment out;
  out.offsets.assign(blocks.size(), -1);
  for (const std::size_t b : order) {
    std::set<std::int64_t> places = {0};
    const auto fits = [&](std::int64_t at) {
      for (std::size_t o = 0; o < blocks.size(); ++o) {
        if (out.offsets[o] >= 0 && at_once(blocks[o], blocks[b]) && at < out.offsets[o] + bytes(o) &&
            out.offsets[o] < at + bytes(b))
          return false;
      }
      return true;
    };
    for (std::size_t o = 0; o < blocks.size(); ++o)
      if (out.offsets[o] >= 0) places.insert(out.offsets[o] + bytes(o));
    out.offsets[b] = *std::find_if(places.begin(), places.end(), fits);
    out.bytes = std::max(out.bytes, out.offsets[b] + bytes(b));
  }
  return out;
}

TEST(OffsetAssignment, TheFirstRoundPutsEachBlockAsLowAsPossible) {
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    // With few steps many blocks are alive at the same time, with many steps few are: two search strategies.
    const int steps = i % 2 == 0 ? 20 : 2000;
    std::vector<Block> blocks;
    for (int n = 0; n < 80; ++n) {
      const int first = static_cast<int>(random() % static_cast<std::uint64_t>(steps));
      blocks.push_back({1 + static_cast<std::int64_t>(random() % 2000), first,
                        first + static_cast<int>(random() % (i % 3 == 0 ? 40 : 6))});
    }
    const Assignment by_steps = lowest_by_hand(blocks, 64, false), by_area = lowest_by_hand(blocks, 64, true);
    // The second is not tried where the first is as low as can be.
    const bool first = by_steps.bytes <= by_area.bytes;
    const Assignment found = assign_troubled_first(blocks, 64, 1);
    EXPECT_EQ(found.bytes, first ? by_steps.bytes : by_area.bytes);
    EXPECT_EQ(found.offsets, first ? by_steps.offsets : by_area.offsets);
  }
}

TEST(OffsetAssignment, OverflowIsAUserError) {
  const std::int64_t half = std::numeric_limits<std::int64_t>::max() / 2 + 1;
  EXPECT_THROW(assign_offsets(std::vector<Block>{{half, 0, 1}, {half, 0, 1}}, 64, 10), ir::UserError);
}

}  // namespace
}  // namespace braid::analysis
