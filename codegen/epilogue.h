// What a matrix library can do with a product before it stores it, recognised in the epilogue of a GEMM. Both
// targets ask here; each takes the lists that its library has.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "codegen/activation.h"
#include "ir/graph.h"

namespace braid::codegen {

struct PostOp {
  enum class Kind : std::uint8_t { scale, add_vector, add_matrix, activation };
  Kind kind = Kind::activation;
  double factor = 1;     // scale
  ir::BufferId operand;  // add_vector: along the columns; add_matrix: laid out as the output
  ir::Expr offset = 0;   // of the operand's first element, in elements of `operand`
  Activation activation = Activation::identity;  // never the identity
};
std::string_view to_string(const PostOp& op);

// The operations between accumulator and output, in order; nothing where the epilogue is no such list. They
// are equal to the epilogue up to rounding: steps in between are as if computed in float32 or better, and
// rounded once.
std::optional<std::vector<PostOp>> post_ops(const ir::Graph& graph, const ir::Gemm& gemm);

}  // namespace braid::codegen
