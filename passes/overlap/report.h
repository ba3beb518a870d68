// What a scheduling pass did and why it did not do more; machine-readable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "passes/costs/time.h"

namespace braid::passes {

// Why a move was refused.
enum class LimitReason : std::uint8_t {
  none,      // it was not refused anything
  data,      // a dependency on `other`
  order,     // would overtake the collective or wait `other`
  memory,    // would need `bytes` more than allowed at step `step`
  cost,      // would not shorten the simulated time, or is already hidden
  group,     // `other` is a member of a group that stays together
  boundary,  // reached the begin or end of the schedule
  form,      // the collective is not of a form that the pass can change; `other` says why
};
std::string_view to_string(LimitReason reason);

struct Limit {
  LimitReason reason = LimitReason::none;
  std::string other;       // name of a node; data, order, group. form: the reason
  std::int64_t step = -1;  // memory: index in the order that would result
  std::int64_t bytes = 0;  // memory
};
// "data dependency on 'mm3'", "memory: 1048576 bytes too many at step 17", ...
std::string to_string(const Limit& limit);

struct CollectiveReport {
  std::string name;    // of the start's operation
  std::string kernel;  // "all_gather @dp 64.0 MiB"
  Time cost;
  Time initial_exposed;  // time blocked in its wait (or in itself, if it is blocking), before and after the
                         // pass
  Time final_exposed;
  int moves = 0;  // positions that the start went up and the wait down
  Limit limit;    // why it did not go further
};

// Of one pass.
struct OverlapReport {
  std::string pass;
  Time makespan_before, makespan_after;
  Time bound;                                          // of the graph after the pass
  std::int64_t planned_before = 0, planned_after = 0;  // bytes
  std::int64_t live_before = 0, live_after = 0;        // bytes, peak
  std::vector<CollectiveReport> collectives;           // in the order of their starts after the pass
};

}  // namespace braid::passes
