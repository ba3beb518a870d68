// Greedy schedules of a problem, used as first incumbents. Unlike the published ones they consider costs,
// delays and caps and suit any placement. For sizes that no search can finish they are the result.
//
// In each step, the rank whose next action could end first executes, of its actions that could start before
// that end, the one whose kind comes first in the rule's order. A window bounds how many micro-batches of a
// stage are between F and I:
//
//   one_f_one_b     the number of stages from this one to the last (1F1B, ZB-H1)
//   zero_bubble     twice as many minus one (ZB-H2)
//   all             bounded by the byte cap only (GPipe)
#pragma once

#include <optional>

#include "pipeline/search_state.h"

namespace braid::pipeline {

struct ListRule {
  enum class Window : std::uint8_t { one_f_one_b, zero_bubble, all } window = Window::one_f_one_b;
  int first_to_last[3] = {kInput, kForward, kWeight};
  // Prefer an action of an earlier kind even if one of a later kind could start before it.
  bool wait = true;
};

struct ListSchedule {
  Orders orders;
  std::int64_t makespan = 0;  // picoseconds
};

// nullopt if the rule runs into a dead end because of the caps. O(actions x stages).
std::optional<ListSchedule> list_schedule(const SearchInstance& in, const ListRule& rule);

// The best schedule of all rules.
std::optional<ListSchedule> best_list_schedule(const SearchInstance& in);

}  // namespace braid::pipeline
