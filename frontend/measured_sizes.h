// Sizes that only the data of a step tell (NonZero, an Expand whose sizes are computed), as dimensions
// that the step measures (ir/measured_dims.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/lowering.h"

namespace braid::frontend {

struct MeasureOptions {
  bool allowed = false;
  std::map<std::string, std::int64_t> capacities = {};          // ImportOptions
  std::optional<std::int64_t> default_capacity = std::nullopt;  // ImportOptions
};

class MeasuredSizes {
 public:
  MeasuredSizes(const MeasureOptions& options, const ir::Lowering& lowering)
      : options_(options), lowering_(lowering) {}

  // Whether sizes may be measured here: not in a branch of If or the body of a Loop.
  bool allowed() const { return options_.allowed && lowering_.depth() == 0; }
  bool gives(const std::string& name) const { return options_.capacities.contains(name); }
  // The capacity of the size of this name: the user's, or what its operator cannot exceed, whichever is less.
  std::optional<std::int64_t> capacity(const std::string& name, std::optional<std::int64_t> most);
  // BR0311 for a capacity that no measured size has asked for.
  void require_used() const;

 private:
  const MeasureOptions& options_;
  const ir::Lowering& lowering_;
  std::set<std::string> asked_;
};

}  // namespace braid::frontend
