// Cells as text: strict parser, exact printer, channel policies.
#include "pipeline/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/csv.h"
#include "pipeline/queue_policy.h"
#include "tests/pipeline/expect_error.h"

namespace braid::pipeline {
namespace {

using test::error_of;
using ::testing::HasSubstr;

TEST(PipelineText, ActionsPrintAsTheyAreParsed) {
  for (const char* text :
       {"1F0", "2I1", "0W3", "0B3", "1UNSHARD", "3RESHARD", "2SEND_B2", "1RECV_F1", "12SEND_F345", "7RECV_B0",
        "2147483646F2147483646", "5REDUCE_GRAD", "3WAIT_SEND_F12", "3WAIT_SEND_B0", "5WAIT_REDUCE_GRAD"}) {
    EXPECT_EQ(to_string(parse_action(text)), text);
  }
  EXPECT_EQ(parse_action("2SEND_B7"), (Action{ActionKind::send_backward, 2, 7}));
  EXPECT_EQ(parse_action("3RESHARD"), (Action{ActionKind::reshard, 3, -1}));
}

TEST(PipelineText, ContainersPrintAsTheyAreParsed) {
  for (const char* text :
       {"(1F1;2B0)OVERLAP_F_B", "(0SEND_F0;2RECV_F0)BATCH_P2P", "(0F0;1I0;2W0)OVERLAP_F_B"}) {
    EXPECT_EQ(print(parse_row(text)), text);
  }
  const Row row = parse_row("(1F1;2B0)OVERLAP_F_B");
  ASSERT_EQ(row.size(), 3u);
  EXPECT_EQ(row[0], (Action{ActionKind::overlap_f_b, -1, 2}));
  EXPECT_EQ(row[2], (Action{ActionKind::full_backward, 2, 0}));
}

TEST(PipelineText, BlanksAroundACellAreSkipped) {
  EXPECT_EQ(parse_row(" 0F0\t, ,0B0 "), parse_row("0F0,,0B0"));
}

TEST(PipelineText, RefusesEverythingElseAndNamesTheColumn) {
  struct Case {
    const char* row;
    int code, column;
    const char* part;
  };
  for (const Case& c : {
           Case{"0F0junk", 800, 4, "'junk' follows the action"},
           Case{"0F0,2F", 800, 7, "the micro-batch of F is missing"},
           Case{"0BW0", 800, 2, "files of 2024"},
           Case{"0f0", 800, 2, "'f0' is not a kind of action"},
           Case{"F0", 800, 1, "expected a stage at 'F0'"},
           Case{"0", 800, 2, "the kind of action is missing"},
           Case{"-1F0", 800, 1, "expected a stage"},
           Case{"0F-1", 800, 3, "the micro-batch of F is missing"},
           Case{"00F0", 800, 1, "leading zeros"},
           Case{"0F01", 800, 3, "leading zeros"},
           Case{"1UNSHARD0", 800, 9, "UNSHARD takes no micro-batch"},
           Case{"0F0 1F0", 800, 4, "' 1F0' follows the action"},
           Case{"0F0\r,1F0", 800, 4, "'\\x0d' follows the action"},
           Case{",,2147483647F0", 801, 3, "error BR0801: 1:3: "},
           Case{"0F99999999999999999999999", 801, 3, "too large for a micro-batch"},
           Case{"(0F0;1B0)", 800, 10, "the kind of action is missing"},
           Case{"(0F0;1B0", 802, 9, "expected ';' or ')'"},
           Case{"(0F0)OVERLAP_F_B", 802, 1, "error BR0802: 1:1: "},
           Case{"()OVERLAP_F_B", 800, 2, "expected a stage"},
           Case{"(0F0;1B0)F", 802, 10, "F is not a container"},
           Case{"((0F0;1B0)OVERLAP_F_B;1F0)OVERLAP_F_B", 802, 2, "do not nest"},
           Case{"(0F0;0SEND_F0)OVERLAP_F_B", 802, 1, "0SEND_F0 cannot be in OVERLAP_F_B"},
           Case{"(0F0;0SEND_F0)BATCH_P2P", 802, 1, "0F0 cannot be in BATCH_P2P"},
           Case{"0OVERLAP_F_B", 802, 2, "in parentheses"},
           Case{"0F0,\"0F1", 800, 5, "closing '\"' is missing"},
           Case{"0F0,\"0F1\"x", 800, 5, "after the closing"},
       }) {
    const ir::UserError error = error_of([&] { parse_row(c.row); });
    EXPECT_EQ(error.code(), c.code) << c.row << ": " << error.what();
    EXPECT_EQ(error.location().column, c.column) << c.row << ": " << error.what();
    EXPECT_THAT(error.what(), HasSubstr(c.part)) << c.row;
  }
}

TEST(PipelineText, ASingleActionIsNeitherIdleNorAContainer) {
  EXPECT_EQ(error_of([] { parse_action(" "); }).code(), 800);
  EXPECT_EQ(error_of([] { parse_action("(0F0;1B0)OVERLAP_F_B"); }).code(), 800);
}

TEST(PipelineChannels, PoliciesPrintAsTheyAreParsed) {
  for (const char* text : {"rank", "pair", "edge", "rank:1", "edge:16"}) {
    EXPECT_EQ(to_string(parse_queue_policy(text)), text);
  }
  EXPECT_EQ(parse_queue_policy("pair:3"), (QueuePolicy{QueuePolicy::Kind::pair, 3}));
}

TEST(PipelineChannels, RefusesOtherTexts) {
  for (const char* text : {"", "ranks", "edge:", "edge:-1", "edge:1x", "edge:99999999999", ":1"}) {
    EXPECT_EQ(error_of([&] { parse_queue_policy(text); }).code(), 807) << text;
  }
}

}  // namespace
}  // namespace braid::pipeline
