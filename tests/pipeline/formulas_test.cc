// The published schedules against the published formulas, at unit costs and without communication: makespan,
// idle time and peak of activations for all sizes up to 16 ranks and 64 micro-batches for which the formulas
// hold. Times are in units of a stage's forward; f = I = W = 1, b = 2. Activations are of one stage and one
// micro-batch.
#include <gtest/gtest.h>

#include <functional>

#include "ir/error.h"
#include "pipeline/generators.h"
#include "pipeline/memory_timeline.h"
#include "pipeline/simulate.h"
#include "tests/pipeline/ideal_timeline.h"

namespace braid::pipeline {
namespace {

analysis::Time units(int units) { return analysis::Time::from_us(units); }

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

void PrintTo(const Formula& formula, std::ostream* out) { *out << formula.schedule; }

bool divides(Sizes z) { return z.microbatches % z.ranks == 0; }

const Formula kFormulas[] = {
    {"GPipe", 1, [](Sizes) { return true; }, [](Sizes z) { return 3 * (z.ranks - 1); },
     [](Sizes z, int) { return z.microbatches; }},
    {"1F1B", 1, [](Sizes z) { return z.microbatches >= z.ranks; }, [](Sizes z) { return 3 * (z.ranks - 1); },
     [](Sizes z, int rank) { return z.ranks - rank; }},
    {"Interleaved1F1B", 3, [](Sizes z) { return divides(z) && z.microbatches >= 2 * z.ranks; },
     [](Sizes z) { return 3 * (z.ranks - 1); },
     [](Sizes z, int rank) { return (z.local - 1) * z.ranks + 2 * (z.ranks - 1 - rank) + 1; }},
    {"LoopedBFS", 3, [](Sizes z) { return z.microbatches >= z.ranks; },
     [](Sizes z) { return 3 * (z.ranks - 1); }, [](Sizes z, int) { return z.local * z.microbatches; }},
    {"ZB1P", 3, [](Sizes z) { return divides(z) && z.microbatches >= 2 * z.ranks; },
     [](Sizes z) { return z.ranks - 1; }, [](Sizes z, int) { return z.local * z.ranks; }},
    {"ZBV", 2, [](Sizes z) { return z.local == 2 && z.microbatches >= 2 * z.ranks - 1; },
     [](Sizes z) { return z.ranks - 1; }, [](Sizes z, int) { return 2 * z.ranks; }},
    {"DualPipeV", 2, [](Sizes z) { return z.local == 2 && z.microbatches >= 2 * z.ranks; },
     [](Sizes z) { return 2 * (z.ranks - 1); }, [](Sizes z, int) { return 2 * z.ranks + 1; }},
    // Nothing is kept for a backward that does not come.
    {"Inference", 1, [](Sizes) { return true; }, [](Sizes z) { return z.ranks - 1; },
     [](Sizes, int) { return 1; }},
    {"InterleavedInference", 3, divides, [](Sizes z) { return z.ranks - 1; }, [](Sizes, int) { return 1; }},
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
        const PipelineSchedule schedule =
            find_generator(f.schedule).generate({ranks, ranks * local, microbatches});
        const PipelineCosts costs = unit_costs(schedule);
        const Simulation simulation = simulate(schedule, costs);
        const std::vector<RankMemory> memory = memory_timeline(schedule, costs, simulation);
        const int work = (trains ? 3 : 1) * microbatches * local;
        ASSERT_EQ(simulation.makespan, units(work + f.bubble(z)));
        for (int r = 0; r < ranks; ++r) {
          ASSERT_EQ(simulation.ranks[static_cast<std::size_t>(r)].busy, units(work));
          ASSERT_EQ(memory[static_cast<std::size_t>(r)].peak, f.peak(z, r)) << "rank " << r;
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
      const PipelineSchedule schedule = find_generator("ZBV").generate({ranks, 2 * ranks, microbatches});
      for (const ComputeStreamTimes& rank : simulate(schedule, unit_costs(schedule)).ranks) {
        ASSERT_EQ(rank.dependency + rank.head_of_line, analysis::Time{});
      }
    }
  }
}

// Every action at the same time as in the model of the papers, for all sizes, also where no formula holds.
TEST(PipelineFormulas, TheSimulationIsTheModelOfThePapers) {
  for (const Generator& generator : generators()) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int local = 1; local <= 3; ++local) {
        for (int microbatches = 1; microbatches <= 17; ++microbatches) {
          PipelineSchedule schedule;
          try {
            schedule = generator.generate({ranks, ranks * local, microbatches});
          } catch (const ir::UserError&) {
            continue;
          }
          SCOPED_TRACE(::testing::Message() << generator.name << ": " << ranks << " ranks, " << local
                                            << " stages on each, " << microbatches << " micro-batches");
          const test::IdealTimeline ideal = test::ideal_timeline(schedule);
          const PipelineCosts costs = unit_costs(schedule);
          const Simulation simulation = simulate(schedule, costs);
          const std::vector<RankMemory> memory = memory_timeline(schedule, costs, simulation);
          ASSERT_FALSE(ideal.stuck);
          ASSERT_EQ(simulation.makespan.us(), static_cast<double>(ideal.makespan));
          for (std::size_t r = 0; r < schedule.rows.size(); ++r) {
            for (const CellTimes& cell : simulation.cells[r]) {
              const std::size_t first = is_container(schedule.rows[r][cell.position].kind) ? 1 : 0;
              ASSERT_EQ(cell.begin.us(), static_cast<double>(ideal.ranks[r].begin[cell.position + first]));
            }
            const bool trains = !generator.summary.starts_with("forwards only");
            ASSERT_EQ(memory[r].peak, trains ? ideal.ranks[r].peak_activations : 1);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace braid::pipeline
