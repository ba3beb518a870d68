// The common form of both kinds of traces, and its conversion to a schedule.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/traces/import_trace.h"

namespace braid::frontend {

struct RecordedCollective {
  ir::CollectiveKind kind = ir::CollectiveKind::all_reduce;
  std::string group;       // name of the process group
  std::vector<int> ranks;  // at least two
  bool pair = false;       // a transfer from one rank to another instead of a collective of a process group
  ir::DType dtype = ir::DType::u8;
  std::int64_t elements = 1;  // of this rank's operand; all_gather: what it contributes
};

struct RecordedOp {
  std::string name;
  double begin_ns = 0, end_ns = 0;  // on any clock; both 0 in traces without times
  int stream = 0;
  std::vector<int> deps;                         // indices of earlier or later entries; acyclic
  std::optional<RecordedCollective> collective;  // absent: a kernel
  std::optional<ir::Cost> work;                  // instead of the duration, for traces without times
  // A host operation: it orders what comes before and after it and costs nothing.
  bool host = false;
};

struct RecordedTrace {
  std::string format, file;
  std::vector<RecordedOp> ops;
  std::vector<std::string> assumptions;
  int ranks = 1;  // of the run, if the trace says so; at least those that its groups name
};

}  // namespace braid::frontend
