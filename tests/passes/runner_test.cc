#include "passes/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ir/error.h"
#include "ir/parser.h"
#include "passes/default_passes.h"

namespace braid::passes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Grow {
  static constexpr std::string_view kName = "grow";
  static constexpr std::string_view kDescription = "raises the number of ranks";
  std::int64_t by = 1;
  bool really = true;
  double factor = 1.5;
  std::string label = "x";
  static std::vector<PassOption<Grow>> options() {
    return {{"by", &Grow::by, "how many"},
            {"really", &Grow::really, "or not"},
            {"factor", &Grow::factor, "unused"},
            {"label", &Grow::label, "unused"}};
  }
  bool run(ir::Schedule& schedule) {
    if (really) schedule.graph.ranks += static_cast<int>(by);
    return really;
  }
};

PassRegistry registry() {
  PassRegistry r;
  r.add<Grow>();
  return r;
}

int code_of(const std::function<void()>& f, std::string* text = nullptr) {
  try {
    f();
  } catch (const ir::UserError& e) {
    if (text != nullptr) *text = e.what();
    return e.code();
  }
  return 0;
}

TEST(PassList, ReadsNamesAndOptions) {
  const std::vector<Pass> list = parse_pass_list(" grow{by=3, really=true} , grow", registry());
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].options()[0].default_value, "3");
  EXPECT_EQ(list[1].options()[0].default_value, "1") << "passes of one list share no options";
  ir::Schedule s;
  run_passes(s, list, {.verify = false});
  EXPECT_EQ(s.graph.ranks, 5);
}

TEST(PassList, OptionsMayFollowColonsWhichShellsLeaveAlone) {
  const std::vector<Pass> list = parse_pass_list("grow:by=3:really=true,grow", registry());
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].options()[0].default_value, "3");
  EXPECT_EQ(list[0].options()[1].default_value, "true");
  EXPECT_EQ(code_of([] { parse_pass_list("grow:by", registry()); }), 544);
  EXPECT_EQ(code_of([] { parse_pass_list("grow:", registry()); }), 544);
}

TEST(PassList, EmptyListIsNoPasses) { EXPECT_TRUE(parse_pass_list("  ", registry()).empty()); }

TEST(PassList, UnknownNameListsKnownOnes) {
  std::string text;
  EXPECT_EQ(code_of([] { parse_pass_list("grwo", registry()); }, &text), 540);
  EXPECT_THAT(text, HasSubstr("grow"));
}

TEST(PassList, UnknownOptionListsKnownOnes) {
  std::string text;
  EXPECT_EQ(code_of([] { parse_pass_list("grow{bye=3}", registry()); }, &text), 541);
  EXPECT_THAT(text, HasSubstr("by, really, factor, label"));
}

TEST(PassList, ValueOfWrongTypeIsRefused) {
  EXPECT_EQ(code_of([] { parse_pass_list("grow{by=3x}", registry()); }), 542);
  EXPECT_EQ(code_of([] { parse_pass_list("grow{really=yes}", registry()); }), 542);
}

TEST(PassList, BadSyntaxIsRefused) {
  EXPECT_EQ(code_of([] { parse_pass_list("grow{by=3", registry()); }), 544);
  EXPECT_EQ(code_of([] { parse_pass_list("grow}", registry()); }), 544);
  EXPECT_EQ(code_of([] { parse_pass_list("grow{by}", registry()); }), 544);
  EXPECT_EQ(code_of([] { parse_pass_list("grow{by=1}x", registry()); }), 544);
}

TEST(Plugin, AbsentLibraryIsAUserError) {
  EXPECT_EQ(code_of([] { load_plugin("no/such/library.so"); }), 543);
}

std::vector<Pass> three() {
  std::vector<Pass> passes = {Grow{.by = 1}, Pass("nothing", [](ir::Schedule&) { return false; }),
                              Grow{.by = 10}};
  return passes;
}

std::vector<PassRecord::Outcome> outcomes(const std::vector<PassRecord>& records) {
  std::vector<PassRecord::Outcome> out;
  for (const PassRecord& r : records) out.push_back(r.outcome);
  return out;
}

TEST(Runner, TellsChangedFromUnchanged) {
  using enum PassRecord::Outcome;
  ir::Schedule s;
  const auto records = run_passes(s, three(), {.verify = false});
  EXPECT_THAT(outcomes(records), ElementsAre(changed, unchanged, changed));
  EXPECT_THAT(to_string(records), HasSubstr("(unchanged)"));
}

TEST(Runner, DisableSkipsByName) {
  using enum PassRecord::Outcome;
  ir::Schedule s;
  EXPECT_THAT(outcomes(run_passes(s, three(), {.verify = false, .disable = {"grow"}})),
              ElementsAre(disabled, unchanged, disabled));
  EXPECT_EQ(s.graph.ranks, 1);
}

TEST(Runner, DisablingAnUnknownPassIsAUserError) {
  ir::Schedule s;
  EXPECT_EQ(code_of([&] { run_passes(s, three(), {.disable = {"shrink"}}); }), 540);
}

TEST(Runner, BisectRunsTheFirstOnly) {
  using enum PassRecord::Outcome;
  ir::Schedule s;
  EXPECT_THAT(outcomes(run_passes(s, three(), {.verify = false, .bisect = 2})),
              ElementsAre(changed, unchanged, bisected));
  EXPECT_EQ(s.graph.ranks, 2);
}

constexpr const char* kTwoCollectives = R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[4]

%c: f32[4] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%d: f32[4] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) as first
%c.2 mutates %c.1 = wait first
release first
%d.1 mutates %d = all_reduce sum @all (%d) as second
%d.2 mutates %d.1 = wait second
release second

output %c.2
output %d.2
)";

std::string internal_error(const Pass& pass, const RunOptions& options = {},
                           const char* text = kTwoCollectives) {
  ir::Schedule s = ir::parse_schedule(text);
  try {
    run_passes(s, std::vector<Pass>{pass}, options);
  } catch (const ir::InternalError& e) {
    return e.what();
  }
  return {};
}

// Moves the second collective (nodes 5 to 7) before the first (2 to 4).
bool swap_collectives(ir::Schedule& s) {
  std::rotate(s.nodes.begin() + 2, s.nodes.begin() + 5, s.nodes.end());
  return true;
}

TEST(Runner, NamesThePassThatBrokeTheSchedule) {
  EXPECT_THAT(internal_error(Pass("careless",
                                  [](ir::Schedule& s) {
                                    std::swap(s.nodes[0], s.nodes[2]);
                                    return true;
                                  })),
              HasSubstr("careless"));
}

TEST(Runner, HoldsPassesToTheOrderOfCollectives) {
  EXPECT_THAT(internal_error(Pass("hasty", swap_collectives)),
              HasSubstr("'hasty' changed the order of collectives"));
  EXPECT_EQ(internal_error(Pass("allowed", swap_collectives, true)), "");
}

// Two exchanges between the ranks, an all-reduce, and a message that both sides wait for at once.
constexpr const char* kTransfers = R"(graph main
ranks 2
channels communicator
group @pair = [0, 1]
group @all = [1, 0]

input %x: f32[4]

send @pair (%x) peer 1 as s1
%a: f32[4] = recv @pair peer 0 as r1
%b: f32[4] = recv @pair peer 0 as r2
send @pair (%x) peer 1 as s2
%c: f32[4] = all_reduce sum @all (%x) as c
%a.1 mutates %a = wait r1
%b.1 mutates %b = wait r2
%c.1 mutates %c = wait c
wait s1
wait s2
send @pair (%x) peer 1 as s3
wait s3
%d: f32[4] = recv @pair peer 0 as r3
%d.1 mutates %d = wait r3

output %a.1
output %b.1
output %c.1
output %d.1
)";

// Returns the error for a pass that may reorder collectives and moves node `from` before node `to`.
std::string moved(std::size_t from, std::size_t to) {
  const Pass pass(
      "careless",
      [&](ir::Schedule& s) {
        const ir::ScheduleNode node = s.nodes[from];
        s.nodes.erase(s.nodes.begin() + static_cast<std::ptrdiff_t>(from));
        s.nodes.insert(s.nodes.begin() + static_cast<std::ptrdiff_t>(to), node);
        return true;
      },
      true);
  return internal_error(pass, {}, kTransfers);
}

TEST(Runner, HoldsAllPassesToTheMessagesOfAPair) {
  EXPECT_EQ(moved(0, 0), "");
  EXPECT_THAT(moved(3, 0),
              HasSubstr("of the sends of group 'pair' with member 1, number 0 was 's1', now it is 's2'"));
  EXPECT_THAT(moved(2, 1),
              HasSubstr("of the recvs of group 'pair' with member 0, number 0 was 'r1', now it is 'r2'"));
  const Pass loses(
      "loses",
      [](ir::Schedule& s) {
        return std::erase_if(s.nodes, [&](const ir::ScheduleNode& n) {
                 return s.graph[n.op].name == "s3" || s.graph[n.op].name == "s3.wait";
               }) > 0;
      },
      true);
  EXPECT_THAT(internal_error(loses, {}, kTransfers), HasSubstr("number 2 was 's3', now it is none"));
}

TEST(Runner, HoldsAllPassesToTheQueuesOfAProgramWithTransfers) {
  EXPECT_THAT(moved(1, 0), HasSubstr("in one queue, number 0 was 's1', now it is 'r1'"));
  EXPECT_EQ(moved(4, 0), "") << "the all-reduce has a queue of its own";
}

TEST(Runner, HoldsPassesToProgramsThatTheRanksCanRunTogether) {
  // Rank 0 waits for the receiver of s3, which waits for rank 0's part of the sum.
  const Pass careless(
      "careless",
      [](ir::Schedule& s) {
        std::rotate(s.nodes.begin() + 4, s.nodes.begin() + 5, s.nodes.begin() + 12);  // the all-reduce
        std::rotate(s.nodes.begin() + 6, s.nodes.begin() + 7, s.nodes.begin() + 12);  // its wait
        return true;
      },
      true);
  EXPECT_THAT(internal_error(careless, {}, kTransfers),
              HasSubstr("after pass 'careless' the ranks do not fit together any more: error BR0901"));
}

TEST(Runner, HoldsPassesToWhatTheySay) {
  const Pass liar("liar", [](ir::Schedule& s) {
    s.graph[s.nodes[0].op].cost = ir::Cost{.ns = 1};
    return false;
  });
  EXPECT_EQ(internal_error(liar), "");
  EXPECT_THAT(internal_error(liar, {.check_unchanged = true}), HasSubstr("liar"));
}

TEST(Runner, BadInputIsNotBlamedOnTheFirstPass) {
  ir::Schedule s = ir::parse_schedule(kTwoCollectives);
  std::swap(s.nodes[0], s.nodes[2]);
  try {
    run_passes(s, default_passes());
    FAIL();
  } catch (const ir::InternalError& e) {
    EXPECT_THAT(e.what(), HasSubstr("as it came in"));
  }
}

TEST(Runner, PrintsAfterThePassesThatWereAskedFor) {
  std::string out;
  ir::Schedule s = ir::parse_schedule(kTwoCollectives);
  run_passes(s, default_passes(),
             {.print_after = {"dead_code", "plan_memory"}, .print = [&](const std::string& t) { out += t; }});
  EXPECT_THAT(out, HasSubstr("// after dead_code (unchanged)\n"));
  EXPECT_THAT(out, HasSubstr("// after plan_memory\ngraph main"));
  EXPECT_THAT(out, ::testing::Not(HasSubstr("fuse_vertical")));
}

TEST(Runner, SaysThatAPassToPrintAfterIsNotInTheList) {
  std::string out;
  ir::Schedule s = ir::parse_schedule(kTwoCollectives);
  const auto print = [&](const std::string& t) { out += t; };
  run_passes(s, {}, {.print_after = {"all"}, .print = print});
  run_passes(s, default_passes(), {.print_after = {"all", "sink_waits"}, .print = print});
  EXPECT_THAT(out, ::testing::StartsWith("// the pass list is empty\n"));
  EXPECT_THAT(out, ::testing::EndsWith("// sink_waits is not in the pass list\n"));
}

TEST(Registry, ListsPassesWithTheirOptions) {
  EXPECT_THAT(list_passes(), HasSubstr("plan_memory"));
  EXPECT_THAT(list_passes(), HasSubstr("arena_alignment=64"));
}

}  // namespace
}  // namespace braid::passes
