// What each rank has of the tensors that a split program takes and returns.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/sharding/spec.h"
#include "ir/tensor.h"

namespace braid::frontend::sharding {

// The states of a program's inputs and outputs on one axis, by name; those that are not replicated.
using Interface = std::map<std::string, Spec>;

// A state on one axis of a mesh. Of several, each later one cuts what those before it have left.
struct AxisSpec {
  int ranks = 1;
  Spec spec;
};

// What a rank has of `whole`; ranks are numbered with the last axis fastest. Requires states that are possible and not pending. In
// padded parts, padding is zeros if it is wanted; else it is left out, and the part is smaller, perhaps empty.
ir::Tensor part_of(const ir::Tensor& whole, const std::vector<AxisSpec>& axes, int rank, bool padding);
// The elements of a tensor whose index is below `sizes` in every dimension: a part without its padding.
ir::Tensor without_padding(const ir::Tensor& part, const std::vector<std::int64_t>& sizes);

}  // namespace braid::frontend::sharding
