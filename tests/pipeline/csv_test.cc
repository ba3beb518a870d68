// Schedules as CSV: both dialects, line ends, ragged rows, and what the rows say about stages.
#include "pipeline/csv.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/error_numbers.h"
#include "tests/pipeline/expect_error.h"

namespace braid::pipeline {
namespace {

using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// G1 of the reference: two ranks, two stages.
constexpr const char* kCompute = "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n";

TEST(PipelineCsv, ReadsRowsStagesAndMicrobatches) {
  const PipelineSchedule s = parse_schedule(kCompute, {.dialect = CsvDialect::compute_only});
  ASSERT_EQ(s.ranks(), 2);
  EXPECT_THAT(s.rank_of_stage, ElementsAre(0, 1));
  EXPECT_EQ(s.microbatches, 2);
  EXPECT_EQ(s.rows[0].size(), 6u);
  EXPECT_EQ(s.rows[1].front().kind, ActionKind::idle);
  EXPECT_EQ(s.rows[1].back().kind, ActionKind::idle);
}

TEST(PipelineCsv, PrintsWhatItRead) {
  for (const char* text :
       {kCompute, "0F0\n\"\"\n", "0F0\n\n", "0F0\n,\n",
        "0F0,1F0,,,4F0,4B0,,,1B0,0B0\n,,2F0,3F0,,,3B0,2B0,,\n", "0F0,,,3F0,3B0,,,0B0\n,1F0,2F0,,,2B0,1B0,\n",
        "0F0,0F1,2F0,2F1,,2I0,2W0,0I0,2I1,0W0,0I1,2W1,0W1\n,1F0,1F1,3F0,3I0,3F1,1I0,3I1,3W0,1I1,1W0,3W1,"
        "1W1\n",
        "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0RECV_B1,0B0,0B1\n1RECV_F0,1RECV_F1,1F0,1F1,1B0,1B1,1SEND_B0,"
        "1SEND_B1\n",
        "0UNSHARD,0F0,(0SEND_F0;0RECV_B0)BATCH_P2P,0B0,0REDUCE_GRAD,0RESHARD\n"}) {
    EXPECT_EQ(print(parse_schedule(text)), text);
  }
}

TEST(PipelineCsv, AFileWithoutAnActionIsRefused) {
  for (const char* text : {"", "\n", "\r\n\r\n", "\"\"\n", ",\n", " , ,\n\n", ",,\n\"\",\n"}) {
    const ir::UserError error = error_of([&] { parse_schedule(text, {.file = "s.csv"}); });
    EXPECT_EQ(error.code(), errors::kNoActions) << text;
    EXPECT_EQ(error.location().line, 1);
  }
  const RankOfStage placement(first_ids<int>(2), 0);
  EXPECT_EQ(error_of([&] { parse_schedule("\n\n", {.rank_of_stage = placement}); }).code(),
            errors::kNoActions);
}

TEST(PipelineCsv, AnEmptyLineHasNoCellsAndTwoQuotesOneIdleCell) {
  const PipelineSchedule s = parse_schedule("0F0\n\n\"\"\n,\n");
  ASSERT_EQ(s.ranks(), 4);
  EXPECT_EQ(s.rows[1].size(), 0u);
  EXPECT_EQ(s.rows[2].size(), 1u);
  EXPECT_EQ(s.rows[3].size(), 2u);
}

TEST(PipelineCsv, LineEndsAndTheLastOneDoNotMatter) {
  const PipelineSchedule s = parse_schedule(kCompute);
  EXPECT_EQ(parse_schedule("0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,\r\n"), s);
  EXPECT_EQ(parse_schedule("0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,"), s);
  EXPECT_EQ(parse_schedule("\"0F0\",0F1,\"\",0B0,,0B1\n,1F0,1B0,\" 1F1\",1B1,"), s);
  EXPECT_EQ(print(s, LineEnd::crlf), "0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,\r\n");
}

TEST(PipelineCsv, RowsSayWhichRankOwnsAStage) {
  EXPECT_THAT(parse_schedule("0F0,3F0\n1F0,2F0\n").rank_of_stage, ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(parse_schedule("0F0,1F0,4F0\n2F0,3F0\n").rank_of_stage, ElementsAre(0, 0, 1, 1, 0));
  EXPECT_THAT(parse_schedule("(0F1;3B0)OVERLAP_F_B\n1F0,2F0\n").rank_of_stage, ElementsAre(0, 1, 1, 0));
}

TEST(PipelineCsv, TheDialectIsHeldWithRankAndCell) {
  const ir::UserError send = error_of(
      [] { parse_schedule("0F0,0SEND_F0\n1F0\n", {.dialect = CsvDialect::compute_only, .file = "s.csv"}); });
  EXPECT_EQ(send.code(), 803);
  EXPECT_THAT(send.what(), HasSubstr("s.csv:1:5"));
  EXPECT_THAT(send.what(), HasSubstr("rank 0, cell 1"));
  const ir::UserError idle =
      error_of([] { parse_schedule("0F0\n1F0,,1B0\n", {.dialect = CsvDialect::compute_comms}); });
  EXPECT_EQ(idle.code(), 803);
  EXPECT_THAT(idle.what(), HasSubstr("rank 1, cell 1: a lowered schedule must not have idle cells"));
  EXPECT_EQ(error_of([] { parse_schedule("0UNSHARD\n", {.dialect = CsvDialect::compute_only}); }).code(),
            803);
}

TEST(PipelineCsv, ErrorsNameLineColumnRankAndCell) {
  const ir::UserError error = error_of([] { parse_schedule("0F0\n1F0, 1X0\n", {.file = "s.csv"}); });
  EXPECT_EQ(error.code(), 800);
  EXPECT_THAT(error.what(), HasSubstr("s.csv:2:7"));
  EXPECT_THAT(error.what(), HasSubstr("rank 1, cell 1, '1X0': 'X' is not a kind of action"));
}

TEST(PipelineCsv, AStageStandsOnOneRank) {
  const ir::UserError error = error_of([] { parse_schedule("0F0,1F0\n1B0\n"); });
  EXPECT_EQ(error.code(), 804);
  EXPECT_THAT(error.what(), HasSubstr("rank 1, cell 0: 1B0: stage 1 appears on rank 0"));
}

TEST(PipelineCsv, AGivenPlacementIsHeld) {
  const CsvOptions options{.rank_of_stage = {0, 1, 0}};
  EXPECT_EQ(parse_schedule("0F0\n1F0\n", options).rank_of_stage, options.rank_of_stage);
  EXPECT_EQ(error_of([&] { parse_schedule("0F0,1F0\n\n", options); }).code(), 804);
  EXPECT_EQ(error_of([&] { parse_schedule("0F0,3F0\n\n", options); }).code(), 804);
}

TEST(PipelineCsv, StagesAndMicrobatchesHaveNoGaps) {
  EXPECT_EQ(error_of([] { parse_schedule("0F0\n2F0,2F1\n"); }).code(), 805);
  EXPECT_EQ(error_of([] { parse_schedule("0F0\n2147483646F0\n"); }).code(), 805);
  EXPECT_EQ(error_of([] { parse_schedule("0F0\n1F2147483646\n"); }).code(), 805);
}
// Nothing of the size stages * micro-batches is allocated for a file that cannot hold them.
TEST(PipelineCsv, EveryMicrobatchGoesThroughEveryStage) {
  std::string text;
  for (int k = 0; k < 3000; ++k) text += fmt::format("{},{}F0", k == 0 ? "0F0" : "", k);
  for (int k = 0; k < 3000; ++k) text += fmt::format(",0F{}", k);
  const ir::UserError error = error_of([&] { parse_schedule(text); });
  EXPECT_EQ(error.code(), 805);
  EXPECT_THAT(error.what(),
              HasSubstr("3000 stages and 3000 micro-batches are too many for a schedule of 6001 actions"));
}

}  // namespace
}  // namespace braid::pipeline
