// Finds the equal layers of a problem: runs of variables of equal length in its order, whose tables are equal
// within the layer, to neighbouring layers, and to variables outside of all layers.
#pragma once

#include <vector>

#include "solver/places.h"

namespace braid::solver {

struct EqualLayers {
  // A layer that begins at a place, and its inside. Variables with edges to later layers are borders.
  struct Layer {
    Place begin;
    std::vector<Place> inside;  // ascending
  };
  Place begin, end;           // of the run that repeats; places before and after it are outside
  std::vector<Layer> layers;  // one after another; empty: too few are equal, or nothing is inside of them

  bool outside(Place p) const { return p < begin || p >= end; }
  // The variable of another layer that is at the same place of it; one that is outside itself.
  Place same_in(const Layer& layer, Place of_first) const {
    return outside(of_first) ? of_first : layer.begin + (of_first - layers[0].begin);
  }
};

EqualLayers equal_layers(const Places& places);

}  // namespace braid::solver
