// Equal layers of a problem: what is inside of them is eliminated once, for all of them.
//
//   ... ─ border ─[ inside ]─ border ─[ inside ]─ border ─ ...      borders: the fewest choices between two layers
//   ... ─ border ─── rest ─── border ─── rest ─── border ─ ...      rest: few tables over borders and what is outside, shared by all;
//                                                                   where one were too large, variables of the layer
//
// Variables are looked at in the problem's order. Layers are runs of variables of equal length with equal tables, to each
// other, within themselves, and to variables outside of all layers (masks, tables of rotations), which stay; layers see them by the kinds of choices
// that are alike to them. What is reduced keeps for every choice of
// those that stay the cheapest of what is inside, so the optimum is that of the whole problem.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "solver/network.h"

namespace braid::solver {

class FoldedProblem {
 public:
  // nullopt: it has limits, or too few equal layers. Without tables of more than `table` cells over more than two variables.
  static std::optional<FoldedProblem> of(const Problem& problem, std::int64_t table = 0);
  // A relaxed problem in which every layer has its own copy of what is outside of all layers, at an equal share of what choosing it
  // costs there (Lagrangian decomposition; Guignard and Kim 1987): no choice of the whole problem costs less, in units of
  // 1 / layers(). As `of` if there is nothing to copy. nullopt: also if something of a layer would be left, or costs, which are at
  // most `total` in all, would become too large.
  static std::optional<FoldedProblem> with_copies(const Problem& problem, std::int64_t table, Cost total);

  const Problem& problem() const { return problem_; }
  // Of one with copies: problem() in units of 1 / layers(), reduced as far as it does not depend on layers. Without the factors, and
  // with what layers touch fixed.
  const Network& outside() const { return *outside_; }
  // Of one layer, reduced.
  const Network& inside() const { return *inside_; }
  // What choices of problem() cost beside: what layers have left over several variables.
  const std::vector<Factor>& factors() const { return factors_; }
  // What every choice costs beside what it costs in problem().
  Cost constant() const { return constant_; }
  std::int64_t cells() const { return inside_->cells + (outside_ ? outside_->cells : 0); }
  int layers() const { return static_cast<int>(layers_.size()); }
  // What is copied: the variable in problem() of its choices' kinds, as layers see them, and that of a layer.
  struct Copy {
    int variable = -1;
    int inside = -1;
  };
  const std::vector<Copy>& copies() const { return copies_; }
  // The choice of the whole problem with that one of problem(), and the cheapest one inside of the layers. `copied`: the kinds of the
  // copies, layer by layer.
  std::vector<int> restore(const std::vector<int>& choice,
                           std::vector<std::vector<int>>* copied = nullptr) const;

 private:
  static std::optional<FoldedProblem> folded(const Problem& problem, std::int64_t table,
                                             std::optional<Cost> copied_total);

  Problem problem_;
  std::vector<Copy> copies_;
  std::vector<Factor> factors_;
  Cost constant_ = 0;
  std::optional<Network> inside_;  // of one layer, with what it touches
  std::optional<Network> outside_;
  std::vector<int> number_;               // per variable of the whole problem: in problem_; -1: it is inside
  std::vector<std::vector<int>> layers_;  // per layer and variable of inside_: that of the whole problem
  std::vector<std::vector<int>> rest_;  // per layer and variable of inside_: in problem_; -1: it was removed
};

}  // namespace braid::solver
