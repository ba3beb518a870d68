// Passes as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "passes/runner.h"

namespace braid::cli {

// One entry for each pass of a run.
nlohmann::ordered_json passes_json(std::span<const passes::PassRecord> records);
// All passes with their options.
nlohmann::ordered_json known_passes_json();

}  // namespace braid::cli
