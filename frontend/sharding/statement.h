// What a node states of one of its inputs or outputs: a ShardingSpecProto.
#pragma once

#include <map>
#include <string>

#include "frontend/load.h"
#include "frontend/sharding/device_layout.h"
#include "frontend/sharding/onnx_graph.h"
#include "frontend/sharding/split_names.h"

namespace braid::frontend::sharding {

// Its devices as a layout, as far as they can be known without the tensor (extents count for nothing); nullopt if it is malformed or
// leaves out devices.
std::optional<DeviceLayout> layout_of(const onnx::ShardingSpecProto& proto, int devices);

struct StatedState {
  MeshSpec state;
  MeshSpec whole;  // on each axis as if it were alone
};
// As a state on the mesh. UserErrors: kAnnotation for what is malformed or does not fit the tensor; kAnnotationForm for what no program on
// that mesh can do. `path` is the model's.
StatedState stated_state(const std::string& path, const onnx::NodeProto& node,
                         const onnx::ShardingSpecProto& proto, const GraphValue& value, const Mesh& mesh);

}  // namespace braid::frontend::sharding
