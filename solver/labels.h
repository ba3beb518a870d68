// The choices of a variable that a network has left.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "solver/ids.h"

namespace braid::solver {

// The choices of a variable that are left, by their indices in the problem, ascending. Copies share them.
class Labels {
 public:
  Labels() = default;
  explicit Labels(std::vector<ChoiceId> all)
      : all_(std::make_shared<const std::vector<ChoiceId>>(std::move(all))) {}

  std::size_t size() const { return all_ ? all_->size() : 0; }
  ChoiceId operator[](std::size_t place) const { return (*all_)[place]; }
  const std::vector<ChoiceId>& all() const { return *all_; }
  // Returns nullopt if the choice is not left.
  std::optional<std::size_t> place_of(ChoiceId label) const {
    const auto found = std::ranges::lower_bound(*all_, label);
    if (found == all_->end() || *found != label) return std::nullopt;
    return found - all_->begin();
  }

 private:
  std::shared_ptr<const std::vector<ChoiceId>> all_;
};

}  // namespace braid::solver
