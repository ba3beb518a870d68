#include "pipeline/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pipeline/lowering_rows.h"

namespace braid::test {
namespace {

using analysis::Time;

TEST(PipelineCosts, AreReadFromJson) {
  const PipelineCosts c = parse_costs(R"({"version": 1,
    "stages": [{"forward_us": 10, "backward_input_us": 12, "backward_weight_us": 8, "activation_bytes": 1000, "weight_bytes": 400,
                "forward_bytes": 2000, "backward_bytes": 4000, "unshard_us": 3, "reduce_grad_us": 4},
               {"forward_us": 1, "full_backward_us": 2.5}],
    "link": {"latency_us": 5, "gb_s": 2}, "links": [{"from": 1, "to": 0, "latency_us": 9}],
    "overlap": 0.75, "slowdown": 1.25, "shared_links": true})",
                                      "c.json", 2);
  EXPECT_EQ(c.stages[0].full_backward, Time::from_us(20));
  EXPECT_EQ(c.stages[1].full_backward, Time::from_us(2.5));
  EXPECT_EQ(c.of({ActionKind::backward_weight, 0, 3}), Time::from_us(8));
  EXPECT_EQ(c.of({ActionKind::unshard, 0, -1}), Time::from_us(3));
  EXPECT_EQ(c.of({ActionKind::reshard, 0, -1}), Time{});
  EXPECT_EQ(c.transfer({ActionKind::send_forward, 0, 0}, 0, 1), Time::from_us(6));
  EXPECT_EQ(c.transfer({ActionKind::send_backward, 0, 0}, 0, 1), Time::from_us(7));
  EXPECT_EQ(c.transfer({ActionKind::send_backward, 1, 0}, 1, 0), Time::from_us(9));
  EXPECT_EQ(c.overlap, 750);
  EXPECT_EQ(c.slowdown, 1250);
  EXPECT_TRUE(c.shared_links);
}

TEST(PipelineCosts, OneStageStandsForAll) {
  EXPECT_EQ(parse_costs(R"({"version": 1, "stages": [{"forward_us": 3}]})", "c.json", 4).stages.size(), 4u);
}

TEST(PipelineCosts, RefusesWithLineAndColumn) {
  const auto message = [](int code, const char* text) {
    return refused(code, [&] { parse_costs(text, "c.json", 2); });
  };
  EXPECT_THAT(message(860, "{"), ::testing::HasSubstr("c.json:1:"));  // error BR0860
  message(860, R"({"version": 1, "version": 1})");
  for (const char* text :
       {R"({"stages": []})", R"({"version": 2, "stages": [{}]})", R"({"version": 1, "stages": [{}, {}, {}]})",
        R"({"version": 1, "stages": [{"forward_ms": 1}]})",
        R"({"version": 1, "stages": [{"forward_us": -1}]})",
        R"({"version": 1, "stages": [{"forward_us": "1"}]})",
        R"({"version": 1, "stages": [{"weight_bytes": 2, "activation_bytes": 1}]})",
        R"({"version": 1, "stages": [{}], "overlap": 1.5})",
        R"({"version": 1, "stages": [{}], "slowdown": 0.5})",
        R"({"version": 1, "stages": [{}], "links": [{"from": 0, "to": 1}, {"from": 0, "to": 1}]})",
        R"({"version": 1, "stages": [{}], "link": {"gb_s": 0}})", R"([])"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(message(861, text), ::testing::HasSubstr("c.json:1:"));  // error BR0861
  }
  refused(1, [] { read_costs("/nowhere/costs.json", 1); });
}

}  // namespace
}  // namespace braid::test
