#pragma once

#include <memory>

#include "split/split_space.h"

namespace braid::split {

// The costs of a space's choices and conversions. Each cost is asked for once.
class SpacePrices {
 public:
  SpacePrices(const SplitSpace& space, SplitCosts costs);  // the space must outlive it
  SpacePrices(SpacePrices&&) noexcept;
  ~SpacePrices();

  // The same as SplitSpace::problem.
  Problem problem(bool relaxed = false, std::size_t cells = SplitSpace::kMostRelaxed);
  // Returns the cost of a passage with these choices of passage.from and passage.to; 0 if the conversion is
  // impossible, since the problem forbids that anyway.
  Cost of(const Passage& passage, ChoiceId from, ChoiceId to);
  // Returns costs[i * (choices of `to`) + j]; without `to`, one cost per choice of `from`.
  const CostTable& table(const Passage& passage);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace braid::split
