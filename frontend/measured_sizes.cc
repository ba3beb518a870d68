#include "frontend/measured_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

std::optional<std::int64_t> MeasuredSizes::capacity(const std::string& name,
                                                    std::optional<std::int64_t> most) {
  asked_.insert(name);
  const auto given = options_.capacities.find(name);
  if (given != options_.capacities.end()) return most ? std::min(*most, given->second) : given->second;
  return most ? most : options_.default_capacity;
}

void MeasuredSizes::require_used() const {
  for (const auto& [name, capacity] : options_.capacities) {
    if (asked_.contains(name)) continue;
    std::string known;
    for (const std::string& asked : asked_) known += fmt::format("{}'{}'", known.empty() ? "" : ", ", asked);
    ir::user_error(errors::kInvalidDimension, {},
                   fmt::format("a capacity is given for '{}', which is no size that the data decide", name),
                   known.empty() ? "the model has no such size" : "those of the model are " + known);
  }
}

}  // namespace braid::frontend
