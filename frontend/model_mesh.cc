#include "frontend/model_mesh.h"

#include <fmt/format.h>

#include <string>

#include "frontend/errors.h"
#include "frontend/sharding/mesh.h"
#include "ir/error.h"

namespace braid::frontend {
namespace {

constexpr const char* kProperty = "ai.braid.mesh";

}  // namespace

ir::Mesh mesh_of(const Model& model, int ranks, const onnx::NodeProto* communicating) {
  for (const onnx::StringStringEntryProto& property : model.proto.metadata_props()) {
    if (property.key() != kProperty) continue;
    const sharding::Mesh mesh =
        sharding::parse_mesh(property.value(), fmt::format("{}: property {}", model.path, kProperty));
    if (mesh.ranks() != ranks) {
      if (ranks == 1 && communicating == nullptr) return {};
      ir::user_error(kRankCount, {.file = model.path},
                     fmt::format("the model's mesh, [{}], has {} ranks, but there {} {}{}",
                                 sharding::to_string(mesh), mesh.ranks(), ranks == 1 ? "is" : "are", ranks,
                                 communicating == nullptr
                                     ? ""
                                     : fmt::format("; '{}' ({}) communicates, or depends on the rank",
                                                   name_of(*communicating), communicating->op_type())),
                     "compile for the number of ranks of the model (--ranks); only a model without "
                     "collectives and ranks can be "
                     "split");
    }
    return mesh.axes;
  }
  return {};
}

void set_mesh(onnx::ModelProto& model, ir::Mesh mesh) {
  const sharding::Mesh named{std::move(mesh)};
  for (int k = model.metadata_props_size(); k-- > 0;) {
    if (model.metadata_props(k).key() == kProperty) model.mutable_metadata_props()->DeleteSubrange(k, 1);
  }
  if (named.ranks() == 1 || !named.has_names()) return;
  onnx::StringStringEntryProto& property = *model.add_metadata_props();
  property.set_key(kProperty);
  property.set_value(sharding::to_string(named));
}

}  // namespace braid::frontend
