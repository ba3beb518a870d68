// The emulated NCCL as an engine with the interface of runtime/comm: what tests/support/engine_run.h needs to
// run programs without compiling them. Ranks are threads; the calls are those that generated code makes.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"
#include "runtime/comm/communicator.h"

namespace braid::test {

// Runs `rank(world)` on each rank, a thread and a device each, with a communicator for each group; groups may
// have no other lists of ranks. Returns what went wrong, rank by rank, or nothing.
std::string run_on_nccl(const ir::Graph& graph, std::size_t segment_bytes,
                        const std::function<void(rt::World&)>& rank);

}  // namespace braid::test
