// Folds equal layers of a problem without limits: the inside of a layer is eliminated once, for all layers.
//
//  ... ─ border ─[ inside ]─ border ─[ inside ]─ border ─ ...  borders: the fewest choices between two layers
//  ... ─ border ─── rest ─── border ─── rest ─── border ─ ...  rest: tables over borders and what is outside;
//                                                              where one would be too large, layer variables
//
// Layers are runs of equal length in the problem's order. Their tables are equal: within the layer, to
// neighbouring layers, and to variables outside of all layers (masks, rotation tables), which stay. A layer
// sees such a variable by its kind of choice: choices of one kind have equal costs in all tables of the
// layer.
//
//   variables    x: all that stay (borders and outside); y_l: the inside of layer l = 1 .. L
//                b_l(x): the borders of layer l; z(x): the kinds of the outside choices
//   domains      as in problem.h
//   objective    min over x, y of  g(x) + sum_l f(b_l(x), z(x), y_l),  the same f for every layer
//   constraints  no term is forbidden
//   folded       F(b, z) = min over y of f(b, z, y) is computed once. Each y_l is in one term only, so
//                min over x of  g(x) + sum_l F(b_l(x), z(x))  is the optimum of the whole problem.
//   relaxation   with_copies: layer l has a copy z_l of z(x), and z_l = z(x) is dropped. With a share
//                h(z) >= 0 of what z costs outside, and in units of 1 / L:
//                min over x, z_l of  L * g(x) - h(z(x)) + sum_l (L * F(b_l(x), z_l) + h(z_l) / L)
//   bound        If z_l = z(x) for all l, this is L times the cost, or less because h / L is rounded down.
//                So its least value is at most L times the optimum; it is equal where the copies of a
//                minimum agree and nothing was rounded (choose_with_copies in unlimited.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "solver/network.h"

namespace braid::solver {

class FoldedProblem {
 public:
  // Returns nullopt if the problem has limits or too few equal layers. Makes no table over more than two
  // variables that has more than `table` cells.
  static std::optional<FoldedProblem> of(const Problem& problem, std::int64_t table = 0);
  // Returns the relaxed problem above, in which every layer has a copy of what is outside of all layers
  // (Lagrangian decomposition; Guignard and Kim 1987). Returns the same as `of` if there is nothing to copy.
  // Returns nullopt also if variables of a layer would be left, or if the costs, at most `total` in all,
  // would become too large.
  static std::optional<FoldedProblem> with_copies(const Problem& problem, std::int64_t table, Cost total);

  const Problem& problem() const { return problem_; }
  // Only with copies: problem() in units of 1 / layers(), reduced as far as that does not depend on layers.
  // It lacks the factors, and the variables that layers touch are fixed.
  const Network& outside() const { return *outside_; }
  // One layer, reduced.
  const Network& inside() const { return *inside_; }
  // Additional costs of choices of problem(): the tables over several variables that the layers have left.
  const std::vector<Factor>& factors() const { return factors_; }
  // The part of every choice's cost that is not in problem().
  Cost constant() const { return constant_; }
  std::int64_t cells() const { return inside_->cells + (outside_ ? outside_->cells : 0); }
  int layers() const { return count_of(layers_); }
  // A copy: its variable in problem(), whose choices are the kinds that layers see, and its variable in
  // inside().
  struct Copy {
    VariableId variable;
    VariableId inside;
  };
  const std::vector<Copy>& copies() const { return copies_; }
  // Completes a choice of problem() to one of the whole problem with the cheapest inside of each layer.
  // `copied` receives the kinds that the copies have, layer by layer.
  Assignment restore(const Assignment& choice, std::vector<std::vector<ChoiceId>>* copied = nullptr) const;

 private:
  class Folding;
  static std::optional<FoldedProblem> folded(const Problem& problem, std::int64_t table,
                                             std::optional<Cost> copied_total);

  Problem problem_;
  std::vector<Copy> copies_;
  std::vector<Factor> factors_;
  Cost constant_ = 0;
  std::optional<Network> inside_;  // one layer, with the variables that it touches
  std::optional<Network> outside_;
  // Per variable of the whole problem: its number in problem_; invalid: inside of a layer.
  IdVector<VariableId, VariableId> number_;
  // Per layer and variable of inside_: its number in the whole problem, and in problem_ (invalid: removed).
  std::vector<IdVector<VariableId, VariableId>> layers_;
  std::vector<IdVector<VariableId, VariableId>> rest_;
};

}  // namespace braid::solver
