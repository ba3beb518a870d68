// One file per rank: the same graph with per-rank weights.
#pragma once

#include <string>

#include "frontend/load.h"

namespace braid::frontend {

// The path with "{rank}" replaced.
std::string path_of_rank(const std::string& path, int rank);

// Reads one file per rank if `path` contains "{rank}". The graphs must be equal; initializers that differ get
// one entry per rank in their ConstantData, equal ones are shared.
Model load_ranks(const std::string& path, int ranks);

}  // namespace braid::frontend
