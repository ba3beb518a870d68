// Every reason that is printed is a claim: random programs, all passes that move communication, with and
// without caps and groups, each claim held against the simulator.
#include "explain/order_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "analysis/measure.h"
#include "explain/overlap_story.h"
#include "explain/overlap_text.h"
#include "passes/overlap/groups.h"
#include "tests/explain/limit_oracle.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using namespace passes;
using namespace analysis;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

// Kernels, some of no time, and collectives on two channels whose waits come at any place after their starts.
ir::Schedule random_schedule(Random& random, int nodes) {
  std::string text = "graph random\nranks 2\n";
  if (random.below(2) == 0) text += "channels communicator\n";
  text += "group @g = [0, 1]\ngroup @h = [0, 1]\n\ninput %x: f32[64]\n\n";
  struct Value {
    std::string name;
    int size;
  };
  std::vector<Value> values = {{"x", 64}}, open;
  const auto wait_for = [&](std::size_t k) {
    text += wait(open[k].name);
    values.push_back({open[k].name + ".1", open[k].size});
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(k));
  };
  for (int n = 0; n < nodes; ++n) {
    const int kind = random.below(10);
    // Recent values are needed more often.
    const Value& a = values[values.size() - 1 -
                            static_cast<std::size_t>(
                                random.below(static_cast<int>(std::min<std::size_t>(values.size(), 4))))];
    const int ns = random.below(4) == 0 ? 0 : 100 + random.below(5000);
    if (kind < 5) {
      const Value v{fmt::format("v{}", n), 64 * (1 + random.below(8))};
      const Value& b = random.of(values);
      text += fmt::format("%{}: f32[{}] = extern \"work\" reads(%{}, %{}) cost(ns {})\n", v.name, v.size,
                          a.name, b.name, ns);
      values.push_back(v);
    } else if (kind < 8) {
      const Value v{fmt::format("r{}", n), a.size};
      const bool blocking = random.below(8) == 0;
      text += fmt::format("%{}: f32[{}] = all_reduce sum @{} (%{}){} cost(ns {})\n", v.name, v.size,
                          random.below(3) == 0 ? "h" : "g", a.name, blocking ? " blocking" : "", 1 + 2 * ns);
      (blocking ? values : open).push_back(v);
    } else if (!open.empty()) {
      wait_for(static_cast<std::size_t>(random.below(static_cast<int>(open.size()))));
    }
  }
  while (!open.empty()) wait_for(0);
  text += fmt::format("\noutput %{}\n", values.back().name);
  return ir::parse_schedule(text, "random");
}

void group_neighbours(ir::Schedule& schedule, Random& random) {
  std::vector<NewGroup> groups;
  for (int n = 0; n + 1 < static_cast<int>(schedule.nodes.size()); ++n) {
    if (random.below(4) != 0) continue;
    groups.push_back({fmt::format("group{}", groups.size()), {NodeId{n}, NodeId{n + 1}}, {}});
    if (groups.size() > 1 && random.below(3) == 0) groups.back().after = {0};
    ++n;
  }
  if (!groups.empty()) group_nodes(schedule, std::move(groups));
}

struct Explained {
  ir::Schedule schedule;
  OverlapReport report;
  PassContext context;
};

Explained explained(std::uint64_t seed) {
  Random random(seed);
  Explained e;
  e.schedule = random_schedule(random, 6 + random.below(14));
  if (random.below(4) == 0) group_neighbours(e.schedule, random);
  if (random.below(3) == 0) {
    e.context.memory_cap =
        MemoryModel(e.schedule).planned_bytes(identity_order(static_cast<int>(e.schedule.nodes.size())));
  }
  const std::vector<std::string> lists = {"",
                                          "sink_waits",
                                          "raise_comms",
                                          "schedule_for_comm",
                                          "simple_overlap",
                                          "reorder_compute_for_overlap",
                                          "reorder_communication_preserving_peak_memory{budget=0}",
                                          "sink_waits_iterative{budget=0}",
                                          "sink_waits_iterative{budget=2}",
                                          "reorder_for_peak_memory",
                                          "bucket_collectives",
                                          "latency_hiding",
                                          "braid_schedule{budget=0}",
                                          "braid_schedule{budget=20,memory_growth=0}",
                                          "braid_schedule{budget=20}"};
  const std::string& list = random.of(lists);
  explain::OverlapObserver observer(e.context);
  RunOptions options{.context = &e.context};
  options.observers.push_back([&](const PassRun& run) { observer.observe(run.pass, run.before, run.after); });
  run_passes(e.schedule, parse_pass_list(list), options);
  const explain::OverlapStory story = observer.story(e.schedule);
  if (story.steps.empty()) {
    e.report = make_report("", story.last, story.last);
    for (std::size_t c = 0; c < e.report.collectives.size(); ++c)
      e.report.collectives[c].limit = story.last.collectives[c].limit;
  } else {
    e.report = story.steps.back().report;
    for (std::size_t c = 0; c < e.report.collectives.size(); ++c) {
      EXPECT_EQ(to_string(e.report.collectives[c].limit), to_string(story.last.collectives[c].limit))
          << "the same at the top and of the last pass";
    }
  }
  return e;
}

TEST(OrderLimits, EveryReasonHoldsAgainstTheSimulator) {
  std::map<LimitReason, int> seen;
  int ties = 0, claims = 0;
  const std::uint64_t first = first_seed();
  const int cases = random_cases(1500);
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(cases); ++seed) {
    const Explained e = explained(seed);
    const LimitOracle oracle(e.schedule, *e.context.costs, e.report.freedom);
    for (std::size_t c = 0; c < e.report.collectives.size(); ++c) {
      const CollectiveReport& r = e.report.collectives[c];
      ++seen[r.limit.reason];
      ++claims;
      const std::string why = oracle.refute(ir::id_at<CollectiveId>(c), r.limit);
      if (why.empty()) continue;
      if (oracle.tied(ir::id_at<CollectiveId>(c))) {
        ++ties;
        continue;
      }
      ADD_FAILURE() << "seed " << seed << ", " << e.report.pass << ", " << r.name << ": '"
                    << to_string(r.limit) << "', but " << why << "\n"
                    << names(e.schedule);
    }
  }
  if (cases < 1000) return;
  EXPECT_LE(ties * 100, claims);
  for (int k = 0; k <= static_cast<int>(LimitReason::form); ++k)
    EXPECT_GT(seen[static_cast<LimitReason>(k)], 0) << to_string(static_cast<LimitReason>(k));
}

// The oracle is worth something: no claim survives with another number of bytes or another name in it.
TEST(OrderLimits, PlantedFaultsAreRefuted) {
  std::map<LimitReason, int> planted;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Explained e = explained(seed);
    const LimitOracle oracle(e.schedule, *e.context.costs, e.report.freedom);
    for (std::size_t c = 0; c < e.report.collectives.size(); ++c) {
      const Limit& limit = e.report.collectives[c].limit;
      const auto index = ir::id_at<CollectiveId>(c);
      if (oracle.tied(index)) continue;
      std::vector<Limit> wrong;
      if (limit.reason == LimitReason::memory) {
        for (const int bytes : {-1, 1}) {
          wrong.push_back(limit);
          wrong.back().bytes += bytes;
        }
      }
      if (limit.reason == LimitReason::data || limit.reason == LimitReason::order) {
        for (int n = 0; n < static_cast<int>(e.schedule.nodes.size()); ++n) {
          wrong.push_back(limit);
          wrong.back().other = ir::name_of(e.schedule, n);
          if (wrong.back().other == limit.other) wrong.pop_back();
        }
      }
      for (const LimitReason reason : {LimitReason::memory, LimitReason::boundary, LimitReason::cost,
                                       LimitReason::none, LimitReason::form, LimitReason::group}) {
        wrong.push_back(limit);
        wrong.back().reason = reason;
        if (reason == limit.reason) wrong.pop_back();
      }
      for (const Limit& w : wrong) {
        EXPECT_NE(oracle.refute(index, w), "")
            << "seed " << seed << ", " << e.report.pass << ", " << e.report.collectives[c].name << ": '"
            << to_string(limit) << "' and '" << to_string(w) << "'\n"
            << names(e.schedule);
      }
      if (!wrong.empty()) ++planted[limit.reason];
    }
  }
  EXPECT_GT(planted[LimitReason::memory], 0);
  EXPECT_GT(planted[LimitReason::data], 0);
  EXPECT_GT(planted[LimitReason::order], 0);
}

std::vector<std::string> reasons(const std::string& text, const std::string& passes) {
  ir::Schedule schedule = ir::parse_schedule(text, "test");
  PassContext context;
  explain::OverlapObserver observer(context);
  RunOptions options{.context = &context};
  options.observers.push_back([&](const PassRun& run) { observer.observe(run.pass, run.before, run.after); });
  run_passes(schedule, parse_pass_list(passes), options);
  std::vector<std::string> out;
  for (const CollectiveReport& c : observer.story(schedule).last.collectives)
    out.push_back(to_string(c.limit));
  return out;
}

TEST(OrderLimits, TheJsonHasTheSameReasonAtTheTop) {
  ir::Schedule schedule = ir::parse_schedule(
      graph(compute("a", "%x", 5000) + all_gather("g", "a", 3000) + wait("g") + compute("b", "%a, %g.1"),
            "output %b\n"),
      "test");
  PassContext context;
  explain::OverlapObserver observer(context);
  RunOptions options{.context = &context};
  options.observers.push_back([&](const PassRun& run) { observer.observe(run.pass, run.before, run.after); });
  run_passes(schedule, parse_pass_list("braid_schedule"), options);
  const std::string json = to_json(observer.story(schedule));
  const std::string reason = "\"reason\": \"data\",\n";
  EXPECT_NE(json.find(reason), std::string::npos) << json;
  EXPECT_NE(json.find(reason), json.rfind(reason)) << "once at the top, once of the pass";
  EXPECT_EQ(json.find("\"reason\": \"none\""), std::string::npos);
}

// Two gathers, each longer than the product beside it: the second is in its channel behind the first. A cap
// that does not bind is no reason.
TEST(OrderLimits, ACapThatDoesNotBindIsNoReason) {
  const std::string text = graph(all_gather("g0", "x", 3000) + wait("g0") + compute("h0", "%x, %g0.1") +
                                     all_gather("g1", "w", 3000) + wait("g1") + compute("h1", "%h0, %g1.1"),
                                 "output %h1\n");
  EXPECT_THAT(reasons(text, "braid_schedule{memory_growth=1000}"),
              testing::ElementsAre("begin or end of the schedule", "order with 'g0'"));
}

TEST(OrderLimits, APassThatMovesNoStartsSaysSo) {
  const std::string text =
      graph(compute("a", "%x", 5000) + all_gather("g", "x", 3000) + wait("g") + compute("b", "%a, %g.1"),
            "output %b\n");
  EXPECT_THAT(reasons(text, "bucket_collectives"),
              testing::ElementsAre("bucket_collectives moves no starts: would be faster in front of 'a'"));
  EXPECT_THAT(reasons(text, "sink_waits"), testing::ElementsAre("data dependency on 'b'"));
  EXPECT_THAT(reasons(text, "schedule_for_comm"), testing::ElementsAre("cost: would not be faster"));
}

}  // namespace
}  // namespace braid::test
