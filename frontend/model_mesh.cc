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

ir::Mesh mesh_of(const Model& model, int ranks) {
  for (const onnx::StringStringEntryProto& property : model.proto.metadata_props()) {
    if (property.key() != kProperty) continue;
    const sharding::Mesh mesh =
        sharding::parse_mesh(property.value(), fmt::format("{}: property {}", model.path, kProperty));
    if (mesh.ranks() != ranks) {
      ir::user_error(
          kRankCount, {.file = model.path},
          fmt::format("the model's mesh, [{}], has {} ranks, but there {} {}", sharding::to_string(mesh),
                      mesh.ranks(), ranks == 1 ? "is" : "are", ranks),
          "compile for the number of ranks of the model (--ranks); a model that is to be split has no such "
          "property");
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
