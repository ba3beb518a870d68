// The report of a scheduling pass: what it did and why it did not do more; machine-readable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/costs/time.h"

namespace braid::analysis {

// The reason why a collective stays where it is. explain/order_limits.h says what each reason claims.
enum class LimitReason : std::uint8_t {
  none,      // nothing keeps it from another place
  data,      // a dependency on `other`
  order,     // would overtake the collective or wait `other`
  memory,    // would need `bytes` more than allowed at step `step`
  cost,      // moving it would not shorten the simulated time, or it is hidden already
  group,     // `other` is a group that stays together
  boundary,  // reached the begin or end of the schedule
  form,      // the collective is not of a form that the pass can change; `other` says why
};
std::string_view to_string(LimitReason reason);

struct Limit {
  LimitReason reason = LimitReason::none;
  std::string other = {};  // name of a node or collective; data, order, group. form: the reason
  std::int64_t step = -1;  // memory: index in the order that would result
  std::int64_t bytes = 0;  // memory
  std::string where = {};  // none, memory, form: a place at which the program would be faster
};
// "data dependency on 'mm3'", "memory: 1048576 bytes too many at step 17", ...
std::string to_string(const Limit& limit);

// The moves that a pass may make and the limits that it must keep: possible limits of a collective.
struct Freedom {
  bool starts = false, waits = false;  // it moves them
  bool collectives = false;            // collectives may change places with each other
  std::optional<std::int64_t> live_cap = {}, planned_cap = {};  // bytes
};

struct CollectiveReport {
  std::string name;    // of the start's operation
  std::string kernel;  // "all_gather @dp 64.0 MiB"
  Time cost;
  // Its share of the time in which the stream is blocked (simulator.h), before and after the pass.
  Time initial_exposed, final_exposed;
  int moves = 0;  // positions that the start went up and the wait down
  // Why it did not go further (explain/order_limits.h); a pass sets only a reason that it alone knows (form).
  Limit limit;
};

// The report of one pass.
struct OverlapReport {
  std::string pass;
  Time makespan_before, makespan_after;
  Time bound;                                          // of the graph after the pass
  std::int64_t planned_before = 0, planned_after = 0;  // bytes
  std::int64_t live_before = 0, live_after = 0;        // bytes, peak
  std::vector<CollectiveReport> collectives;           // in the order of their starts after the pass
  Freedom freedom;
};

}  // namespace braid::analysis
