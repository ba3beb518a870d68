// Costs, and tables of them.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "solver/ids.h"

namespace braid::solver {

// Picoseconds, at least 0.
using Cost = std::int64_t;

// The cost of a choice, or of a combination of two choices, that must not be taken.
inline constexpr Cost kForbidden = std::numeric_limits<Cost>::max();

// The largest allowed sum of the largest allowed costs of all tables (20 hours). It leaves room for the sums
// and differences that a search computes.
inline constexpr Cost kLargestTotal = Cost{1} << 56;

// A table of costs with shared storage, because equal layers have the same tables. Copies share it until one
// is edited.
class CostTable {
 public:
  CostTable() = default;
  CostTable(std::vector<Cost> costs) : costs_(std::make_shared<std::vector<Cost>>(std::move(costs))) {}
  CostTable(std::initializer_list<Cost> costs) : CostTable(std::vector<Cost>(costs)) {}

  std::size_t size() const { return costs_ ? costs_->size() : 0; }
  bool empty() const { return size() == 0; }
  Cost operator[](std::size_t index) const { return (*costs_)[index]; }
  Cost operator[](ChoiceId choice) const { return (*costs_)[ir::offset_of(choice)]; }
  const Cost* data() const { return costs_ ? costs_->data() : nullptr; }
  const Cost* begin() const { return data(); }
  const Cost* end() const { return data() + size(); }
  const std::vector<Cost>& costs() const {
    static const std::vector<Cost> none;
    return costs_ ? *costs_ : none;
  }
  // Equal addresses mean the same storage. Tables at different addresses may still have equal content.
  const void* address() const { return costs_.get(); }
  std::vector<Cost>& edit() {
    if (costs_.use_count() != 1) costs_ = std::make_shared<std::vector<Cost>>(costs());
    return *costs_;
  }
  void forbid(ChoiceId choice) { edit()[ir::offset_of(choice)] = kForbidden; }
  friend bool operator==(const CostTable& a, const CostTable& b) {
    return a.costs_ == b.costs_ || a.costs() == b.costs();
  }
  friend std::strong_ordering operator<=>(const CostTable& a, const CostTable& b) {
    return a.costs_ == b.costs_ ? std::strong_ordering::equal : a.costs() <=> b.costs();
  }

 private:
  // Only a sole owner writes to it; null: empty.
  std::shared_ptr<std::vector<Cost>> costs_;
};

}  // namespace braid::solver
