// The part that a rank of a split program has of a tensor that is whole in the plain model. For inputs and
// outputs that are given, drawn or compared whole.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"
#include "split/mesh.h"
#include "split/parts.h"

namespace braid::harness {

class TensorPart {
 public:
  // Returns nullopt if the tensor is not described as a part, or is described wrongly. This one is for an
  // input or output of a lowered program, in the buffer `local`.
  static std::optional<TensorPart> of(const std::optional<ir::Part>& part, const ir::Graph& graph,
                                      ir::BufferId local);
  // The same for an entry of the manifest of a program of `ranks` ranks.
  static std::optional<TensorPart> of(const nlohmann::json& entry, const nlohmann::json& manifest, int ranks);

  // Sizes of the whole tensor, nullopt where they are known only at run time.
  const split::KnownSizes& whole() const { return whole_; }
  // "S(1) of [1, 12, ?, 64]"
  std::string text() const;
  // Whether it is a term of a sum, of which the whole says nothing.
  bool is_term() const;
  bool is_whole(const ir::Tensor& tensor) const;

  // Returns the part that a rank is given, padded with zeros. Requires a whole tensor (is_whole) and a part
  // that is no term (is_term), as expected() does.
  ir::Tensor given(const ir::Tensor& whole, int rank) const;
  // Returns the part that a rank must return. Removes the padding of `result`, which the rank has returned.
  ir::Tensor expected(const ir::Tensor& whole, int rank, ir::Tensor& result) const;
  // Removes the padding, which means nothing, of a tensor that a rank has returned.
  ir::Tensor without_padding(ir::Tensor own, int rank) const;

 private:
  static std::optional<TensorPart> of(const std::string& state, split::Mesh mesh, int ranks,
                                      split::KnownSizes whole, const split::KnownSizes& local);

  std::string state_;
  std::vector<split::AxisSpec> axes_;
  split::KnownSizes whole_;
};

}  // namespace braid::harness
