// Greedy schedules of a problem, as first incumbents: unlike the published ones they look at costs, delays
// and caps and suit any placement; on sizes that no search gets through they are the result.
//
// Step by step the rank whose next action could end first takes one of those that could start before that
// end: the one of the kind that comes first in the rule's order. A window bounds how many micro-batches of a
// stage are between F and I:
//
//   one_f_one_b     as many as stages follow, itself included (1F1B, ZB-H1)
//   zero_bubble     twice as many less one (ZB-H2)
//   all             no bound but the byte cap (GPipe)
#pragma once

#include <optional>

#include "pipeline/search_state.h"

namespace braid::pipeline {

struct ListRule {
  enum class Window : std::uint8_t { one_f_one_b, zero_bubble, all } window = Window::one_f_one_b;
  int first_to_last[3] = {kInput, kForward, kWeight};
  // Take an action of an earlier kind even when one of a later kind could start before it.
  bool wait = true;
};

struct ListSchedule {
  Orders orders;
  std::int64_t makespan = 0;  // picoseconds
};

// Nothing when the rule runs into a dead end of the caps. O(actions x stages).
std::optional<ListSchedule> list_schedule(const SearchInstance& in, const ListRule& rule);

// The best of all rules.
std::optional<ListSchedule> best_list_schedule(const SearchInstance& in);

}  // namespace braid::pipeline
