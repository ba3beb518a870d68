// The unit-step table: golden tables, and random schedules against a simulator that does what the table
// describes step by step.
#include "pipeline/step_table.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "pipeline/add_send_recv.h"
#include "pipeline/generators.h"
#include "pipeline/lower.h"
#include "tests/pipeline/lowering_rows.h"
#include "tests/pipeline/random_schedule.h"

namespace braid::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "0F0,.,0B0": a cell per step, without the bubbles after the last one.
std::string line(const PipelineSchedule& s, const StepTable& table, std::size_t rank) {
  std::map<int, std::string> cells;
  for (std::size_t p = 0; p < s.rows[rank].size(); p += cell_size(s.rows[rank], p))
    if (table.step_of[rank][p] >= 0) cells[table.step_of[rank][p]] = cell_text(s.rows[rank], p);
  std::string out;
  for (int step = 0; !cells.empty() && step <= cells.rbegin()->first; ++step)
    out += (step > 0 ? "," : "") + (cells.contains(step) ? cells[step] : ".");
  return out;
}

const PipelineSchedule g01 = schedule({0, 1}, 2,
                                      {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                       "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"});

TEST(StepTable, G01ElevenSteps) {
  const StepTable t = step_table(g01);
  EXPECT_EQ(t.steps, 11);
  EXPECT_EQ(line(g01, t, 0), "0F0,0SEND_F0,0F1,0SEND_F1,.,.,0RECV_B0,0B0,.,0RECV_B1,0B1");
  EXPECT_EQ(line(g01, t, 1), ".,1RECV_F0,.,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1");
}

TEST(StepTable, G01NineStepsWithPeek) {
  const StepTable t = step_table(g01, {.peek = true});
  EXPECT_EQ(t.steps, 9);
  EXPECT_EQ(line(g01, t, 0), "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,.,0RECV_B1,0B1");
  EXPECT_EQ(line(g01, t, 1), "1RECV_F0,.,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1");
}

TEST(StepTable, G05TakesTheRowsOfTheRuntime) {
  const PipelineSchedule s =
      find_generator("Interleaved1F1B").generate({.ranks = 2, .stages = 4, .microbatches = 2});
  EXPECT_EQ(step_table(add_send_recv(s)).steps, 26);
  const PipelineSchedule full = lower(s, {.unshard = UnshardOptions{}, .reduce_grad = true}).schedule;
  const StepTable t = step_table(full);
  EXPECT_FALSE(t.deadlock());
  EXPECT_GE(t.steps, 30);  // two UNSHARD, REDUCE_GRAD and RESHARD for each rank
  EXPECT_EQ(t.step_of[0][0], 0);
}

TEST(StepTable, G16RegistrySchedules) {
  const auto steps = [](RankOfStage ranks, int microbatches, std::vector<std::string> rows) {
    const PipelineSchedule s = add_send_recv(schedule(std::move(ranks), microbatches, std::move(rows)));
    return std::pair(step_table(s).steps, step_table(s, {.peek = true}).steps);
  };
  EXPECT_EQ(steps({0, 1, 1, 0}, 1, {"0F0,,,3F0,3B0,,,0B0", ",1F0,2F0,,,2B0,1B0,"}), std::pair(12, 8));
  EXPECT_EQ(steps({0, 0, 1, 1, 0}, 1, {"0F0,1F0,,,4F0,4B0,,,1B0,0B0", ",,2F0,3F0,,,3B0,2B0,,"}),
            std::pair(14, 10));
  EXPECT_EQ(steps({0, 1, 0, 1}, 2,
                  {"0F0,0F1,2F0,2F1,,2I0,2W0,0I0,2I1,0W0,0I1,2W1,0W1",
                   ",1F0,1F1,3F0,3I0,3F1,1I0,3I1,3W0,1I1,1W0,3W1,1W1"}),
            std::pair(30, 25));
  const PipelineSchedule reordered = schedule({0, 1}, 2,
                                              {"0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0RECV_B1,0B0,0B1",
                                               "1RECV_F0,1RECV_F1,1F0,1F1,1B0,1B1,1SEND_B0,1SEND_B1"});
  EXPECT_EQ(step_table(reordered).steps, 12);
}

TEST(StepTable, G18DeadlockNamesTheNextActionOfEachRank) {
  const PipelineSchedule s = schedule({0, 1}, 1, {"0F0,0RECV_B0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"});
  const StepTable t = step_table(s);
  ASSERT_TRUE(t.deadlock());
  EXPECT_EQ(deadlock_report(s, t),
            "        Rank 0 Rank 1\n"
            "Step 0: 0F0          \n"
            "Step 1:              \n"
            "Rank 0 waits at 0RECV_B0, rank 0, cell 1\n"
            "Rank 1 waits at 1RECV_F0, rank 1, cell 0\n");
}

TEST(StepTable, ThePrintedTable) {
  const PipelineSchedule s = schedule({0, 1}, 1, {"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"});
  EXPECT_EQ(to_text(s, step_table(s), 1),
            "        Rank 0   Rank 1  \n"
            "Step 0: 0F0              \n"
            "Step 1: 0SEND_F0 1RECV_F0 <-- ERROR HERE\n"
            "Step 2:          1F0     \n"
            "Step 3:          1B0     \n"
            "Step 4: 0RECV_B0 1SEND_B0\n"
            "Step 5: 0B0              \n");
}

TEST(StepTable, FewerStepsThanRanksArePrinted) {
  const PipelineSchedule s = schedule({0, 1, 2}, 1, {"0RECV_B0,0F0", "1RECV_F0,1F0", "2RECV_F0,2F0"});
  EXPECT_EQ(to_text(s, step_table(s)),
            "        Rank 0 Rank 1 Rank 2\n"
            "Step 0:                     \n");
  EXPECT_EQ(to_text({}, step_table({})), "        \n");
}

TEST(StepTable, AContainerIsOneStep) {
  const PipelineSchedule s =
      schedule({0, 1, 1, 0}, 2, {"0F0,0SEND_F0", "1RECV_F0,1F0,2F0,(2B0;1F1)OVERLAP_F_B,1B0"});
  const StepTable t = step_table(s);
  EXPECT_EQ(line(s, t, 1), ".,1RECV_F0,1F0,2F0");  // 2RECV_B0 and 1RECV_F1 are missing
  const PipelineSchedule whole = schedule(
      {0, 1}, 2, {"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F0,1RECV_F1,1F0,(1B0;1F1)OVERLAP_F_B,1SEND_B0"});
  EXPECT_EQ(line(whole, step_table(whole), 1), ".,1RECV_F0,.,1RECV_F1,1F0,(1B0;1F1)OVERLAP_F_B,1SEND_B0");
}

TEST(StepTable, BatchesOfTwoRanksMeet) {
  const PipelineSchedule s = schedule({0, 1, 0}, 1,
                                      {"0F0,0SEND_F0,2RECV_F0,2F0,2B0,(2SEND_B0;0RECV_B0)BATCH_P2P,0B0",
                                       "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1B0,1SEND_B0"});
  const StepTable t = step_table(s);
  EXPECT_EQ(line(s, t, 0), "0F0,0SEND_F0,.,2RECV_F0,2F0,2B0,.,.,(2SEND_B0;0RECV_B0)BATCH_P2P,0B0");
  EXPECT_EQ(line(s, t, 1), ".,1RECV_F0,1F0,1SEND_F0,.,.,1RECV_B0,1B0,1SEND_B0");
}

// The description of the simulator, literally: sets of executed actions, two passes over the ranks per step.
struct Literal {
  std::vector<std::vector<std::string>> slots;
  std::vector<std::string> next;  // of unfinished ranks
};
Literal literal(const PipelineSchedule& s, bool peek) {
  std::vector<std::vector<std::vector<Action>>> cells;
  std::vector<std::vector<std::string>> names;
  for (const Row& row : s.rows) {
    cells.emplace_back();
    names.emplace_back();
    each_cell(row, [&](std::size_t, std::size_t p, auto m) {
      if (row[p].kind == ActionKind::idle) return;
      cells.back().emplace_back(m.begin(), m.end());
      names.back().push_back(cell_text(row, p));
    });
  }
  const std::size_t ranks = cells.size();
  std::vector<std::size_t> head(ranks, 0);
  std::vector<std::set<Action>> done(ranks);
  std::vector<std::set<Action>> posted(ranks);  // SENDs of batches
  const auto owner = [&](int stage) { return static_cast<std::size_t>(s.rank_of_stage[stage]); };
  const auto is_done = [&](Action a) {
    if (a.stage < 0 || a.stage >= s.stages()) return false;
    const std::size_t r = owner(a.stage);
    if (done[r].contains(a) || posted[r].contains(a)) return true;
    if (!peek || !is_send(a.kind) || head[r] >= cells[r].size()) return false;
    return std::ranges::find(cells[r][head[r]], a) != cells[r][head[r]].end();
  };
  using enum ActionKind;
  const auto ready = [&](Action a) {
    const auto [k, st, m] = a;
    const bool back_local = st + 1 < s.stages() && owner(st + 1) == owner(st);
    switch (k) {
      case forward:
        return st == 0 || is_done({recv_forward, st, m}) ||
               (owner(st - 1) == owner(st) && is_done({forward, st - 1, m}));
      case backward_input:
      case full_backward:
        return st + 1 == s.stages() || is_done({recv_backward, st, m}) ||
               (back_local && (is_done({backward_input, st + 1, m}) || is_done({full_backward, st + 1, m})));
      case send_forward:
        return is_done({forward, st, m});
      case send_backward:
        return is_done({backward_input, st, m}) || is_done({full_backward, st, m});
      case recv_forward:
      case recv_backward:
        return is_done(counterpart(a));
      case wait_send_forward:
      case wait_send_backward:
        return done[owner(st)].contains(send_of(a)) && is_done(counterpart(send_of(a)));
      default:
        return true;
    }
  };
  const auto all_ready = [&](std::size_t r) {
    const auto& cell = cells[r][head[r]];
    const bool sends_ready = std::ranges::all_of(cell, [&](Action a) { return is_recv(a.kind) || ready(a); });
    if (sends_ready)
      for (const Action a : cell)
        if (is_send(a.kind) && cell.size() > 1) posted[r].insert(a);
    return sends_ready && std::ranges::all_of(cell, [&](Action a) { return !is_recv(a.kind) || ready(a); });
  };
  Literal out;
  out.slots.resize(ranks);
  const auto execute = [&](std::size_t r) {
    for (const Action a : cells[r][head[r]]) done[r].insert(a);
    return names[r][head[r]++];
  };
  for (;;) {
    std::vector<std::size_t> open, bubbles;
    for (std::size_t r = 0; r < ranks; ++r)
      if (head[r] < cells[r].size()) open.push_back(r);
    if (open.empty()) break;
    bool moved = false;
    for (const std::size_t r : open) {
      if (all_ready(r)) {
        out.slots[r].push_back(execute(r));
        moved = true;
      } else {
        out.slots[r].push_back(".");
        bubbles.push_back(r);
      }
    }
    for (const std::size_t r : bubbles)
      if (all_ready(r)) {
        out.slots[r].back() = execute(r);
        moved = true;
      }
    if (!moved) break;
  }
  for (std::size_t r = 0; r < ranks; ++r)
    if (head[r] < cells[r].size()) out.next.push_back(names[r][head[r]]);
  return out;
}

void expect_literal(const PipelineSchedule& s, bool peek) {
  const StepTable t = step_table(s, {.peek = peek});
  const Literal l = literal(s, peek);
  std::size_t steps = 0;
  for (std::size_t r = 0; r < l.slots.size(); ++r) {
    std::string expected;
    steps = std::max(steps, l.slots[r].size());
    auto slots = l.slots[r];
    while (!slots.empty() && slots.back() == ".") slots.pop_back();
    for (std::size_t i = 0; i < slots.size(); ++i) expected += (i > 0 ? "," : "") + slots[i];
    ASSERT_EQ(line(s, t, r), expected) << "rank " << r << " of\n" << print(s);
  }
  EXPECT_EQ(t.steps, static_cast<int>(steps)) << print(s);
  std::vector<std::string> next;
  for (const auto& w : t.waiting) next.push_back(cell_text(s.rows[w.rank], w.position));
  EXPECT_EQ(next, l.next);
}

TEST(StepTable, EqualsTheLiteralSimulatorOnRandomSchedules) {
  int deadlocks = 0;
  for (unsigned seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const PipelineSchedule s = random_lowered(
        random,
        {.swaps = static_cast<int>(random() % 5), .batches = random() % 3 == 0, .waits = random() % 3 == 0});
    expect_literal(s, false);
    deadlocks += step_table(s).deadlock();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(deadlocks, 100);
  EXPECT_LT(deadlocks, 700);
}

TEST(StepTable, PeekEqualsTheLiteralSimulatorOnRandomSchedules) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    expect_literal(random_lowered(random, {.swaps = static_cast<int>(random() % 5)}), true);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace braid::test
