#include "explain/measured_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "analysis/costs/machine.h"
#include "explain/compare_timelines.h"
#include "explain/measured_timeline_json.h"
#include "ir/error.h"
#include "ir/parser.h"

namespace braid::explain {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

analysis::Time us(double v) { return analysis::Time::from_us(v); }

// Two ranks: a kernel, a collective that starts, a kernel beside it, its wait, a last kernel. Rank 1 is late.
MeasuredTimeline two_ranks() {
  MeasuredTimeline t;
  t.program = "p";
  t.link = "10 us, 1 GB/s";
  t.groups = {{"g", {{0, 1}}}};
  t.collectives = {{"r", "all_reduce @g 4.0 KiB", 0, false}};
  t.nodes = {{"a", "/a", MeasuredKind::kernel, -1},
             {"r", "/r", MeasuredKind::start, 0},
             {"b", "/b", MeasuredKind::kernel, -1},
             {"r.wait", "/r", MeasuredKind::wait, 0},
             {"c", "/c", MeasuredKind::kernel, -1}};
  //            a          r            b            r.wait                   c             end
  t.steps = {
      {{{0, 0, 0}, {10000, 0, 0}, {11000, 0, 0}, {15000, 50000, 9000}, {50000, 0, 0}, {53000, 0, 0}},
       {{2000, 0, 0}, {40000, 0, 0}, {41000, 0, 0}, {45000, 50000, 4000}, {50000, 0, 0}, {54000, 0, 0}}}};
  return t;
}

TEST(MeasuredTimeline, AWaitIsSkewUntilTheLastStartThenTheLinkAndTheRestIsWork) {
  const MeasuredTimeline t = two_ranks();
  const NodeSplit early = split(t, t.steps[0], 0, 3), late = split(t, t.steps[0], 1, 3);
  EXPECT_EQ(early.skew, us(25));  // rank 1 starts at 40
  EXPECT_EQ(early.transfer, us(9));
  EXPECT_EQ(early.work, us(1));
  EXPECT_EQ(late.skew, us(0));
  EXPECT_EQ(late.transfer, us(4));
  EXPECT_EQ(late.work, us(1));
  EXPECT_EQ(split(t, t.steps[0], 0, 0).work, us(10));
}

TEST(MeasuredTimeline, ARankOutsideOfTheGroupIsNotBlocked) {
  MeasuredTimeline t = two_ranks();
  t.groups[0].parts = {{1}};
  EXPECT_EQ(split(t, t.steps[0], 0, 3).work, us(35));
}

TEST(MeasuredTimeline, ARankWaitsForItsOwnPartOfTheGroup) {
  MeasuredTimeline t = two_ranks();
  t.groups[0].parts = {{1}, {0}};
  EXPECT_EQ(split(t, t.steps[0], 0, 3).skew, us(0));
  EXPECT_EQ(parse_timeline(to_json(t), "t.json").groups, t.groups);
}

TEST(MeasuredTimeline, TheMakespanIsFromWhenAllHaveBegunUntilAllHaveEnded) {
  EXPECT_EQ(makespan(two_ranks().steps[0]), us(52));
}

TEST(MeasuredTimeline, TheMedianStepIsTheOneShown) {
  MeasuredTimeline t = two_ranks();
  StepTimes longer = t.steps[0], longest = t.steps[0];
  longer[1].back().begin += 1000;
  longest[1].back().begin += 2000;
  t.steps = {longest, t.steps[0], longer};
  EXPECT_EQ(median_step(t), 2u);
  EXPECT_EQ(views(t)[1].second.makespan, us(55));
}

TEST(MeasuredTimeline, CostsAreMediansOverStepsAndRanks) {
  const analysis::CostEntries costs = measured_costs(two_ranks());
  EXPECT_EQ(costs.at("a"), 38000);  // of 10000 and 38000
  EXPECT_EQ(costs.at("b"), 4000);
  EXPECT_EQ(costs.at("r.issue"), 1000);
  EXPECT_EQ(costs.at("r.wait"), 1000);
  EXPECT_FALSE(costs.contains("r")) << "the link is the machine's to price";
}

TEST(MeasuredTimeline, WithoutALinkOnlyKernelsArePriced) {
  MeasuredTimeline t = two_ranks();
  t.link.clear();
  EXPECT_THAT(measured_costs(t), ::testing::SizeIs(3));
}

TEST(MeasuredTimeline, ViewsShowTheLinkFromTheLastStartUntilItDelivers) {
  const auto all = views(two_ranks());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].first, "rank 0");
  const TimelineView& v = all[0].second;
  EXPECT_THAT(v.lanes, ::testing::ElementsAre("compute", "@g"));
  const auto link = std::find_if(v.spans.begin(), v.spans.end(), [](const Span& s) { return s.lane == 1; });
  ASSERT_NE(link, v.spans.end());
  EXPECT_EQ(link->name, "r");
  EXPECT_EQ(link->begin, us(40));
  EXPECT_EQ(link->end, us(50));
}

TEST(MeasuredTimeline, IsReadAsItWasWritten) {
  const MeasuredTimeline t = two_ranks();
  const MeasuredTimeline back = parse_timeline(to_json(t), "t.json");
  EXPECT_EQ(to_json(back), to_json(t));
  EXPECT_EQ(back.steps[0][0][3].slept, 9000);
  EXPECT_EQ(back.nodes[3].kind, MeasuredKind::wait);
}

// Two collectives started together on one link; the wait for the second comes first and sleeps for both.
TEST(MeasuredTimeline, AWaitIsChargedToWhatTheLinkDeliversMeanwhile) {
  MeasuredTimeline t;
  t.groups = {{"g", {{0, 1}}}};
  t.collectives = {{"r", "all_reduce", 0, false}, {"s", "all_reduce", 0, false}};
  t.nodes = {{"r", "", MeasuredKind::start, 0},
             {"s", "", MeasuredKind::start, 1},
             {"s.wait", "", MeasuredKind::wait, 1},
             {"r.wait", "", MeasuredKind::wait, 0}};
  //                   r           s             s.wait                 r.wait                 end
  const RankTimes rank = {{0, 0, 0}, {1000, 0, 0}, {2000, 31000, 28000}, {31000, 21000, 0}, {32000, 0, 0}};
  t.steps = {{rank, rank}};
  const std::vector<analysis::Time> exposed = exposed_on_link(t, t.steps[0], 0);
  EXPECT_THAT(exposed, ::testing::ElementsAre(us(18), us(10)));  // asleep from 3 to 31, r delivered at 21
  const auto all = views(t);
  EXPECT_EQ(std::ranges::count(all[0].second.spans, 1, &Span::lane), 2) << "both were on the link";
}

TEST(MeasuredTimeline, WhatNoTransferAccountsForStaysWithTheAwaitedOne) {
  const MeasuredTimeline t = two_ranks();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(exposed_on_link(t, t.steps[0], rank),
                ::testing::ElementsAre(split(t, t.steps[0], rank, 3).transfer));
  }
}

int code_of(const std::string& text, std::string* message = nullptr) {
  try {
    parse_timeline(text, "t.json");
  } catch (const ir::UserError& e) {
    if (message) *message = e.what();
    return e.code();
  }
  return 0;
}

TEST(MeasuredTimeline, RefusesOtherFilesSayingWhere) {
  EXPECT_EQ(code_of("{"), 558);  // error BR0558
  std::string message;
  EXPECT_EQ(code_of(R"({"traceEvents": []})", &message), 559);  // error BR0559
  EXPECT_THAT(message, HasSubstr("braid run"));
  std::string text = to_json(two_ranks());
  const std::size_t at = text.find("[11000,0,0]");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 11, "[1,0,0]");  // earlier than the node before
  EXPECT_EQ(code_of(text, &message), 559);
  EXPECT_THAT(message, HasSubstr("t.json:1:"));
}

TEST(MeasuredTimeline, RefusesEveryTruncationAndCrashesOnNone) {
  const std::string text = to_json(two_ranks());
  for (std::size_t n = 0; n + 2 < text.size(); n += 7) EXPECT_EQ(code_of(text.substr(0, n)), 558) << n;
}

constexpr const char* kProgram = R"(graph p
ranks 2
channels communicator
group @g = [0, 1]

input %x: f32[1024]

%a: f32[1024] = extern "a" reads(%x)
%r: f32[1024] = all_reduce sum @g (%a)
%b: f32[1024] = extern "b" reads(%x)
%r.1 mutates %r = wait r as r.wait
%c: f32[1024] = extern "c" reads(%r.1, %b)

output %c
)";

analysis::CostModel costs_of(const char* costs) {
  const std::string path = ::testing::TempDir() + "braid_costs." + std::to_string(getpid()) + ".json";
  std::FILE* f = std::fopen(path.c_str(), "w");
  std::fputs(costs, f);
  std::fclose(f);
  analysis::CostModel model(with_paced_link(analysis::load_machine("cpu"), 10, 1), {.cost_file = path});
  std::remove(path.c_str());
  return model;
}

TEST(MeasuredTimeline, WhatAWaitCostsItsCallerRunsBesideTheTransfer) {
  const ir::Schedule s = ir::parse_schedule(kProgram, "p.braid");
  // The link takes 10 us and 4.096 us for the 4 KiB of a ring's traffic.
  const analysis::CostModel free = costs_of(R"({"version": 1, "ns": {"a": 1000, "b": 4000, "c": 2000}})");
  EXPECT_EQ(timeline_view(s, free).makespan, us(1 + 14.096 + 2));
  const analysis::CostModel hidden =
      costs_of(R"({"version": 1, "ns": {"a": 1000, "b": 4000, "c": 2000, "r.wait": 3000}})");
  EXPECT_EQ(timeline_view(s, hidden).makespan, us(1 + 14.096 + 2));
  const analysis::CostModel shown =
      costs_of(R"({"version": 1, "ns": {"a": 1000, "b": 4000, "c": 2000, "r.wait": 30000, "r.issue": 500}})");
  const TimelineView view = timeline_view(s, shown);
  EXPECT_EQ(view.makespan, us(1 + 0.5 + 4 + 30 + 2));
  std::vector<std::string> names;
  for (const Span& span : view.spans) {
    if (span.lane == 0) names.push_back(span.name);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("a", "r", "b", "r.wait", "c"));
}

TEST(MeasuredTimeline, LinksOfCommunicatorsDoNotShare) {
  const char* two = R"(graph p
ranks 2
channels communicator
group @g = [0, 1]
group @h = [0, 1]

input %x: f32[1024]

%r: f32[1024] = all_reduce sum @g (%x)
%s: f32[1024] = all_reduce sum @h (%x)
%r.1 mutates %r = wait r
%s.1 mutates %s = wait s

output %r.1
output %s.1
)";
  const analysis::CostModel costs = costs_of(R"({"version": 1, "ns": {}})");
  EXPECT_EQ(timeline_view(ir::parse_schedule(two, "p.braid"), costs).makespan, us(14.096));
}

TEST(MeasuredTimeline, ComparisonNamesAnotherOrderAndWhatIsMissing) {
  const ir::Schedule s = ir::parse_schedule(kProgram, "p.braid");
  passes::PassContext context;
  context.costs = std::make_shared<const analysis::CostModel>(costs_of(R"({"version": 1, "ns": {}})"));
  const OverlapStory story = OverlapObserver(context).story(s);
  MeasuredTimeline t = two_ranks();
  EXPECT_THAT(compare(story, s, t), Not(HasSubstr("another order")));
  std::swap(t.nodes[0], t.nodes[2]);
  EXPECT_THAT(compare(story, s, t), HasSubstr("in another order: 'b' where the schedule has 'a'"));
  t.nodes[0].name = "else";
  EXPECT_THAT(compare(story, s, t), HasSubstr("1 of the schedule's nodes were not measured"));
}

}  // namespace
}  // namespace braid::explain
