// A node's statement about one of its inputs or outputs: a ShardingSpecProto.
#pragma once

#include <map>
#include <string>

#include "frontend/load.h"
#include "frontend/sharding/device_layout.h"
#include "frontend/sharding/onnx_graph.h"
#include "frontend/sharding/split_names.h"

namespace braid::frontend::sharding {

// Returns its devices as a layout. Its factors have only numbers of shards, because the tensor is not known.
// Returns nullopt if it is malformed or leaves out devices.
std::optional<DeviceLayout> layout_of(const onnx::ShardingSpecProto& proto, int devices);

struct StatedState {
  MeshSpec state;
  MeshSpec whole;  // on each axis as if it were alone
};
// Returns the statement as a state on the mesh. Throws UserErrors: kAnnotation if it is malformed or does not
// fit the tensor; kAnnotationForm if no program on that mesh can have the state. `path` is the model's.
StatedState stated_state(const std::string& path, const onnx::NodeProto& node,
                         const onnx::ShardingSpecProto& proto, const GraphValue& value, const Mesh& mesh);

}  // namespace braid::frontend::sharding
