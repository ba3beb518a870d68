// The model that each rank runs, before it is lowered.
#pragma once

#include <string>
#include <unordered_map>

#include "frontend/check_structure.h"
#include "frontend/dims.h"
#include "frontend/import.h"
#include "frontend/load.h"

namespace braid::frontend {

struct RankModel {
  Model model;
  Opsets opsets;
  DimBounds dims;
  int ranks;
};

// Loads, checks, normalises and, if the options ask for it, splits a model. The result is one graph for all
// ranks; weights have one entry per rank where they differ. Options that concern lowering are ignored. Throws
// the UserErrors of import_model up to there.
RankModel rank_model(const std::string& path, const ImportOptions& options);

// Returns the element types of all tensors that are computed, by name. Lowers the model for it.
using ElementTypes = std::unordered_map<std::string, ir::DType>;
ElementTypes element_types(const RankModel& model);

}  // namespace braid::frontend
