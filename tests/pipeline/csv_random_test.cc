// Mutated schedules: the property of the fuzz target, on texts that are the same in every run.
#include <gtest/gtest.h>

#include <random>

#include "pipeline/add_send_recv.h"
#include "pipeline/csv.h"
#include "pipeline/generators.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/pipeline_csv_property.h"

namespace braid::test {
namespace {

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const pipeline::Generator& g : pipeline::generators()) {
    const int local = g.sizes.starts_with("S = P") ? 1 : 2;
    const pipeline::PipelineSchedule schedule = g.generate({2, 2 * local, 4});
    texts.push_back(print(schedule));
    texts.push_back(print(add_send_recv(schedule)));
  }
  texts.push_back("0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\r\n1UNSHARD,1F0,1B0,1REDUCE_GRAD,1RESHARD\r\n");
  texts.push_back(
      "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,"
      "1WAIT_SEND_B0\n");
  texts.push_back("0F0,(0SEND_F0;0RECV_B0)BATCH_P2P,0B0\n\"\"\n");
  return texts;
}

TEST(PipelineCsvRandom, SeedsRun) {
  for (const std::string& text : seeds()) check_pipeline_csv(text);
  EXPECT_EQ(check_pipeline_csv(seeds()[0]), CsvOutcome::runs);
  EXPECT_EQ(check_pipeline_csv(seeds()[1]), CsvOutcome::runs);
}

TEST(PipelineCsvRandom, MutatedTextsAreSchedulesOrUserErrors) {
  const std::vector<std::string> texts = seeds();
  int outcomes[4] = {};
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const std::string& text = texts[random() % texts.size()];
    const std::string& other = texts[random() % texts.size()];
    ++outcomes[static_cast<int>(check_pipeline_csv(mutate(text, other, random)))];
  }
  EXPECT_GT(outcomes[static_cast<int>(CsvOutcome::not_read)], 1000);
  EXPECT_GT(outcomes[static_cast<int>(CsvOutcome::not_valid)], 100);
}

// Cells that change places are still actions: most of these are refused by order, some block, some run.
TEST(PipelineCsvRandom, SwappedCellsBlockOrRun) {
  const std::vector<std::string> texts = seeds();
  int outcomes[4] = {};
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    pipeline::PipelineSchedule schedule = pipeline::parse_schedule(texts[random() % 18]);
    for (std::uint64_t k = 1 + random() % 3; k > 0; --k) {
      pipeline::Row& row = schedule.rows[random() % schedule.rows.size()];
      const std::size_t at = random() % (row.size() - 1);
      bool container = false;
      for (const pipeline::Action a : row) container = container || is_container(a.kind);
      if (!container) std::swap(row[at], row[at + 1]);
    }
    ++outcomes[static_cast<int>(check_pipeline_csv(print(schedule)))];
  }
  EXPECT_EQ(outcomes[static_cast<int>(CsvOutcome::not_read)], 0);
  EXPECT_GT(outcomes[static_cast<int>(CsvOutcome::not_valid)], 100);
  EXPECT_GT(outcomes[static_cast<int>(CsvOutcome::blocked)], 50);
  EXPECT_GT(outcomes[static_cast<int>(CsvOutcome::runs)], 100);
}

}  // namespace
}  // namespace braid::test
