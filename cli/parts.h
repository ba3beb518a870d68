// What a rank of a split program has of a tensor that is whole in the plain model, for inputs and outputs that are given, drawn or
// compared whole.
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

namespace braid::cli {

class TensorPart {
 public:
  // nullopt for what is not told to be a part, or wrongly. Of an input or output of a lowered program, in this buffer:
  static std::optional<TensorPart> of(const std::optional<ir::Part>& part, const ir::Graph& graph,
                                      ir::BufferId local);
  // Of an entry of the manifest of a program of so many ranks.
  static std::optional<TensorPart> of(const nlohmann::json& entry, const nlohmann::json& manifest, int ranks);

  // Sizes of the whole tensor, nullopt where they are known only at run time.
  const split::KnownSizes& whole() const { return whole_; }
  // "S(1) of [1, 12, ?, 64]"
  std::string text() const;
  // Whether it is a term of a sum, of which the whole says nothing.
  bool is_term() const;
  bool is_whole(const ir::Tensor& tensor) const;

  // What a rank is given, with padding of zeros. Requires a whole tensor of no terms, as do the others.
  ir::Tensor given(const ir::Tensor& whole, int rank) const;
  // What a rank must return; `result`, which it has returned, loses its padding.
  ir::Tensor expected(const ir::Tensor& whole, int rank, ir::Tensor& result) const;
  // Of what a rank has returned; nothing of padding means anything.
  ir::Tensor without_padding(ir::Tensor own, int rank) const;

 private:
  static std::optional<TensorPart> of(const std::string& state, split::Mesh mesh, int ranks,
                                      split::KnownSizes whole, const split::KnownSizes& local);

  std::string state_;
  std::vector<split::AxisSpec> axes_;
  split::KnownSizes whole_;
};

}  // namespace braid::cli
