// braid pipeline: schedules in and out as CSV, timelines, the search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/braid_process.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> small(const std::string& command) {
  return {"pipeline", command, "--schedule", "1F1B", "--ranks", "2", "--microbatches", "3"};
}

TEST(Pipeline, GeneratesCsv) {
  const ProcessResult result = braid(small("generate"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "0F0,,,0F1,0B0,0F2,0B1,,0B2\n,1F0,1B0,1F1,1B1,1F2,1B2\n");
}

TEST(Pipeline, WritesFilesWithEitherLineEnd) {
  const Folder folder;
  std::vector<std::string> arguments = small("generate");
  arguments.insert(arguments.end(), {"--crlf", "-o", folder / "s.csv"});
  ASSERT_EQ(braid(arguments).exit_code, 0);
  EXPECT_EQ(read_text(folder / "s.csv"), "0F0,,,0F1,0B0,0F2,0B1,,0B2\r\n,1F0,1B0,1F1,1B1,1F2,1B2\r\n");
  const ProcessResult shown = braid({"pipeline", "show", folder / "s.csv"});
  EXPECT_EQ(shown.out, braid(small("show")).out);
}

TEST(Pipeline, ListsTheSchedules) {
  const ProcessResult result = braid({"pipeline", "generate", "--list"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("ZBVZeroBubble          ZBV              S = 2*P"));
}

TEST(Pipeline, ShowDrawsTheTimeline) {
  const ProcessResult result = braid(small("show"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "2 ranks, 2 stages (loop), 3 micro-batches\n"
            "F = I = W = 1, B = 2, transfers nothing: makespan 12, idle 25.0 %\n"
            "peak activations, each of one stage and micro-batch: 2, 1\n"
            "rank 0 | F0 F1  .  . B0--- F2 B1---  . B2---\n"
            "rank 1 |  . F0 B0--- F1 B1--- F2 B2---  .  .\n");
}

TEST(Pipeline, ReadsTheStandardInput) {
  const ProcessResult result = braid({"pipeline", "show", "-"}, "0F0,0B0\n1F0,1B0\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 1 |  . F0 B0---  .  .\n"));
}

// A schedule that the unit-step table ends, and that blocks in a shared queue: each side sends first.
constexpr const char* kBlocks =
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";

TEST(Pipeline, LowerAddsTransfersAndWhatIsAskedFor) {
  const Folder folder;
  const std::string path = folder.file("s.csv", "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n");
  const ProcessResult result = braid({"pipeline", "lower", path});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
  const ProcessResult sharded =
      braid({"pipeline", "lower", path, "--unshard", "--reduce-grad", "--lookahead", "auto"});
  EXPECT_THAT(sharded.out, HasSubstr("0UNSHARD,0F0"));
  EXPECT_THAT(sharded.out, HasSubstr("1REDUCE_GRAD"));
  EXPECT_EQ(braid({"pipeline", "check", folder.file("lowered.csv", sharded.out)}).exit_code, 0);
  EXPECT_THAT(braid({"pipeline", "lower", folder / "lowered.csv"}).err, HasSubstr("already has transfers"));
  const ProcessResult waiting = braid({"pipeline", "lower", path, "--reduce-grad", "--waits"});
  EXPECT_THAT(waiting.out, HasSubstr("1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1WAIT_SEND_B0,1WAIT_SEND_B1\n"));
  EXPECT_EQ(braid({"pipeline", "check", folder.file("waiting.csv", waiting.out)}).exit_code, 0);
}

TEST(Pipeline, AFolderIsNoSchedule) {
  const Folder folder;
  for (const char* command : {"lower", "check", "simulate", "show"})
    EXPECT_THAT(braid({"pipeline", command, folder / ""}).err, HasSubstr("cannot read the file")) << command;
}

TEST(Pipeline, CheckProvesOrShowsTheCircle) {
  const Folder folder;
  const std::string path = folder.file("blocks.csv", kBlocks);
  const ProcessResult edge = braid({"pipeline", "check", path});
  EXPECT_EQ(edge.exit_code, 0) << edge.err;
  EXPECT_THAT(edge.out, HasSubstr("no deadlock for any timing with edge: 4 transfers"));
  const ProcessResult pair = braid({"pipeline", "check", path, "--channels", "pair"});
  EXPECT_EQ(pair.exit_code, 1);
  EXPECT_THAT(pair.err, HasSubstr("BR0839"));
  EXPECT_THAT(pair.err, HasSubstr("0SEND_F1"));
  EXPECT_THAT(pair.err, HasSubstr("1SEND_B0"));
  EXPECT_EQ(braid({"pipeline", "simulate", path, "--steps"}).exit_code, 0);
}

TEST(Pipeline, AnUnsafeDeferralIsRefusedOrLeftOut) {
  const std::vector<std::string> zbv = {"pipeline", "lower", "--schedule",     "ZBV",
                                        "--ranks",  "2",     "--microbatches", "4"};
  std::vector<std::string> refused = zbv, left_out = zbv;
  refused.push_back("--defer-recv");
  left_out.push_back("--defer-recv-if-safe");
  EXPECT_THAT(braid(refused).err, HasSubstr("BR0838"));
  const ProcessResult result = braid(left_out);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("deferral is not safe"));
  EXPECT_EQ(result.out, braid(zbv).out);
}

TEST(Pipeline, SimulatePrintsStepsOrTimes) {
  const Folder folder;
  const std::string path = folder.file("s.csv", "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n");
  const ProcessResult steps = braid({"pipeline", "simulate", path, "--steps"});
  EXPECT_THAT(steps.out, HasSubstr("Step 01: 0SEND_F0 1RECV_F0\n"));
  EXPECT_THAT(steps.out, HasSubstr("11 steps\n"));
  EXPECT_THAT(braid({"pipeline", "simulate", path, "--peek"}).out, HasSubstr("9 steps\n"));
  const ProcessResult times = braid(
      {"pipeline", "simulate", path, "--draw", "--trace", folder / "t.json", "--svg", folder / "s.svg"});
  ASSERT_EQ(times.exit_code, 0) << times.err;
  EXPECT_THAT(times.out, HasSubstr("makespan 9.000 us"));
  EXPECT_THAT(times.out, HasSubstr("head of line"));
  EXPECT_THAT(read_text(folder / "t.json"), HasSubstr("traceEvents"));
  EXPECT_THAT(read_text(folder / "s.svg"), HasSubstr("<svg"));
}

TEST(Pipeline, CostsComeFromJson) {
  const Folder folder;
  const std::string costs = folder.file("costs.json", R"({"version": 1,
    "stages": [{"forward_us": 10, "backward_input_us": 12, "backward_weight_us": 8, "forward_bytes": 1000}],
    "link": {"latency_us": 5, "gb_s": 1}})");
  const ProcessResult result = braid({"pipeline", "simulate", "--schedule", "GPipe", "--ranks", "2",
                                      "--microbatches", "1", "--costs", costs});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("makespan 71.000 us"));
}

TEST(Pipeline, ASingleRankIsAScheduleAndNothingIsNone) {
  for (const char* command : {"lower", "check", "simulate", "show"}) {
    EXPECT_EQ(braid({"pipeline", command, "-"}, "0F0,0B0\n").exit_code, 0) << command;
    for (const char* text : {"", "\n", "\"\"\n,\n", " \n\t,\r\n"}) {
      const ProcessResult result = braid({"pipeline", command, "-"}, text);
      EXPECT_EQ(result.exit_code, 3) << command << ": " << result.out;
      EXPECT_THAT(result.err, HasSubstr("BR08")) << command;
    }
    EXPECT_THAT(braid({"pipeline", command, "-"}, "").err, HasSubstr("BR0811")) << command;
    EXPECT_THAT(braid({"pipeline", command, "-"}, "\xef\xbb\xbf").err, HasSubstr("BR0800")) << command;
    EXPECT_THAT(braid({"pipeline", command, "-"}, "# nothing\n").err, HasSubstr("BR0800")) << command;
  }
}

// A circle is not all that can be wrong with rows that have transfers.
TEST(Pipeline, CheckGivesNoVerdictOnRowsThatLackTheirComputations) {
  for (const char* text : {"0SEND_F0\n1RECV_F0\n", "0F0,0SEND_F0\n1RECV_F0\n"}) {
    const ProcessResult result = braid({"pipeline", "check", "-"}, text);
    EXPECT_EQ(result.exit_code, 3) << result.out;
    EXPECT_THAT(result.err, HasSubstr("BR083"));
  }
}

TEST(Pipeline, RowsThatWaitForEachOtherAreRefused) {
  for (const char* command : {"lower", "check", "simulate", "show"}) {
    const ProcessResult result = braid({"pipeline", command, "-"}, "0F0,0B0,3F0,3B0\n1F0,2F0,2B0,1B0\n");
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_THAT(result.err, HasSubstr("wait for each other")) << command;
  }
}

TEST(Pipeline, ErrorsOfFilesNameThePlace) {
  const Folder folder;
  const std::string path = folder.file("bad.csv", "0F0\n1F0,1BW0\n");
  const ProcessResult result = braid({"pipeline", "show", path});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err,
              HasSubstr("error BR0800: " + path + ":2:6: rank 1, cell 1, '1BW0': 'BW' is not a kind"));
}

TEST(Pipeline, ErrorsAboutAScheduleNameItsFile) {
  const Folder folder;
  const std::string path = folder.file("s.csv", "0F0,0B0,0W0\n1B0\n");
  for (const char* command : {"show", "lower", "check", "simulate"}) {
    const ProcessResult result = braid({"pipeline", command, path});
    EXPECT_EQ(result.exit_code, 3) << command;
    EXPECT_THAT(result.err, HasSubstr(path + ": rank ")) << command;
  }
}

TEST(Pipeline, APlacementIsHeldAgainstTheFile) {
  const Folder folder;
  const std::string path = folder.file("s.csv", "0F0,3F0\n1F0,2F0\n");
  EXPECT_EQ(braid({"pipeline", "show", path, "--placement", "v"}).exit_code, 0);
  EXPECT_EQ(braid({"pipeline", "show", path, "--placement", "0,1,1,0"}).exit_code, 0);
  EXPECT_THAT(braid({"pipeline", "show", path, "--placement", "loop"}).err, HasSubstr("BR0804"));
}

TEST(Pipeline, OptionsThatDoNotGoTogetherAreRefused) {
  const Folder folder;
  EXPECT_THAT(braid({"pipeline", "show"}).err, HasSubstr("BR0004"));
  EXPECT_THAT(braid({"pipeline", "show", folder / "absent.csv"}).err, HasSubstr("cannot read the file"));
  EXPECT_THAT(braid({"pipeline", "generate", "--schedule", "1F1B"}).err, HasSubstr("BR0003"));
  EXPECT_THAT(braid({"pipeline", "generate", "--schedule", "chimera"}).err, HasSubstr("BR0808"));
  std::vector<std::string> arguments = small("generate");
  arguments.insert(arguments.end(), {"--placement", "1,0"});
  EXPECT_THAT(braid(arguments).err, HasSubstr("places its stages loop"));
  const std::string path = folder.file("s.csv", "0F0,0B0\n1F0,1B0\n");
  for (const char* option : {"--ranks", "--stages", "--microbatches"})
    EXPECT_THAT(braid({"pipeline", "check", path, option, "7"}).err,
                HasSubstr(std::string(option) + " is 7, but the file has"));
  EXPECT_EQ(
      braid({"pipeline", "check", path, "--ranks", "2", "--stages", "2", "--microbatches", "1"}).exit_code,
      0);
  EXPECT_NE(braid({"pipeline", "simulate", path, "--steps", "--svg", folder / "s.svg"}).exit_code, 0);
  EXPECT_NE(braid({"pipeline", "lower", path, "--residency", "1"}).exit_code, 0);
}

TEST(Pipeline, SearchedScheduleWithTransfersIsSafeUnderItsChannels) {
  const Folder folder;
  const ProcessResult result =
      braid({"pipeline", "search", "--ranks", "3", "--microbatches", "4", "--forward", "2,3,1", "--delay",
             "1", "--channels", "pair:1", "--lowered", "-o", folder / "best.csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("channels pair:1:"));
  EXPECT_EQ(braid({"pipeline", "check", folder / "best.csv", "--channels", "pair:1"}).exit_code, 0);
}

TEST(Pipeline, SearchWritesAScheduleAndHowGoodItIs) {
  const Folder folder;
  const ProcessResult result = braid({"pipeline", "search", "--ranks", "3", "--microbatches", "4",
                                      "--forward", "2,3,1", "--delay", "1", "-o", folder / "best.csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("proven optimal"));
  EXPECT_THAT(result.out, HasSubstr("the best known"));
  EXPECT_THAT(result.out, HasSubstr("channels edge:"));
  EXPECT_EQ(braid({"pipeline", "show", folder / "best.csv"}).exit_code, 0);
  EXPECT_THAT(braid({"pipeline", "search", "--ranks", "2", "--microbatches", "2", "--forward", "1,2,3"}).err,
              HasSubstr("3 numbers, expected 1 or 2"));
}

TEST(Pipeline, BytesOfASearchHaveUnitsOfTenOrOfTwo) {
  const std::vector<std::string> search = {
      "pipeline", "search", "--ranks", "2", "--microbatches", "2", "--activation-bytes", "1MB"};
  for (const auto& [cap, code] : {std::pair("1MB", 0), std::pair("1000000", 0), std::pair("0.9MB", 1),
                                  std::pair("1MiB,1MiB", 0), std::pair("976KiB", 1), std::pair("1M", 2)}) {
    std::vector<std::string> capped = search;
    capped.insert(capped.end(), {"--byte-cap", cap});
    const ProcessResult result = braid(capped);
    EXPECT_EQ(result.exit_code, code) << cap << result.err;
  }
}

TEST(Pipeline, SearchTakesTheCostsOfAFile) {
  const std::string costs = paths::source("examples/pipeline/costs.json");
  const std::vector<std::string> search = {"pipeline",       "search", "--ranks", "2",
                                           "--microbatches", "2",      "--costs", costs};
  const ProcessResult result = braid(search);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("makespan"));
  EXPECT_THAT(result.out, HasSubstr("1F0,"));
  std::vector<std::string> both = search, capped = search;
  both.insert(both.end(), {"--forward", "3"});
  EXPECT_EQ(braid(both).exit_code, 2);
  capped.insert(capped.end(), {"--byte-cap", "7999999"});
  EXPECT_THAT(braid(capped).err, HasSubstr("BR0881"));
}

}  // namespace
}  // namespace braid::test
