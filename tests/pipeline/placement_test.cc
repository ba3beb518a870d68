// Which rank owns which stage.
#include "pipeline/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pipeline/expect_error.h"

namespace braid::pipeline {
namespace {

using test::error_of;
using ::testing::ElementsAre;

TEST(PipelinePlacement, LoopGoesRoundTheRanks) { EXPECT_THAT(loop_placement(2, 4), ElementsAre(0, 1, 0, 1)); }

TEST(PipelinePlacement, VSweepsUpAndDown) {
  EXPECT_THAT(v_placement(2, 4), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(v_placement(4, 12), ElementsAre(0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3));
  EXPECT_THAT(v_placement(4, 16), ElementsAre(0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0));
}

TEST(PipelinePlacement, TextsAreReadAndPrinted) {
  for (const char* text : {"loop", "v", "0,0,1,1"}) {
    EXPECT_EQ(placement_text(parse_placement(text, 2, 4), 2), text);
  }
  EXPECT_EQ(placement_text(parse_placement("0,1,1,0", 2, 4), 2), "v");
}

TEST(PipelinePlacement, RefusesWhatPlacesNoStageOrNoRank) {
  for (const char* text :
       {"", "w", "0,1", "0,1,1,2", "0,1,1,", "0,1;1,0", "0,0,0,0", "0,-1,1,0", "0,1,1,99999999999"}) {
    EXPECT_EQ(error_of([&] { parse_placement(text, 2, 4); }).code(), 806) << text;
  }
  EXPECT_EQ(error_of([] { loop_placement(2, 5); }).code(), 806);
  EXPECT_EQ(error_of([] { v_placement(4, 2); }).code(), 806);
  EXPECT_EQ(error_of([] { parse_placement("0", 0, 1); }).code(), 806);
}

}  // namespace
}  // namespace braid::pipeline
