// Recognises what the GEMM kernels of the runtime can do before they store (runtime/gemm.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace braid::codegen::cpp {

struct PostOpText {
  std::string name;      // of rt::PostOp
  ir::BufferId operand;  // add_vector, add_matrix
  ir::Expr offset = 0;   // of the operand's first element, in elements of `operand`
};
struct EpilogueMatch {
  std::vector<PostOpText> ops;
  double scale = 1;
};

// Nothing where the epilogue must be a loop of its own. Activations are recognised by what they compute, not
// by how it is written: a function of one value whose numbers agree with GELU is GELU.
std::optional<EpilogueMatch> match_epilogue(const ir::Graph& graph, const ir::Gemm& gemm);

}  // namespace braid::codegen::cpp
