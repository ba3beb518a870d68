// Seeds for random operators that have none.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>

#include "frontend/check_structure.h"

namespace braid::frontend {

// Sets the attribute `seed` of each random operator of the graph that lacks it, in bodies of control flow
// too. The values follow from `seed` and the order of these nodes, and differ between up to 2^24 nodes.
void seed_random_nodes(onnx::GraphProto& graph, const Opsets& opsets, std::int64_t seed);

}  // namespace braid::frontend
