// Recorded kernels and collectives as a schedule.
#pragma once

#include "frontend/traces/import_trace.h"
#include "frontend/traces/recorded_op.h"

namespace braid::frontend {

// `deps` may be unordered and contain duplicates. User errors 563 (a cycle) and 564 (nothing on the device).
ImportedTrace make_schedule(RecordedTrace trace);

}  // namespace braid::frontend
