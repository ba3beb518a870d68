// The model that each rank runs, before it is lowered.
#pragma once

#include <string>

#include "frontend/import.h"
#include "frontend/load.h"

namespace braid::frontend {

// Loaded, checked, normalised and, if the options ask for it, split: one graph for all ranks, weights with one entry per rank
// where they differ, shapes inferred. Initializers are declared as inputs, small integers also as initializers of the graph
// (normalise.h). Options that concern lowering are ignored. UserErrors of import_model up to there.
Model rank_model(const std::string& path, const ImportOptions& options);

}  // namespace braid::frontend
