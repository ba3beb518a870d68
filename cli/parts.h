// What a rank of a split program has of a tensor that is whole in the plain model, for inputs and outputs that are given, drawn or
// compared whole.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontend/sharding/mesh.h"
#include "frontend/sharding/parts.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace braid::cli {

class TensorPart {
 public:
  // nullopt for what is not told to be a part. Of an input or output of a lowered program, which has the mesh of the graph:
  static std::optional<TensorPart> of(const std::optional<ir::Part>& part, const ir::Graph& graph);
  // Of an entry of the manifest.
  static std::optional<TensorPart> of(const nlohmann::json& entry, const nlohmann::json& manifest);

  // Sizes of the whole tensor, nullopt where they are known only at run time.
  const std::vector<std::optional<std::int64_t>>& whole() const { return whole_; }
  // "S(1) of [1, 12, ?, 64]"
  std::string text() const;
  // Whether it is a term of a sum, of which the whole says nothing.
  bool is_term() const;
  bool is_whole(const ir::Tensor& tensor) const;

  // What a rank is given, with padding of zeros. Requires a whole tensor of no terms, as do the others.
  ir::Tensor given(const ir::Tensor& whole, int rank) const;
  // What a rank must return; `result`, which it has returned, loses its padding.
  ir::Tensor expected(const ir::Tensor& whole, int rank, ir::Tensor& result) const;

 private:
  static std::optional<TensorPart> of(const std::string& state, frontend::sharding::Mesh mesh, int ranks,
                                      std::vector<std::optional<std::int64_t>> whole);

  std::string state_;
  std::vector<frontend::sharding::AxisSpec> axes_;
  std::vector<std::optional<std::int64_t>> whole_;
};

}  // namespace braid::cli
