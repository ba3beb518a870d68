#include "analysis/report.h"

#include <fmt/format.h>

namespace braid::analysis {

std::string_view to_string(LimitReason reason) {
  constexpr std::string_view names[] = {"none", "data",  "order",    "memory",
                                        "cost", "group", "boundary", "form"};
  return names[static_cast<std::size_t>(reason)];
}

std::string to_string(const Limit& limit) {
  switch (limit.reason) {
    case LimitReason::none:
      if (!limit.where.empty()) return "nothing: would be faster " + limit.where;
      return limit.other.empty() ? "nothing" : limit.other;
    case LimitReason::data:
      return fmt::format("data dependency on '{}'", limit.other);
    case LimitReason::order:
      return fmt::format("order with '{}'", limit.other);
    case LimitReason::memory:
      return fmt::format("memory: {} bytes too many at step {}{}{}", limit.bytes, limit.step,
                         limit.where.empty() ? "" : " to stand ", limit.where);
    case LimitReason::cost:
      return "cost: would not be faster";
    case LimitReason::group:
      return fmt::format("group: '{}' stays where it is", limit.other);
    case LimitReason::boundary:
      return "begin or end of the schedule";
    case LimitReason::form:
      return limit.other + (limit.where.empty() ? "" : ": would be faster " + limit.where);
  }
  return {};
}

}  // namespace braid::analysis
