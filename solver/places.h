// A problem by the places of its variables in the problem's order, with numbers for its tables, so that equal
// layers are found (equal_layers.h).
#pragma once

#include <span>
#include <vector>

#include "solver/problem.h"

namespace braid::solver {

using Place = ir::Id<struct PlaceTag>;              // in the problem's order
using TableNumber = ir::Id<struct TableNumberTag>;  // equal tables have one
using PlaceKind = ir::Id<struct PlaceKindTag>;      // equal costs, and tables of the same numbers

class Places {
 public:
  // An edge as one of its ends sees it.
  struct End {
    Place other;
    TableNumber table;
    EdgeId edge;
    bool from = false;  // whether it is at the other end that the edge begins
  };

  explicit Places(const Problem& problem);  // which must outlive this

  IdRange<Place> ids() const { return variables_.ids(); }
  VariableId variable(Place p) const { return variables_[p]; }
  Place of(VariableId variable) const { return places_[variable]; }
  PlaceKind kind(Place p) const { return kinds_[p]; }
  const CostTable& costs(Place p) const { return problem_.variables[variables_[p]]; }
  // The edges of the variable at a place.
  std::span<const End> ends(Place p) const {
    return std::span(ends_).subspan(first_end_[p], first_end_[p + 1] - first_end_[p]);
  }

 private:
  const Problem& problem_;
  IdVector<Place, VariableId> variables_;
  IdVector<VariableId, Place> places_;
  IdVector<Place, PlaceKind> kinds_;
  IdVector<Place, std::size_t> first_end_;  // and the number of all ends
  std::vector<End> ends_;
};

}  // namespace braid::solver
