// Lowers a normalised model node by node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frontend/check.h"
#include "frontend/dims.h"
#include "ir/schedule.h"

namespace braid::frontend {

struct LowerOptions {
  DimBounds dims;
  int ranks = 1;
  bool keep_values = false;  // ImportOptions
  // Graph inputs that have room to grow: their capacities (ir/capacity.h).
  std::map<std::string, std::vector<std::int64_t>> capacities = {};
};

ir::Schedule lower_graph(const Model& model, const Opsets& opsets, const InferredTypes& types,
                         const DeclaredTypes& declared, const LowerOptions& options);

}  // namespace braid::frontend
