// Sectors and wavefronts that the emulated device counts, held against a slow count of the same accesses.
#include "tests/emulated/counted.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "runtime/emulated/access_counter.h"
#include "runtime/emulated/kernel_counts.h"
#include "tests/emulated/support.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using emulated::KernelCounts;
using emulated::SiteCounts;

struct Access {
  int lane;
  uint64_t address;  // from an aligned beginning
  int bytes;
};
using WarpAccess = std::vector<Access>;  // of the lanes that take part in it

struct Expected {
  uint64_t accesses = 0, lanes = 0, bytes = 0, units = 0, least = 0, lines = 0;
  friend bool operator==(const Expected&, const Expected&) = default;
  friend void PrintTo(const Expected& e, std::ostream* out) {
    *out << e.accesses << " accesses of " << e.lanes << " lanes and " << e.bytes << " bytes, " << e.units
         << " units, " << e.least << " at least, " << e.lines << " lines";
  }
};
Expected of(const SiteCounts& s) { return {s.accesses, s.lanes, s.bytes, s.units, s.least, s.lines}; }

// Byte by byte.
Expected slow_sectors(const std::vector<WarpAccess>& trace) {
  Expected e;
  for (const WarpAccess& access : trace) {
    if (access.empty()) continue;
    std::set<uint64_t> sectors, bytes, lines;
    for (const Access& a : access) {
      for (int k = 0; k < a.bytes; ++k) {
        sectors.insert((a.address + k) / 32), lines.insert((a.address + k) / 128);
        bytes.insert(a.address + k);
      }
      ++e.lanes, e.bytes += a.bytes;
    }
    ++e.accesses;
    e.units += sectors.size();
    e.lines += lines.size();
    e.least += (bytes.size() + 31) / 32;
  }
  return e;
}
Expected slow_wavefronts(const std::vector<WarpAccess>& trace, int bytes) {
  Expected e;
  const int parts = bytes <= 4 ? 1 : bytes == 8 ? 2 : 4;
  for (const WarpAccess& access : trace) {
    if (access.empty()) continue;
    ++e.accesses;
    for (int part = 0; part < parts; ++part) {
      std::map<uint64_t, std::set<uint64_t>> words_of_bank;
      std::set<uint64_t> words;
      for (const Access& a : access) {
        if (a.lane / (32 / parts) != part) continue;
        for (int k = 0; k < a.bytes; ++k) {
          const uint64_t word = (a.address + k) / 4;
          words_of_bank[word % 32].insert(word);
          words.insert(word);
        }
        ++e.lanes, e.bytes += a.bytes;
      }
      size_t most = 0;
      for (const auto& [bank, in_bank] : words_of_bank) most = std::max(most, in_bank.size());
      e.units += most;
      e.least += (words.size() + 31) / 32;
    }
  }
  return e;
}

// Returns the size of all sectors that are touched.
uint64_t bytes_of_sectors(const std::vector<WarpAccess>& trace) {
  std::set<uint64_t> sectors;
  for (const WarpAccess& access : trace)
    for (const Access& a : access)
      for (int k = 0; k < a.bytes; ++k) sectors.insert((a.address + static_cast<uint64_t>(k)) / 32);
  return sectors.size() * 32;
}

std::vector<WarpAccess> trace_of(const CountedPattern& p) {
  std::vector<WarpAccess> trace;
  for (int first = 0; first < p.threads; first += 32) {
    for (int turn = 0; turn < p.turns; ++turn) {
      WarpAccess& access = trace.emplace_back();
      for (int lane = 0; lane < 32 && first + lane < p.threads; ++lane)
        if ((p.active >> lane & 1) != 0)
          access.push_back(
              {lane,
               static_cast<uint64_t>(p.offset + (first + lane) * p.stride + turn * p.turn_stride) * p.bytes,
               p.bytes});
    }
  }
  return trace;
}

class CountedTest : public EmulatedTest {
 protected:
  void SetUp() override {
    EmulatedTest::SetUp();
    emulated::options().count_accesses = true;
    emulated::take_kernel_counts();
  }
  // The only kernel that has run.
  static KernelCounts counted() {
    std::vector<KernelCounts> all = emulated::take_kernel_counts();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? KernelCounts{} : all[0];
  }
  static std::vector<SiteCounts> sites(const KernelCounts& counts, bool shared, int kind) {
    std::vector<SiteCounts> result;
    for (const SiteCounts& site : counts.sites)
      if (site.shared == shared && site.kind == kind) result.push_back(site);
    return result;
  }
  static SiteCounts only(const KernelCounts& counts, bool shared, int kind) {
    const std::vector<SiteCounts> found = sites(counts, shared, kind);
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? SiteCounts{} : found[0];
  }
  static Expected reads(const CountedPattern& p) {
    EXPECT_EQ(run_counted_reads(p), nullptr);
    return of(only(counted(), false, 0));
  }
  static void expect_shared(const CountedPattern& p) {
    ASSERT_EQ(run_counted_shared(p), nullptr);
    const KernelCounts counts = counted();
    const Expected expected = slow_wavefronts(trace_of(p), p.bytes);
    EXPECT_EQ(of(only(counts, true, 1)), expected);
    EXPECT_EQ(of(only(counts, true, 0)), expected);
  }
};

TEST_F(CountedTest, SectorsOfGlobalReads) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_EQ(reads({.bytes = 4}), (Expected{1, 32, 128, 4, 4, 1}));
  EXPECT_EQ(reads({.bytes = 2}), (Expected{1, 32, 64, 2, 2, 1}));
  EXPECT_EQ(reads({.bytes = 16}), (Expected{1, 32, 512, 16, 16, 4}));
  EXPECT_EQ(reads({.bytes = 4, .offset = 1}), (Expected{1, 32, 128, 5, 4, 2})) << "a misaligned start";
  EXPECT_EQ(reads({.bytes = 4, .stride = 2}), (Expected{1, 32, 128, 8, 4, 2}));
  EXPECT_EQ(reads({.bytes = 4, .stride = 32}), (Expected{1, 32, 128, 32, 4, 32}));
  EXPECT_EQ(reads({.bytes = 4, .stride = 0}), (Expected{1, 32, 128, 1, 1, 1})) << "a broadcast";
  EXPECT_EQ(reads({.bytes = 4, .threads = 40}), (Expected{2, 40, 160, 5, 5, 2})) << "a partial warp";
  EXPECT_EQ(reads({.bytes = 4, .active = 0x55555555u}), (Expected{1, 16, 64, 4, 2, 1})) << "every other lane";
  EXPECT_EQ(reads({.bytes = 2, .turn_stride = 4096, .turns = 3}), (Expected{3, 96, 192, 6, 6, 3}));
}

TEST_F(CountedTest, WavefrontsOfSharedMemory) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  const auto wavefronts = [](const CountedPattern& p) {
    EXPECT_EQ(run_counted_shared(p), nullptr);
    return of(only(counted(), true, 0)).units;
  };
  EXPECT_EQ(wavefronts({.bytes = 4}), 1u);
  EXPECT_EQ(wavefronts({.bytes = 4, .stride = 2}), 2u);
  EXPECT_EQ(wavefronts({.bytes = 4, .stride = 32}), 32u);
  EXPECT_EQ(wavefronts({.bytes = 4, .stride = 33}), 1u);
  EXPECT_EQ(wavefronts({.bytes = 2}), 1u) << "two lanes in a word are no conflict";
  EXPECT_EQ(wavefronts({.bytes = 8}), 2u);
  EXPECT_EQ(wavefronts({.bytes = 8, .stride = 2}), 4u);
  EXPECT_EQ(wavefronts({.bytes = 16}), 4u);
  EXPECT_EQ(wavefronts({.bytes = 16, .stride = 2}), 8u);
  EXPECT_EQ(wavefronts({.bytes = 16, .active = 0xff}), 1u);
}

TEST_F(CountedTest, AreThoseOfASlowCount) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  const int cases = random_cases(60);
  for (int k = 0; k < cases; ++k) {
    const uint64_t seed = first_seed() + static_cast<uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
    CountedPattern p;
    p.bytes = 1 << draw(0, 4);
    p.threads = draw(1, 130);
    p.turns = draw(1, 4);
    p.offset = draw(0, 40);
    p.stride = draw(0, 3) == 0 ? draw(0, 3) * 16 : draw(0, 9);
    p.turn_stride = draw(0, 200);
    p.active = draw(0, 1) == 0 ? 0xffffffffu : static_cast<unsigned>(random()) | 1;
    ASSERT_EQ(run_counted_reads(p), nullptr);
    const KernelCounts counts = counted();
    EXPECT_EQ(of(only(counts, false, 0)), slow_sectors(trace_of(p)));
    CountedPattern writes = p;
    writes.offset = writes.turn_stride = 0;
    writes.stride = 1;
    EXPECT_EQ(of(only(counts, false, 1)), slow_sectors(trace_of(writes)));
    EXPECT_EQ(counts.read_bytes, bytes_of_sectors(trace_of(p)));
    EXPECT_EQ(counts.written_bytes, bytes_of_sectors(trace_of(writes)));
    EXPECT_EQ(counts.block_sectors * 32, counts.read_bytes);
    // Threads of a block write apart: a turn is a whole block's elements further.
    p.stride = std::max<int64_t>(p.stride, 1);
    p.turns = std::min(p.turns, 2);
    p.turn_stride = p.stride * p.threads;
    if ((p.offset + 2 * p.turn_stride) * p.bytes > 48 * 1024) continue;
    expect_shared(p);
  }
}

TEST_F(CountedTest, AChangedStrideIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  const CountedPattern good{.bytes = 4, .threads = 64};
  for (const int64_t stride : {0, 2, 3, 8})
    EXPECT_NE(reads({.bytes = 4, .threads = 64, .stride = stride}), slow_sectors(trace_of(good))) << stride;
}

TEST_F(CountedTest, TransposedThroughSharedMemory) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  ASSERT_EQ(run_counted_tile(32), nullptr);
  KernelCounts counts = counted();
  EXPECT_EQ(of(only(counts, true, 1)), (Expected{32, 1024, 4096, 32, 32}));
  EXPECT_EQ(of(only(counts, true, 0)), (Expected{32, 1024, 4096, 1024, 32}));
  EXPECT_EQ(of(only(counts, false, 0)), (Expected{32, 1024, 4096, 128, 128, 32}));
  EXPECT_EQ(counts.barriers, 1u);
  EXPECT_EQ(counts.threads, 256u);
  EXPECT_EQ(counts.launches, 1u);
  ASSERT_EQ(run_counted_tile(33), nullptr);
  counts = counted();
  EXPECT_EQ(of(only(counts, true, 0)), (Expected{32, 1024, 4096, 32, 32}));
}

TEST_F(CountedTest, BranchesAreApart) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  ASSERT_EQ(run_counted_branches(), nullptr);
  std::vector<Expected> found;
  std::vector<std::string> places;
  for (const SiteCounts& site : sites(counted(), false, 0))
    found.push_back(of(site)), places.push_back(site.place);
  EXPECT_THAT(found,
              ::testing::UnorderedElementsAre(Expected{1, 16, 64, 2, 2, 1}, Expected{1, 16, 64, 16, 2, 4}));
  EXPECT_THAT(places, ::testing::Each(::testing::EndsWith("of counted.cu")));
}

TEST_F(CountedTest, PacksInPartsAreOneAccess) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  ASSERT_EQ(run_counted_parts(), nullptr);
  const KernelCounts counts = counted();
  Expected all;
  for (const SiteCounts& site : sites(counts, false, 0)) {
    all.accesses += site.accesses, all.lanes += site.lanes, all.bytes += site.bytes;
    all.units += site.units, all.least += site.least, all.lines += site.lines;
  }
  EXPECT_EQ(all, (Expected{4, 128, 2048, 64, 64, 16}));
  EXPECT_EQ(of(only(counts, false, 1)), (Expected{2, 64, 1024, 32, 32, 8}));
}

TEST_F(CountedTest, LanesThatSynchroniseApartCountApart) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  ASSERT_EQ(run_counted_halves(), nullptr);
  const KernelCounts counts = counted();
  EXPECT_EQ(of(only(counts, false, 0)), (Expected{2, 32, 128, 4, 4, 2}));
  EXPECT_EQ(of(only(counts, false, 1)), (Expected{1, 32, 128, 4, 4, 1}));
}

TEST_F(CountedTest, Atomics) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  ASSERT_EQ(run_counted_atomics(), nullptr);
  const KernelCounts counts = counted();
  EXPECT_EQ(of(only(counts, false, 2)), (Expected{8, 256, 1024, 8, 8, 8}));
  EXPECT_EQ(counts.blocks, 4u);
  EXPECT_EQ(counts.written_bytes, 32u) << "a sector";
}

TEST_F(CountedTest, TurnsBeyondThoseKeptCountAsThose) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  constexpr int kTurns = 40000;
  ASSERT_EQ(run_counted_long(kTurns), nullptr);
  const SiteCounts reads = only(counted(), false, 0);
  EXPECT_EQ(of(reads),
            (Expected{2 * kTurns, 64 * kTurns, 256ull * kTurns, 8 * kTurns, 8 * kTurns, 2 * kTurns}));
}

TEST_F(CountedTest, IntervalsInWhichThreadsRead) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  ASSERT_EQ(run_counted_long(7), nullptr);
  EXPECT_EQ(counted().read_intervals, 64u) << "nothing synchronises the turns";
  ASSERT_EQ(run_counted_halves(), nullptr);
  EXPECT_EQ(counted().read_intervals, 32u);
  ASSERT_EQ(run_counted_tile(33), nullptr);
  EXPECT_EQ(counted().read_intervals, 256u) << "none behind the barrier";
}

TEST_F(CountedTest, SectorsThatABlockReadsAgainCountOnce) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  ASSERT_EQ(run_counted_reads({.bytes = 4, .threads = 64, .turns = 3}), nullptr);
  KernelCounts counts = counted();
  EXPECT_EQ(only(counts, false, 0).units, 24u);
  EXPECT_EQ(counts.block_sectors, 8u);
  ASSERT_EQ(run_counted_columns(), nullptr);
  counts = counted();
  EXPECT_EQ(of(only(counts, false, 0)), (Expected{16, 512, 2048, 512, 64, 128}))
      << "a sector for each element";
  EXPECT_EQ(counts.block_sectors, 512u) << "blocks of one column each share no sector within themselves";
  EXPECT_EQ(counts.read_bytes, 64u * 32) << "but DRAM delivers it once";
}

TEST_F(CountedTest, MatricesMoveEightRowsAtOnce) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  const int cases = random_cases(20);
  for (int k = 0; k < cases; ++k) {
    const uint64_t seed = first_seed() + static_cast<uint64_t>(k);
    std::mt19937_64 random(seed);
    // Rows of any place, or of places that leave few groups of banks.
    std::vector<int> place(128);
    for (int i = 0; i < 128; ++i) place[i] = k % 2 == 0 ? i : i * 8 % 128 + i / 16;
    if (k > 1) std::shuffle(place.begin(), place.end(), random);
    for (const int matrices : {1, 2, 4}) {
      for (const bool store : {false, true}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(matrices) +
                     (store ? " stored" : ""));
        ASSERT_EQ(run_counted_matrices(matrices, place.data(), store), nullptr);
        WarpAccess access;
        for (int lane = 0; lane < 8 * matrices; ++lane)
          access.push_back({lane, static_cast<uint64_t>(place[lane]) * 16, 16});
        const Expected expected = slow_wavefronts({access}, 16);
        if (k == 0) {
          EXPECT_EQ(expected.units, static_cast<uint64_t>(matrices)) << "a wavefront for each matrix";
        } else if (k == 1) {
          EXPECT_EQ(expected.units, 8u * static_cast<uint64_t>(matrices)) << "all rows in the same banks";
        }
        EXPECT_EQ(of(only(counted(), true, store ? 1 : 0)), expected);
      }
    }
  }
}

TEST_F(CountedTest, AsynchronousCopiesReadSectorsAndWriteBanks) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  const int cases = random_cases(20);
  for (int k = 0; k < cases; ++k) {
    const uint64_t seed = first_seed() + static_cast<uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
    const int bytes = 4 << draw(0, 2), valid = draw(0, 2) == 0 ? draw(0, bytes) : bytes;
    const int source_stride = draw(1, 40), target_stride = draw(1, 40);
    ASSERT_EQ(run_counted_copies(bytes, valid, source_stride, target_stride), nullptr);
    const KernelCounts counts = counted();
    std::vector<WarpAccess> reads(2), writes(2);
    for (int i = 0; i < 64; ++i) {
      reads[i / 32].push_back({i % 32, static_cast<uint64_t>(i * bytes * source_stride), valid});
      writes[i / 32].push_back({i % 32, static_cast<uint64_t>(i * bytes * target_stride), bytes});
    }
    EXPECT_EQ(of(only(counts, true, 1)), slow_wavefronts(writes, bytes));
    if (valid == 0) {
      EXPECT_TRUE(sites(counts, false, 0).empty()) << "only zeros";
    } else {
      EXPECT_EQ(of(only(counts, false, 0)), slow_sectors(reads));
    }
    EXPECT_EQ(counts.read_bytes, valid == 0 ? 0 : bytes_of_sectors(reads));
  }
}

TEST_F(CountedTest, CountsAddUpAndAreTaken) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (int k = 0; k < 3; ++k) ASSERT_EQ(run_counted_tile(33), nullptr);
  const KernelCounts counts = counted();
  EXPECT_EQ(counts.launches, 3u);
  EXPECT_EQ(counts.read_bytes, 3u * 4096);
  EXPECT_EQ(counts.kernel.name, "tile_kernel<33>");
  EXPECT_TRUE(emulated::take_kernel_counts().empty());
}

TEST_F(CountedTest, NothingIsCountedWhereItIsOff) {
  emulated::options().count_accesses = false;
  ASSERT_EQ(run_counted_tile(33), nullptr);
  EXPECT_TRUE(emulated::take_kernel_counts().empty());
}

}  // namespace
}  // namespace braid::test
