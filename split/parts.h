// Parts of a split program's inputs and outputs on each rank.
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

// The states of a program's inputs and outputs on one axis, by name, without replicated ones.
using Interface = std::map<std::string, Spec>;

// A state on one axis of a mesh. Later axes cut what those before them have left.
struct AxisSpec {
  int ranks = 1;
  Spec spec;
};

// Sizes of a tensor; nullopt: known only at run time, and not split.
using KnownSizes = std::vector<std::optional<std::int64_t>>;
// Returns the states in `text` (parse_mesh_spec), axis by axis. Returns nullopt if it is none, or if they do
// not cut a tensor of the size `whole` into parts of the size `local`.
std::optional<std::vector<AxisSpec>> axis_specs(std::string_view text, const Mesh& mesh,
                                                const KnownSizes& whole, const KnownSizes& local);
// Returns a sentence for each input and output whose part cannot be what the program says: a state that its
// mesh does not have, or a tensor of other sizes. Sizes that are known only at run time count where they are
// certainly wrong.
std::vector<std::string> impossible_parts(const ir::Graph& graph);
// Returns the sizes of a rank's part without its padding.
std::vector<std::int64_t> sizes_without_padding(std::vector<std::int64_t> whole,
                                                const std::vector<AxisSpec>& axes, int rank);

// Returns a rank's part of `whole`; ranks are numbered with the last axis fastest. Requires possible states
// that are not pending. With `padding`, padded parts end with zeros; else padding is left out, and the part
// is smaller, perhaps empty.
ir::Tensor part_of(const ir::Tensor& whole, const std::vector<AxisSpec>& axes, int rank, bool padding);
// Returns the elements whose index is below `sizes` in every dimension: a part without its padding.
ir::Tensor without_padding(const ir::Tensor& part, const std::vector<std::int64_t>& sizes);

}  // namespace braid::split
