// The collective trace in a manifest, which `braid check` reads.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ir/collective_trace.h"

namespace braid::codegen {

nlohmann::ordered_json trace_json(const ir::CollectiveTrace& trace);

// Reads the trace from the manifest in `dir`. UserError BR0008 if there is no manifest, or an older one
// without a trace.
ir::CollectiveTrace read_program_trace(const std::string& dir);

}  // namespace braid::codegen
