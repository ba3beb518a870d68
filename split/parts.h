// What each rank has of the tensors that a split program takes and returns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"
#include "split/mesh.h"
#include "split/spec.h"

namespace braid::split {

// The states of a program's inputs and outputs on one axis, by name; those that are not replicated.
using Interface = std::map<std::string, Spec>;

// A state on one axis of a mesh. Of several, each later one cuts what those before it have left.
struct AxisSpec {
  int ranks = 1;
  Spec spec;
};

// Sizes of a tensor; nullopt: known only at run time, and not split.
using KnownSizes = std::vector<std::optional<std::int64_t>>;
// The states that `text` says (parse_mesh_spec), axis by axis, if a tensor of the size `whole` can be cut so into parts of the size `local`;
// otherwise nullopt.
std::optional<std::vector<AxisSpec>> axis_specs(std::string_view text, const Mesh& mesh,
                                                const KnownSizes& whole, const KnownSizes& local);
// What inputs and outputs of a program are told to be and cannot be, a sentence for each: a part in a state that its mesh does not have, or
// of a tensor of other sizes. Of sizes that are known only at run time, what is certainly wrong.
std::vector<std::string> impossible_parts(const ir::Graph& graph);
// The sizes of a rank's part without its padding.
std::vector<std::int64_t> sizes_without_padding(std::vector<std::int64_t> whole,
                                                const std::vector<AxisSpec>& axes, int rank);

// What a rank has of `whole`; ranks are numbered with the last axis fastest. Requires states that are possible and not pending. In
// padded parts, padding is zeros if it is wanted; else it is left out, and the part is smaller, perhaps empty.
ir::Tensor part_of(const ir::Tensor& whole, const std::vector<AxisSpec>& axes, int rank, bool padding);
// The elements of a tensor whose index is below `sizes` in every dimension: a part without its padding.
ir::Tensor without_padding(const ir::Tensor& part, const std::vector<std::int64_t>& sizes);

}  // namespace braid::split
