// Operands of products stored again as rows: the elements of a row are adjacent, and every row begins at a
// multiple of 16 bytes.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace braid::passes {

// The matrices [..., k, n] as [..., n, k], with one where a batch dimension repeats it.
ir::TensorRef transposed_matrices(ir::TensorRef b);

class RowPacker {
 public:
  explicit RowPacker(ir::Graph& graph) : graph_(graph) {}

  // Returns the elements of `from` as rows at equal distances: [its first `outer` dimensions, all others in
  // one]. There must be an outer dimension. An operand that already has this form is not stored again.
  // Constants whose bytes are known become new constants, one for each view, however often it is requested.
  // Others are copied by an operation that is appended to `copies`.
  ir::TensorRef rows(const ir::TensorRef& from, std::size_t outer, std::vector<ir::OpId>& copies);

  // Whether `from` is a view of a constant, and all that says where its elements lie is a number.
  bool is_known(const ir::TensorRef& from) const;
  // The bytes of such rows, each padded to a multiple of kRowUnit.
  ir::ConstantData bytes_of(const ir::TensorRef& from, std::size_t outer) const;

 private:
  std::optional<ir::TensorRef> as_rows(const ir::TensorRef& from, std::size_t outer) const;

  ir::Graph& graph_;
  std::map<ir::BufferId, std::vector<std::pair<ir::TensorRef, ir::TensorRef>>> packed_;
};

}  // namespace braid::passes
