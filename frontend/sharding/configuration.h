// The configuration of devices for which a model has annotations (annotations.h). Free of ONNX, for the driver.
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
  std::vector<std::string> nodes;  // those that it annotates, by their first outputs
  // As names of devices such as "dp=0,tp=1" say; else that of the fewest axes on which the annotations are states (mesh_of).
  split::Mesh mesh;
};

// The configuration of that name; without one, the only one that the model in the file has. nullopt: it has none. "{rank}" in the
// path stands for rank 0. UserErrors: kAnnotation if there is no such configuration, or several and no name, or one or its use is
// malformed; kAnnotationForm for annotations inside of branches, loops and functions.
std::optional<DeviceConfiguration> device_configuration(const std::string& path, const std::string& name);
// For a search (SearchOptions); null of null. UserErrors of annotated_lines.
std::shared_ptr<const split::Annotations> annotations_of(
    std::shared_ptr<const DeviceConfiguration> configuration);

}  // namespace braid::frontend::sharding
