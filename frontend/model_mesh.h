// What a model of one rank says of the ranks: its mesh, the property `ai.braid.mesh` of the model, "dp=2,tp=4"; and what a rank has of an
// input or output of the plain model, the property `ai.braid.part` of the value, "S(1) on tp of [1, 12, ?, 64]".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "frontend/load.h"
#include "ir/comm_group.h"
#include "ir/graph.h"
#include "split/spec.h"

namespace braid::frontend {

// The axis of all ranks, where nobody has named one.
inline constexpr const char* kWorldAxis = "world";

// Empty if the model has none, or if it is compiled for one rank and nothing in it depends on ranks, so that it may be split like any
// other. `communicating` is its first node of which that is not so (find_communication); nullptr: there is none. UserErrors:
// kSplitRequest if the mesh is malformed, kRankCount if it is not for that number of ranks.
ir::Mesh mesh_of(const Model& model, int ranks, const onnx::NodeProto* communicating);
// Nothing for a single rank, or for an axis without a name.
void set_mesh(onnx::ModelProto& model, ir::Mesh mesh);

// `local`: the sizes that a rank has. nullopt if the value has no property, or one that does not describe such a tensor on the mesh, which is one
// axis without a name if it has none.
std::optional<ir::Part> part_of(const onnx::ValueInfoProto& value, std::span<const ir::Expr> local,
                                const ir::Mesh& mesh, int ranks);
void clear_part(onnx::ValueInfoProto& value);
// Adds the state on one more axis, which may have no name; `sizes` before it is cut, of which the first call's are kept, nullopt where they
// are known only at run time.
void add_part(onnx::ValueInfoProto& value, const split::Spec& state, const ir::MeshAxis& axis,
              std::span<const std::optional<std::int64_t>> sizes);

}  // namespace braid::frontend
