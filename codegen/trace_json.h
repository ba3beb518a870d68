// A collective trace in a manifest, which `braid check` reads back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ir/collective_trace.h"

namespace braid::codegen {

nlohmann::ordered_json trace_json(const ir::CollectiveTrace& trace);

// From the manifest in `dir`. UserError BR0008 where there is none, or one of an older version without a
// trace.
ir::CollectiveTrace read_program_trace(const std::string& dir);

}  // namespace braid::codegen
