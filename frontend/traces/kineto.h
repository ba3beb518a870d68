// Chrome traces of the PyTorch profiler. They tell of dependencies:
//
//   streams      kernels of one stream run in order
//   cuda_sync    "Stream Wait Event": the first kernel launched into `stream` after the call waits for the
//                last one that was launched into `wait_on_stream` before the event was recorded. Recorded
//                only with enable_cuda_sync_events; then no other dependency between streams is assumed.
//   launches     without these events: NCCL's stream waits for what its thread launched before the
//                collective, and the first kernel launched after the collective that began no earlier than
//                its end is taken for the one that waits
//
// Times of ProcessGroupNCCL's kernels include waiting for the other ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "frontend/traces/recorded_op.h"

namespace braid::frontend {

// `text` is the whole file.
RecordedTrace read_kineto(std::string_view text, const std::string& file);

// The kind that a name such as "allreduce", "_allgather_base" or
// "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL" stands for; nullopt if unknown.
std::optional<ir::CollectiveKind> collective_of_name(std::string_view name);

}  // namespace braid::frontend
