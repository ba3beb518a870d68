// The published schedules against the published formulas, at unit costs and without communication: makespan,
// idle time and peak of activations for all sizes up to 16 ranks and 64 micro-batches for which the formulas
// hold. Times are in units of a stage's forward; f = I = W = 1, b = 2. Activations are of one stage and one
// micro-batch.
#include <gtest/gtest.h>

#include <functional>

#include "passes/pipeline/generators.h"
#include "passes/pipeline/ideal_timeline.h"

namespace braid::pipeline {
namespace {

struct Sizes {
  int ranks, local, microbatches;
};

struct Formula {
  const char* schedule;
  int most_local;  // stages per rank: 1 to this one, or exactly two for schedules in a V
  std::function<bool(Sizes)> holds;
  std::function<int(Sizes)> bubble;  // makespan - work
  std::function<int(Sizes, int rank)> peak;
};

bool divides(Sizes z) { return z.microbatches % z.ranks == 0; }

const Formula kFormulas[] = {
    {"GPipe", 1, [](Sizes) { return true; }, [](Sizes z) { return 3 * (z.ranks - 1); },
     [](Sizes z, int) { return z.microbatches; }},
    {"1F1B", 1, [](Sizes z) { return z.microbatches >= z.ranks; }, [](Sizes z) { return 3 * (z.ranks - 1); },
     [](Sizes z, int rank) { return z.ranks - rank; }},
    {"Interleaved1F1B", 4, [](Sizes z) { return divides(z) && z.microbatches >= 2 * z.ranks; },
     [](Sizes z) { return 3 * (z.ranks - 1); },
     [](Sizes z, int rank) { return (z.local - 1) * z.ranks + 2 * (z.ranks - 1 - rank) + 1; }},
    {"LoopedBFS", 4, [](Sizes z) { return z.microbatches >= z.ranks; },
     [](Sizes z) { return 3 * (z.ranks - 1); }, [](Sizes z, int) { return z.local * z.microbatches; }},
    {"ZB1P", 4, [](Sizes z) { return divides(z) && z.microbatches >= 2 * z.ranks; },
     [](Sizes z) { return z.ranks - 1; }, [](Sizes z, int) { return z.local * z.ranks; }},
    {"ZBV", 2, [](Sizes z) { return z.local == 2 && z.microbatches >= 2 * z.ranks - 1; },
     [](Sizes z) { return z.ranks - 1; }, [](Sizes z, int) { return 2 * z.ranks; }},
    {"DualPipeV", 2, [](Sizes z) { return z.local == 2 && z.microbatches >= 2 * z.ranks; },
     [](Sizes z) { return 2 * (z.ranks - 1); }, [](Sizes z, int) { return 2 * z.ranks + 1; }},
    {"Inference", 1, [](Sizes) { return true; }, [](Sizes z) { return z.ranks - 1; },
     [](Sizes z, int) { return z.microbatches; }},
    {"InterleavedInference", 4, divides, [](Sizes z) { return z.ranks - 1; },
     [](Sizes z, int) { return z.local * z.microbatches; }},
};

class Formulas : public ::testing::TestWithParam<Formula> {};

TEST_P(Formulas, HoldForAllSizes) {
  const Formula& f = GetParam();
  const bool trains = std::string_view(f.schedule).find("Inference") == std::string_view::npos;
  int schedules = 0;
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int local = 1; local <= f.most_local; ++local) {
      for (int microbatches = 1; microbatches <= 64; ++microbatches) {
        const Sizes z{ranks, local, microbatches};
        if (!f.holds(z)) continue;
        SCOPED_TRACE(::testing::Message() << f.schedule << ": " << ranks << " ranks, " << local
                                          << " stages on each, " << microbatches << " micro-batches");
        const IdealTimeline t =
            ideal_timeline(find_generator(f.schedule).generate({ranks, ranks * local, microbatches}));
        ASSERT_FALSE(t.stuck);
        const int work = (trains ? 3 : 1) * microbatches * local;
        ASSERT_EQ(t.makespan, work + f.bubble(z));
        for (int r = 0; r < ranks; ++r) {
          ASSERT_EQ(t.ranks[static_cast<std::size_t>(r)].work, work);
          ASSERT_EQ(t.ranks[static_cast<std::size_t>(r)].peak_activations, f.peak(z, r)) << "rank " << r;
        }
        ++schedules;
      }
    }
  }
  EXPECT_GT(schedules, 100);
}

INSTANTIATE_TEST_SUITE_P(Published, Formulas, ::testing::ValuesIn(kFormulas), [](const auto& test) {
  return std::string(find_generator(test.param.schedule).name);
});

// "Zero bubble" is said of the time between a rank's first and last action.
TEST(PipelineFormulas, ZbvLeavesNoRankIdleInBetween) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int microbatches = 2 * ranks - 1; microbatches <= 64; ++microbatches) {
      const IdealTimeline t =
          ideal_timeline(find_generator("ZBV").generate({ranks, 2 * ranks, microbatches}));
      for (const IdealTimeline::Rank& rank : t.ranks) ASSERT_EQ(rank.last - rank.first, rank.work);
    }
  }
}

}  // namespace
}  // namespace braid::pipeline
