// sink_waits, raise_comms, reorder_compute_for_overlap, decide_global_ordering_of_comms, schedule_for_comm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/passes/overlap/orders.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

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
