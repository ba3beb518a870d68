// Lowers a normalised model node by node.
#pragma once

#include "frontend/check.h"
#include "frontend/dims.h"
#include "ir/schedule.h"

namespace braid::frontend {

struct LowerOptions {
  DimBounds dims;
  int ranks = 1;
  bool keep_values = false;  // ImportOptions
};

ir::Schedule lower_graph(const Model& model, const Opsets& opsets, const InferredTypes& types,
                         const DeclaredTypes& declared, const LowerOptions& options);

}  // namespace braid::frontend
