#include "tests/emulated/two_streams.h"

#include <cmath>

#include "tests/emulated/support.h"

namespace braid::test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Outcome {
  std::vector<std::string> errors;
  std::vector<std::vector<float>> outputs;
};

Outcome run(int ranks, TwoStreams program) {
  Outcome outcome;
  outcome.outputs.assign(static_cast<size_t>(ranks),
                         std::vector<float>(static_cast<size_t>(program.rows * program.columns)));
  char id[128];
  EXPECT_EQ(two_streams_id(id), nullptr);
  outcome.errors = run_ranks(ranks, [&](int rank) {
    TwoStreams mine = program;
    mine.rank = rank;
    mine.ranks = ranks;
    mine.id = id;
    mine.output = outcome.outputs[static_cast<size_t>(rank)].data();
    return two_streams_run(mine);
  });
  return outcome;
}

std::vector<float> expected(int ranks, const TwoStreams& program) {
  std::vector<double> x(static_cast<size_t>(program.rows * program.columns));
  for (int rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < x.size(); ++i)
      x[i] += static_cast<double>((i * 7 + static_cast<size_t>(rank) * 3) % 11) * 0.25 - 1.0;
  std::vector<float> result;
  const size_t columns = static_cast<size_t>(program.columns);
  for (size_t row = 0; row < x.size() / columns; ++row) {
    double highest = -INFINITY, sum = 0;
    std::vector<double> y(columns);
    for (size_t i = 0; i < columns; ++i) {
      const double v = x[row * columns + i];
      y[i] = 0.5 * v * (1 + std::erf(v * std::sqrt(0.5)));
      highest = std::max(highest, y[i]);
    }
    for (double& v : y) sum += v = std::exp(v - highest);
    for (double v : y) result.push_back(static_cast<float>(v / sum));
  }
  return result;
}

class TwoStreamsTest : public EmulatedTest {};

TEST_F(TwoStreamsTest, IsCorrectOnOneTwoAndFourRanks) {
  for (const int ranks : {1, 2, 4}) {
    TwoStreams program;
    program.steps = 3;
    const Outcome outcome = run(ranks, program);
    EXPECT_THAT(outcome.errors, Each(IsEmpty()));
    const auto right = expected(ranks, program);
    for (const auto& output : outcome.outputs) {
      for (size_t i = 0; i < right.size(); ++i)
        ASSERT_NEAR(output[i], right[i], 1e-5f * right[i]) << ranks << " " << i;
      EXPECT_EQ(output, outcome.outputs[0]) << "all ranks hold the same bits";
    }
    EXPECT_THAT(found(), IsEmpty());
  }
}

TEST_F(TwoStreamsTest, CorrectProgramReportsNothingInTwentyRunsWithRandomDelays) {
  emulated::options().max_delay = std::chrono::microseconds(300);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    emulated::options().seed = seed;
    TwoStreams program;
    program.steps = 2;
    EXPECT_THAT(run(2, program).errors, Each(IsEmpty()));
    EXPECT_THAT(found(), IsEmpty()) << "seed " << seed;
  }
}

TEST_F(TwoStreamsTest, DeterministicModeGivesTheSame) {
  emulated::options().deterministic = true;
  TwoStreams program;
  EXPECT_THAT(run(2, program).errors, Each(IsEmpty()));
  EXPECT_THAT(found(), IsEmpty());
}

// Each plant: the same findings, word for word, whatever the delays.
void expect_same_findings(const std::function<std::vector<std::string>()>& run_once) {
  const std::vector<std::string> first = run_once();
  for (const int delay : {0, 200, 500}) {
    emulated::options().max_delay = std::chrono::microseconds(delay);
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      emulated::options().seed = seed;
      EXPECT_EQ(run_once(), first) << "delay " << delay << " seed " << seed;
    }
  }
}

std::vector<std::string> findings_of(TwoStreamsPlant plant) {
  TwoStreams program;
  program.plant = plant;
  run(2, program);
  std::vector<std::string> texts;
  for (const Finding& finding : emulated::take_findings())
    texts.push_back(std::string(emulated::name_of(finding.kind)) + ": " + finding.text);
  emulated::reset_devices();
  return texts;
}

TEST_F(TwoStreamsTest, MissingEventBeforeTheCollectiveIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  expect_same_findings([] { return findings_of(TwoStreamsPlant::kNoEventBeforeCollective); });
  EXPECT_THAT(
      findings_of(TwoStreamsPlant::kNoEventBeforeCollective),
      ElementsAre("race: nothing orders the read by ncclAllReduce [mlp.reduce (AllReduce)] on rank 0 stream "
                  "1 and the write by fill_kernel [input (Constant)] on rank 0 stream 0; "
                  "both touch bytes [0, 2048) of ncclMemAlloc #0 of rank 0 (4096 bytes)",
                  "race: nothing orders the read by ncclAllReduce [mlp.reduce (AllReduce)] on rank 1 stream "
                  "1 and the write by fill_kernel [input (Constant)] on rank 1 stream 0; "
                  "both touch bytes [0, 2048) of ncclMemAlloc #0 of rank 1 (4096 bytes)"));
}

TEST_F(TwoStreamsTest, MissingEventAfterTheCollectiveIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  expect_same_findings([] { return findings_of(TwoStreamsPlant::kNoEventAfterCollective); });
  EXPECT_THAT(
      findings_of(TwoStreamsPlant::kNoEventAfterCollective),
      Contains(HasSubstr("nothing orders the read by gelu_kernel [mlp.gelu (Gelu)] on rank 0 stream 0 "
                         "and the write by ncclAllReduce [mlp.reduce (AllReduce)] on rank 0")));
}

TEST_F(TwoStreamsTest, OverwritingACollectivesInputBeforeItHasFinishedIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  expect_same_findings([] { return findings_of(TwoStreamsPlant::kOverwriteInputDuringCollective); });
  EXPECT_THAT(
      findings_of(TwoStreamsPlant::kOverwriteInputDuringCollective),
      Contains(HasSubstr("nothing orders the read by ncclAllReduce [mlp.reduce (AllReduce)] on rank 1 stream "
                         "1 and the write by fill_kernel [early (Reuse)] on rank 1")));
}

}  // namespace
}  // namespace braid::test
