// sink_waits, raise_comms, reorder_compute_for_overlap, decide_global_ordering_of_comms, schedule_for_comm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "analysis/problem.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using analysis::NodeId;
using analysis::Order;

TEST(SinkWaits, GoDownToTheFirstUserAndTakeTheirReleaseAlong) {
  const std::string text = graph(all_gather("g", "w") + wait("g") + release("g") + compute("a", "%x") +
                                     compute("b", "%g.1") + compute("c", "%x"),
                                 "output %a\noutput %b\noutput %c\n");
  EXPECT_EQ(order_after("sink_waits", text), "g a g.wait g.release b c");
}

TEST(SinkWaits, MoveNothingButWaitsAndReleases) {
  const std::string text =
      graph(all_gather("g", "w") + compute("a", "%x") + wait("g") + compute("b", "%g.1") + release("g"),
            "output %a\noutput %b\n");
  EXPECT_EQ(order_after("sink_waits", text), "g a g.wait g.release b");
}

TEST(SinkWaits, ComeInInputOrderWhereSeveralAreDue) {
  const std::string text = graph(all_gather("g", "w") + wait("g") + all_gather("h", "x") + wait("h") +
                                     compute("a", "%x") + compute("b", "%h.1, %g.1"),
                                 "output %a\noutput %b\n");
  EXPECT_EQ(order_after("sink_waits", text), "g h a g.wait h.wait b");
}

TEST(RaiseComms, ACollectiveWithoutComputedInputsGoesToTheTop) {
  const std::string text = graph(
      compute("a", "%x") + compute("b", "%a") + all_gather("g", "w") + wait("g") + compute("c", "%b, %g.1"),
      "output %c\n");
  EXPECT_EQ(order_after("raise_comms", text), "g a b g.wait c");
}

TEST(RaiseComms, StopAtTheirInputAndKeepTheirOrder) {
  const std::string text =
      graph(compute("a", "%x") + compute("b", "%x") + compute("c", "%x") + all_gather("g", "a") +
                all_gather("h", "w") + wait("g") + wait("h") + compute("d", "%g.1, %h.1, %b, %c"),
            "output %d\n");
  EXPECT_EQ(order_after("raise_comms", text), "a g h b c g.wait h.wait d");
}

TEST(RaiseComms, WhatLiesBetweenInputAndStartDoesNotMove) {
  const std::string text = graph(compute("mm1", "%x") + compute("relu", "%mm1") + compute("mm2", "%relu") +
                                     compute("clone", "%mm1") + all_gather("ar", "clone") + wait("ar") +
                                     compute("mm3", "%ar.1, %mm2"),
                                 "output %mm3\n");
  EXPECT_EQ(order_after("raise_comms", text), "mm1 relu mm2 clone ar ar.wait mm3");
  // The second generation takes it along.
  EXPECT_EQ(order_after("schedule_for_comm{overlap=false}", text), "mm1 clone ar relu mm2 ar.wait mm3");
}

std::string two_gathers(int first_cost, const std::string& fillers) {
  return graph(compute("a", "%x") + all_gather("g", "a", first_cost) + wait("g") + compute("b", "%g.1") +
                   all_gather("h", "b", 1000) + wait("h") + fillers + compute("end", "%h.1"),
               "output %end\n");
}

TEST(ReorderComputeForOverlap, FillsTheTimeOfACollectiveWithReadyNodes) {
  const std::string text = two_gathers(2000, compute("f1", "%x", 900) + compute("f2", "%x", 900) +
                                                 compute("f3", "%x", 900) + compute("f4", "%x", 900));
  // 900 and 1800 ns leave a gap of 200 ns, which is less than half of f3.
  EXPECT_EQ(order_after("reorder_compute_for_overlap", text), "a g f1 f2 g.wait b h h.wait f3 f4 end");
}

TEST(ReorderComputeForOverlap, ANodeThatDoesNotFitIsSkippedAndTheSearchGoesOn) {
  const std::string text = two_gathers(1000, compute("large", "%x", 5000) + compute("small", "%x", 700));
  EXPECT_EQ(order_after("reorder_compute_for_overlap", text), "a g small g.wait b h h.wait large end");
}

TEST(ReorderComputeForOverlap, CandidatesAreThoseThatWereReadyWhenTheStepBegan) {
  const std::string text =
      two_gathers(3000, compute("first", "%x", 1000) + compute("second", "%first", 1000));
  EXPECT_EQ(order_after("reorder_compute_for_overlap", text), "a g first g.wait b h h.wait second end");
}

TEST(ReorderComputeForOverlap, WhatTheNextCollectiveNeedsCountsFirst) {
  const std::string text =
      graph(compute("a", "%x") + all_gather("g", "a", 1500) + compute("free", "%x", 800) +
                compute("p", "%x", 1000) + all_gather("h", "p") + wait("g") + wait("h") +
                compute("end", "%g.1, %h.1"),
            "output %end\noutput %free\n");
  EXPECT_EQ(order_after("reorder_compute_for_overlap", text), "a g p free h g.wait h.wait end");
}

TEST(ReorderComputeForOverlap, ACollectiveWithoutInputsIsNoReasonToStop) {
  const std::string text = graph(all_gather("g", "w") + wait("g") + compute("a", "%g.1") +
                                     all_gather("h", "x") + wait("h") + compute("b", "%a, %h.1"),
                                 "output %b\n");
  EXPECT_EQ(order_after("reorder_compute_for_overlap", text), "g h g.wait a h.wait b");
}

// Three independent collectives, two kernels that could hide them; each takes 1000 ns.
std::string three_collectives() {
  std::string body, outputs;
  for (const char* c : {"c1", "c2", "c3"}) body += all_gather(c, "w", 1000);
  for (const char* k : {"k1", "k2"}) {
    body += compute(k, "%x", 1000);
    outputs += fmt::format("output %{}\n", k);
  }
  for (const char* c : {"c1", "c2", "c3"}) {
    body += wait(c);
    outputs += fmt::format("output %{}.1\n", c);
  }
  return graph(body, outputs);
}

TEST(ReorderComputeForOverlap, AllThatWasLookedForInVainCountsForTheNextCollective) {
  EXPECT_EQ(order_after("reorder_compute_for_overlap", three_collectives()),
            "c1 k1 c2 c3 k2 c1.wait c2.wait c3.wait");
}

TEST(ReorderComputeForOverlap, OrOnlyWhatGoesBeyondTheCost) {
  EXPECT_EQ(order_after("reorder_compute_for_overlap{surplus_only=true}", three_collectives()),
            "c1 k1 c2 k2 c3 c1.wait c2.wait c3.wait");
}

// The published procedure, with sets of nodes and no thought of speed.
Order published_compute_for_overlap(const analysis::Problem& p) {
  analysis::IdVector<NodeId, std::set<NodeId>> ancestors(p.nodes());
  std::vector<NodeId> comms;
  for (NodeId n : p.nodes()) {
    auto& mine = ancestors[n];
    for (NodeId before : p.predecessors(n)) {
      mine.insert(before);
      mine.merge(std::set<NodeId>(ancestors[before]));
    }
    if (p.started_by(n).valid()) comms.push_back(n);
  }
  const auto needs = [&](NodeId node, NodeId before) { return ancestors[node].contains(before); };
  Order order;
  std::set<NodeId> left;
  for (NodeId n : p.nodes()) left.insert(n);
  const auto emit = [&](NodeId n) {
    left.erase(n);
    order.push_back(n);
  };
  const auto emit_needed = [&](NodeId comm) {
    bool any = false;
    for (NodeId n : std::set<NodeId>(left)) {
      if (!needs(comm, n)) continue;
      emit(n);
      any = true;
    }
    return any;
  };
  analysis::Time rolled_over;
  for (std::size_t c = 0; c < comms.size(); ++c) {
    if (c > 0) {
      const NodeId previous = comms[c - 1];
      const analysis::Time cost = p.collectives[p.started_by(previous)].cost.time;
      analysis::Time hidden = rolled_over;
      for (NodeId n : std::set<NodeId>(left)) {
        if (!needs(comms[c], n) || needs(n, previous)) continue;
        emit(n);
        hidden += p.compute_time(n);
      }
      const analysis::Time step1 = hidden;
      std::vector<std::pair<std::size_t, NodeId>> candidates;  // first collective that it feeds, node
      for (NodeId n : left) {
        if (needs(n, previous) || p.started_by(n).valid()) continue;
        if (std::ranges::any_of(p.predecessors(n), [&](NodeId before) { return left.contains(before); }))
          continue;
        std::size_t first = 0;
        while (first < comms.size() && !needs(comms[first], n)) ++first;
        candidates.emplace_back(first, n);
      }
      std::ranges::sort(candidates);
      for (const auto& [first, n] : candidates) {
        if (hidden >= cost) break;
        if (2 * (cost - hidden).ps <= p.compute_time(n).ps) continue;
        emit(n);
        hidden += p.compute_time(n);
      }
      const bool between = emit_needed(comms[c]);
      rolled_over = between ? analysis::Time{} : hidden - step1;
    } else {
      emit_needed(comms[c]);
    }
    emit(comms[c]);
  }
  for (NodeId n : std::set<NodeId>(left)) emit(n);
  return order;
}

TEST(ReorderComputeForOverlap, IsThePublishedProcedureOnRandomGraphs) {
  for (int k = 0; k < random_cases(500); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    std::string body, outputs;
    std::vector<std::string> values = {"x"}, open;
    for (std::uint64_t left = 5 + below(40), n = 0; left > 0; --left, ++n) {
      const std::string name = fmt::format("n{}", n);
      const std::string read = values[below(values.size())];
      const int ns = static_cast<int>(100 * below(20));
      if (below(4) == 0) {
        body += fmt::format("%{}: f32[128] = all_gather @g (%{}) cost(ns {})\n", name, read, ns);
        open.push_back(name);
      } else if (!open.empty() && below(3) == 0) {
        const std::size_t which = below(open.size());
        body += wait(open[which]);
        outputs += "output %" + open[which] + ".1\n";
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        body += compute(name, "%" + read + ", %" + values[below(values.size())], ns);
        values.push_back(name);
        outputs += "output %" + name + "\n";
      }
    }
    for (const std::string& name : open) body += wait(name);
    const std::string text = graph(body, outputs);
    const ir::Schedule schedule = ir::parse_schedule(text, "test");
    std::string expected;
    for (NodeId n :
         published_compute_for_overlap(analysis::make_problem(schedule, *passes::PassContext().costs)))
      expected += (expected.empty() ? "" : " ") + ir::name_of(schedule, n.index);
    ASSERT_EQ(order_after("reorder_compute_for_overlap", text), expected);
  }
}

TEST(ScheduleForComm, PutsComputeBehindAStartUntilItsCostIsCovered) {
  const std::string text =
      graph(all_gather("g", "w", 1500) + wait("g") + compute("a", "%g.1") + compute("b", "%x", 1000) +
                compute("c", "%x", 1000) + compute("d", "%x", 1000),
            "output %a\noutput %b\noutput %c\noutput %d\n");
  EXPECT_EQ(order_after("schedule_for_comm{sink=false}", text), "g b c g.wait a d");
}

TEST(ScheduleForComm, OrdersMutationsAfterReadersOfTheOldVersion) {
  const std::string text = graph(compute("a", "%x") + compute("b", "%a") +
                                     "%a.1 mutates %a = all_reduce sum @g (%a) as r cost(ns 1000)\n%a.2 "
                                     "mutates %a.1 = wait r as r.wait\n" +
                                     compute("c", "%a.2, %b"),
                                 "output %c\n");
  EXPECT_EQ(order_after("schedule_for_comm", text), "a b r r.wait c");
}

TEST(CommunicationPasses, LeaveAGraphWithoutCollectivesAlone) {
  const std::string text =
      graph(compute("b", "%x", 10) + compute("a", "%x", 9000) + compute("c", "%b"), "output %a\noutput %c\n");
  for (const char* pass :
       {"decide_global_ordering_of_comms{policy=pair}", "sink_waits", "raise_comms",
        "reorder_compute_for_overlap", "schedule_for_comm", "simple_overlap",
        "reorder_communication_preserving_peak_memory", "sink_waits_iterative", "braid_schedule"}) {
    EXPECT_EQ(order_after(pass, text), "b a c") << pass;
  }
}

TEST(DecideGlobalOrderingOfComms, ChainsCollectivesOfIndependentCommunicators) {
  const std::string text =
      "graph main\nranks 2\nchannels communicator\ngroup @g = [0, 1]\ngroup @h = [0, 1]\n\ninput %x: "
      "f32[64]\n\n" +
      compute("a", "%x") + all_gather("first", "a") +
      "%second: f32[128] = all_gather @h (%x) cost(ns 1000)\n" + wait("first") + wait("second") +
      compute("end", "%first.1, %second.1") + "\noutput %end\n";
  EXPECT_EQ(order_after("raise_comms", text), "a first second first.wait second.wait end");
  EXPECT_EQ(order_after("schedule_for_comm{overlap=false,sink=false}", text),
            "a first second first.wait second.wait end");
  EXPECT_EQ(order_after("decide_global_ordering_of_comms,raise_comms", text),
            "a first second first.wait second.wait end");
  EXPECT_THAT(error_of([&] { order_after("decide_global_ordering_of_comms{policy=none}", text); }),
              ::testing::HasSubstr("BR0542"));
}

}  // namespace
}  // namespace braid::test
