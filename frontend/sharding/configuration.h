// The configuration of devices for which a model has annotations (annotations.h). Free of ONNX, for the
// driver.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/sharding/split_names.h"
#include "split/mesh.h"

namespace braid::split {
struct Annotations;
}

namespace braid::frontend::sharding {

struct DeviceConfiguration {
  std::string path;  // of the model
  std::string name;
  int devices = 1;
  std::vector<std::string> nodes;  // the nodes that it annotates, by their first outputs
  // The mesh that names of devices such as "dp=0,tp=1" describe; otherwise that of the fewest axes on which
  // the annotations are states (mesh_of).
  split::Mesh mesh;
};

// Returns the configuration of that name or, without a name, the only one that the model in the file has.
// Returns nullopt if it has none and no name is given. "{rank}" in the path stands for rank 0. Throws
// UserErrors: kAnnotation if there is no such configuration, if there are several and no name, or if one or
// its use is malformed; kAnnotationForm for annotations inside of branches, loops and functions.
std::optional<DeviceConfiguration> device_configuration(const std::string& path, const std::string& name);
// Returns the annotations for a search (SearchOptions); null for null. Throws the UserErrors of
// annotated_lines.
std::shared_ptr<const split::Annotations> annotations_of(
    std::shared_ptr<const DeviceConfiguration> configuration);

}  // namespace braid::frontend::sharding
