#include "analysis/costs/collective_model.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "analysis/costs/cost_model.h"
#include "ir/collective_table.h"

namespace braid::analysis {
namespace {

using ir::CollectiveKind;

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

std::vector<int> ranks(int n, int stride = 1) {
  std::vector<int> result;
  for (int r = 0; r < n; ++r) result.push_back(r * stride);
  return result;
}

CollectiveEstimate estimate(const Machine& m, CollectiveKind kind, std::int64_t bytes,
                            const std::vector<int>& group) {
  return estimate_collective(
      m, {.kind = kind, .dtype = ir::DType::bf16, .bytes = bytes, .ranks = group, .symmetric = true});
}

// The machine that the first model of Inductor assumes: A100, 300 GB/s within the node and 25 between nodes.
Machine classic() {
  Machine m = load_machine("a100");
  m.collectives = {.model = CollectiveModelKind::classic,
                   .generation = GpuGeneration::ampere,
                   .link_gb_s = 300,
                   .network = Network{1, 25}};
  return m;
}

Machine inductor(GpuGeneration generation) {
  Machine m = load_machine("h100");
  const bool hopper = generation == GpuGeneration::hopper;
  m.collectives = {.model = CollectiveModelKind::inductor,
                   .generation = generation,
                   .link_gb_s = hopper ? 370.0 : 240.0,
                   .network = Network{1, hopper ? 50.0 : 25.0}};
  return m;
}

TEST(ClassicModel, ReproducesItsReferenceValues) {
  const Machine m = classic();
  EXPECT_NEAR(estimate(m, CollectiveKind::all_gather, kMiB, ranks(8)).us, 20.543, 5e-4);
  EXPECT_NEAR(estimate(m, CollectiveKind::reduce_scatter, kMiB, ranks(8)).us, 20.543, 5e-4);
  EXPECT_NEAR(estimate(m, CollectiveKind::all_reduce, kMiB, ranks(8)).us, 34.487, 5e-4);
  EXPECT_NEAR(estimate(m, CollectiveKind::all_reduce, 64 * kMiB, ranks(8)).us, 1262.149, 5e-4);
  EXPECT_NEAR(estimate(m, CollectiveKind::all_gather, 64 * kMiB, ranks(16)).us, 4710.8, 5e-4);
  EXPECT_NEAR(estimate(m, CollectiveKind::all_gather, 64 * kMiB, ranks(64)).us, 5003.375, 5e-4);
  EXPECT_NEAR(estimate(m, CollectiveKind::all_reduce, 16, ranks(2)).us, 7.8, 5e-4);
  EXPECT_NEAR(estimate(m, CollectiveKind::all_to_all, kMiB, ranks(8)).us, 34.487, 5e-4);
}

TEST(InductorModel, ReproducesItsReferenceValues) {
  const auto is = [](const CollectiveEstimate& e, double us, const std::string& algorithm) {
    EXPECT_NEAR(e.us, us, 5e-4);
    EXPECT_EQ(e.algorithm, algorithm);
  };
  const Machine a = inductor(GpuGeneration::ampere), h = inductor(GpuGeneration::hopper);
  is(estimate(a, CollectiveKind::all_gather, kMiB, ranks(8)), 21.262, "ring LL");
  is(estimate(h, CollectiveKind::all_gather, kMiB, ranks(8)), 17.307, "ring LL");
  is(estimate(h, CollectiveKind::all_reduce, 64 * kMiB, ranks(8)), 373.407, "ring Simple");
  is(estimate(h, CollectiveKind::all_reduce, 64 * kKiB, ranks(8)), 15.813, "ring LL");
  is(estimate(h, CollectiveKind::all_gather, 64 * kMiB, ranks(16)), 1637.267, "ring Simple");
  is(estimate(h, CollectiveKind::all_gather, 512 * kMiB, ranks(64)), 7356.845, "ring Simple");
  is(estimate(h, CollectiveKind::send, 4 * kKiB, ranks(2)), 7.215, "p2p LL");
}

TEST(NcclModel, SwitchesAlgorithmsWhereNcclOn8H200Does) {
  // Observed with NCCL 2.30.7: ring LL up to 1 MiB, NVLS from 2 MiB on.
  Machine m = load_machine("h200");
  m.collectives.symmetric.reset();
  m.collectives.measured.clear();
  EXPECT_EQ(estimate(m, CollectiveKind::all_reduce, 32 * kKiB, ranks(8)).algorithm, "ring LL");
  EXPECT_EQ(estimate(m, CollectiveKind::all_reduce, kMiB, ranks(8)).algorithm, "ring LL");
  EXPECT_EQ(estimate(m, CollectiveKind::all_reduce, 2 * kMiB, ranks(8)).algorithm, "NVLS Simple");
  EXPECT_EQ(estimate(m, CollectiveKind::all_reduce, kGiB, ranks(4)).algorithm, "ring Simple");
}

TEST(NcclModel, LargeAllReducesOn8H200AreWithinTenPercentOfTheMeasurement) {
  Machine m = load_machine("h200");
  m.collectives.symmetric.reset();
  m.collectives.measured.clear();
  EXPECT_NEAR(estimate(m, CollectiveKind::all_reduce, 256 * kMiB, ranks(8)).us / 1063, 1, 0.1);
  EXPECT_NEAR(estimate(m, CollectiveKind::all_reduce, kGiB, ranks(8)).us / 4033, 1, 0.1);
}

TEST(NcclModel, SymmetricKernelsOn8H200AreWithinFifteenPercentOfTheMeasurementFrom256KiBOn) {
  Machine m = load_machine("h200");
  m.collectives.measured.clear();
  for (const auto& [bytes, us] : std::vector<std::pair<std::int64_t, double>>{{256 * kKiB, 9.5},
                                                                              {kMiB, 12.7},
                                                                              {4 * kMiB, 24.6},
                                                                              {16 * kMiB, 71.9},
                                                                              {64 * kMiB, 255},
                                                                              {kGiB, 3915}}) {
    EXPECT_NEAR(estimate(m, CollectiveKind::all_reduce, bytes, ranks(8)).us / us, 1, 0.15) << bytes;
  }
}

TEST(NcclModel, NetworkCardsCountOnlyAsFarAsRanksOfTheGroupDriveThem) {
  const Machine m = load_machine("h100");
  const auto gb_s = [&](const std::vector<int>& group) {
    const double n = static_cast<double>(group.size());
    const CollectiveEstimate e = estimate(m, CollectiveKind::all_gather, 16 * kGiB, group);
    return 16 * kGiB * (n - 1) / n / ((e.us - e.latency_us) * 1e3);
  };
  EXPECT_NEAR(gb_s(ranks(16)), 370, 1);      // 8 x 47 GB/s, capped by NVLink
  EXPECT_NEAR(gb_s(ranks(16, 8)), 47, 0.1);  // one rank per node
  EXPECT_NEAR(gb_s({0, 1, 8, 9}), 94, 0.1);  // two
}

TEST(NcclModel, SymmetricKernelsReduceOnlySumsOfSmallFloats) {
  const Machine m = load_machine("h100");
  const auto algorithm = [&](ir::DType dtype, ir::ReduceKind reduce) {
    const std::vector<int> group = ranks(8);
    return estimate_collective(
               m, {.reduce = reduce, .dtype = dtype, .bytes = 256 * kKiB, .ranks = group, .symmetric = true})
        .algorithm;
  };
  EXPECT_EQ(algorithm(ir::DType::bf16, ir::ReduceKind::sum), "symmetric two-shot");
  EXPECT_EQ(algorithm(ir::DType::f64, ir::ReduceKind::sum), "ring LL");
  EXPECT_EQ(algorithm(ir::DType::bf16, ir::ReduceKind::max), "ring LL");
}

TEST(PacedLink, IsTheFormulaOfTheEngine) {
  Machine m = load_machine("cpu");
  m.collectives = {.model = CollectiveModelKind::paced_link, .link_gb_s = 2, .link_latency_us = 50};
  const auto us = [&](CollectiveKind kind) { return estimate(m, kind, 4'000'000, ranks(4)).us; };
  EXPECT_DOUBLE_EQ(us(CollectiveKind::all_reduce), 50 + 2 * 4e6 * 3 / 4 / 2e3);
  EXPECT_DOUBLE_EQ(us(CollectiveKind::all_gather), 50 + 1e6 * 3 / 2e3);
  EXPECT_DOUBLE_EQ(us(CollectiveKind::all_to_all), 50 + 1e6 * 3 / 2e3);
  EXPECT_DOUBLE_EQ(us(CollectiveKind::broadcast), 50 + 4e6 / 2e3);
}

TEST(MeasuredTables, MeetTheirPointsAndLieBetweenNeighbours) {
  const Machine m = load_machine("h200");
  const auto us = [&](std::int64_t bytes) {
    return estimate(m, CollectiveKind::all_reduce, bytes, ranks(8)).us;
  };
  EXPECT_NEAR(us(32 * kKiB), 7.8, 1e-9);
  EXPECT_NEAR(us(kMiB), 12.7, 1e-9);
  EXPECT_NEAR(us(kGiB), 3915, 1e-6);
  EXPECT_NEAR(us(2 * kGiB) / (2 * 3915), 1, 0.01);
  EXPECT_NEAR(us(640 * kKiB), (9.5 + 12.7) / 2, 1e-9);
  EXPECT_LT(us(1024), 7.8);
}

// Whatever the machine, kind and group.
struct Case {
  std::string machine;
  CollectiveKind kind;
  std::vector<int> group;
};
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::string& name : machine_names()) {
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
          CollectiveKind::broadcast, CollectiveKind::all_to_all, CollectiveKind::send}) {
      for (const auto& group : {ranks(1), ranks(2), ranks(4), ranks(5), ranks(8)})
        cases.push_back({name, kind, group});
      if (name == "cpu") continue;
      for (const auto& group : {ranks(2, 8), ranks(16), ranks(64), ranks(128), ranks(32, 8), ranks(6, 5)}) {
        cases.push_back({name, kind, group});
      }
    }
  }
  return cases;
}

void check_laws(const Machine& m, const Case& c, std::mt19937_64& random) {
  std::vector<std::int64_t> sizes = {0, 1, 127, 128, 129};
  for (int k = 3; k < 36; ++k) {
    for (const double f : {1.0, 1.0001, 1.37, 1.9})
      sizes.push_back(static_cast<std::int64_t>(f * double(std::int64_t{1} << k)));
  }
  for (int k = 0; k < 40; ++k) {
    sizes.push_back(
        static_cast<std::int64_t>(std::exp2(std::uniform_real_distribution<double>(0, 35)(random))));
  }
  std::sort(sizes.begin(), sizes.end());
  std::vector<CollectiveEstimate> e;
  for (const std::int64_t bytes : sizes) e.push_back(estimate(m, c.kind, bytes, c.group));
  constexpr double kRounding = 1 + 1e-12;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    EXPECT_LE(e[k].floor_us, e[k].us * kRounding) << sizes[k];
    EXPECT_LE(e[k].latency_us, e[k].us * kRounding) << sizes[k];
    if (k == 0) continue;
    EXPECT_LE(e[k - 1].us, e[k].us * kRounding)
        << "more bytes are cheaper: " << sizes[k - 1] << ", " << sizes[k];
    if (sizes[k - 1] == 0) continue;
    EXPECT_GE(e[k - 1].us / double(sizes[k - 1]) * kRounding, e[k].us / double(sizes[k]))
        << "per byte: " << sizes[k - 1] << ", " << sizes[k];
  }
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t a = random() % sizes.size(), b = random() % sizes.size();
    EXPECT_LE(estimate(m, c.kind, sizes[a] + sizes[b], c.group).us, (e[a].us + e[b].us) * kRounding)
        << sizes[a] << " + " << sizes[b];
  }
}

TEST(CollectiveLaws, MoreBytesNeverCostLessMergingNeverCostsMoreAndTheFloorIsBelow) {
  constexpr std::uint64_t kSeed = 20240711;
  std::mt19937_64 random(kSeed);
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(testing::Message() << c.machine << " " << ir::to_string(c.kind) << " ranks "
                                    << c.group.size() << " seed " << kSeed);
    Machine m = load_machine(c.machine);
    check_laws(m, c, random);
    m.collectives.measured.clear();
    m.collectives.symmetric =
        m.collectives.model == CollectiveModelKind::nccl ? std::nullopt : m.collectives.symmetric;
    m.collectives.nvls_gb_s = 0;
    check_laws(m, c, random);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CollectiveLaws, HoldForTheModelsOfInductorToo) {
  std::mt19937_64 random(7);
  for (const Machine& m : {classic(), inductor(GpuGeneration::ampere), inductor(GpuGeneration::hopper)}) {
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::all_to_all}) {
      for (const auto& group : {ranks(2), ranks(8), ranks(16), ranks(64)})
        check_laws(m, {m.name, kind, group}, random);
    }
  }
}

TEST(Saturation, IsThePayloadAtWhichTheAskedPartOfTheBandwidthIsReached) {
  const Machine m = load_machine("h100");
  const std::vector<int> group = ranks(64);
  CollectiveShape shape{.kind = CollectiveKind::all_gather, .dtype = ir::DType::bf16, .ranks = group};
  shape.bytes = saturation_bytes(m, shape, 0.9);
  const CollectiveEstimate e = estimate_collective(m, shape);
  EXPECT_NEAR(e.floor_us / e.us, 0.9, 1e-4);
}

TEST(Saturation, ReproducesTheReferenceValuesOfPyTorchsBucketing) {
  const auto mib = [](const std::string& machine, int n) {
    const std::vector<int> group = ranks(n);
    const CollectiveShape shape{.kind = CollectiveKind::all_gather, .ranks = group};
    return static_cast<double>(saturation_bytes(load_machine(machine), shape, 0.9, Saturation::inductor)) /
           kMiB;
  };
  EXPECT_NEAR(mib("h100", 8), 89.6, 0.05);
  EXPECT_NEAR(mib("a100", 8), 61.4, 0.05);
  EXPECT_NEAR(mib("h100", 64), 148.4, 0.05);
  EXPECT_NEAR(mib("h100", 16), 100, 1e-9);
}

TEST(Algorithms, TheProgramMayAskForOneAndGetsTheLibraryWhereTheMachineHasNone) {
  const Machine m = load_machine("h100");
  const auto algorithm = [&](std::string_view asked, bool symmetric, const std::vector<int>& group) {
    return estimate_collective(m, {.dtype = ir::DType::bf16,
                                   .bytes = kKiB,
                                   .ranks = group,
                                   .symmetric = symmetric,
                                   .algorithm = *ir::algorithm_named(asked)})
        .algorithm;
  };
  EXPECT_EQ(algorithm("", true, ranks(8)), "symmetric one-shot");
  EXPECT_EQ(algorithm("two_shot", true, ranks(8)), "symmetric two-shot");
  EXPECT_EQ(algorithm("one_shot", false, ranks(8)), "ring LL");
  EXPECT_EQ(algorithm("library", true, ranks(8)), "ring LL");
  EXPECT_EQ(algorithm("one_shot", true, ranks(64)), "tree LL");
  EXPECT_EQ(algorithm("ring", true, ranks(64)), "ring LL");
}

}  // namespace
}  // namespace braid::analysis
