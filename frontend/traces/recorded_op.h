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
};

// `deps` may be unordered and contain duplicates. User errors 563 (a cycle) and 564 (nothing on the device).
ImportedTrace make_schedule(RecordedTrace trace);

// The readers of the formats; text is the whole file.
RecordedTrace read_kineto(std::string_view text, const std::string& file);
RecordedTrace read_chakra_json(std::string_view text, const std::string& file);
RecordedTrace read_chakra(std::string_view bytes, const std::string& file);

// The kind that a name such as "allreduce", "_allgather_base" or
// "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL" stands for; nullopt if unknown.
std::optional<ir::CollectiveKind> collective_of_name(std::string_view name);

}  // namespace braid::frontend
