// The mesh of a model of one rank: the property `ai.braid.mesh` of the model, "dp=2,tp=4".
#pragma once

#include "frontend/load.h"
#include "ir/comm_group.h"

namespace braid::frontend {

// The axis of all ranks, where nobody has named one.
inline constexpr const char* kWorldAxis = "world";

// Empty if the model has none, or if it is compiled for one rank and nothing in it depends on ranks, so that it may be split like any
// other. `communicating` is its first node of which that is not so (find_communication); nullptr: there is none. UserErrors:
// kSplitRequest if the mesh is malformed, kRankCount if it is not for that number of ranks.
ir::Mesh mesh_of(const Model& model, int ranks, const onnx::NodeProto* communicating);
// Nothing for a single rank, or for an axis without a name.
void set_mesh(onnx::ModelProto& model, ir::Mesh mesh);

}  // namespace braid::frontend
