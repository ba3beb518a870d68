// What both kinds of traces are read into, and what becomes of it.
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
  std::vector<int> deps;                         // earlier or later entries of the list; no circles
  std::optional<RecordedCollective> collective;  // absent: a kernel
  std::optional<ir::Cost> work;                  // instead of the duration, for traces without times
  // Host operations of a trace: order what is before and behind them, cost nothing.
  bool host = false;
};

struct RecordedTrace {
  std::string format, file;
  std::vector<RecordedOp> ops;
  std::vector<std::string> assumptions;
};

// `deps` may be in any order and repeat. User errors 563 (a circle) and 564 (nothing on the device).
ImportedTrace make_schedule(RecordedTrace trace);

// The readers of the formats; text is the whole file.
RecordedTrace read_kineto(std::string_view text, const std::string& file);
RecordedTrace read_chakra_json(std::string_view text, const std::string& file);
RecordedTrace read_chakra(std::string_view bytes, const std::string& file);

// "allreduce", "_allgather_base", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL": what it is; nothing if
// unknown.
std::optional<ir::CollectiveKind> collective_of_name(std::string_view name);

}  // namespace braid::frontend
