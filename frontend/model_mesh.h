// Properties of a model of one rank that describe the ranks. `ai.braid.mesh` of the model is its mesh,
// "dp=2,tp=4". `ai.braid.part` of a value is the part that a rank has of an input or output of the plain
// model, "S(1) on tp of [1, 12, ?, 64]".
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

// The name of the axis of all ranks if the model names none.
inline constexpr const char* kWorldAxis = "world";

// Returns the mesh of the model; empty if it has none. Also empty if it is compiled for one rank and nothing
// in it depends on ranks, so that it may be split like any other. `communicating` is the first node that does
// (find_communication); nullptr: there is none. Throws kSplitRequest if the mesh is malformed, kRankCount if
// it is not for that number of ranks.
ir::Mesh mesh_of(const Model& model, int ranks, const onnx::NodeProto* communicating);
// Sets the property; removes it for a single rank, or for an axis without a name.
void set_mesh(onnx::ModelProto& model, ir::Mesh mesh);

// Returns the part that the value's property describes. `local`: the sizes that a rank has. nullopt if the
// value has no property, or one that does not describe such a tensor on the mesh. An empty mesh counts as one
// axis without a name.
std::optional<ir::Part> part_of_value(const onnx::ValueInfoProto& value, std::span<const ir::Expr> local,
                                      const ir::Mesh& mesh, int ranks);
void clear_part(onnx::ValueInfoProto& value);
// Adds the state on one more axis, which may have no name. `sizes` are those before it is cut, nullopt where
// they are known only at run time; only those of the first call are kept.
void add_part(onnx::ValueInfoProto& value, const split::Spec& state, const ir::MeshAxis& axis,
              std::span<const std::optional<std::int64_t>> sizes);

}  // namespace braid::frontend
