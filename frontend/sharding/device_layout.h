// The devices on which ONNX's annotations put a tensor, and the state on a mesh that corresponds to them.
//
// A dimension is a product of factors, of which some are cut into shards. The shards of all factors are
// enumerated in row-major order, the first factor outermost. Each shard lies on one device or, as copies, on
// several:
//
//   on [dp=2, tp=2]        factors                     devices
//   S(0) on dp             dim 0 into 2                {0, 1} {2, 3}
//   S(1) on tp             dim 1 into 2                {0, 2} {1, 3}
//   S(0) on dp, S(1) on tp dim 0 into 2, dim 1 into 2  0 1 2 3
//   S(0) on dp, S(0) on tp dim 0 into 4                0 1 2 3
//
// A device is the rank of that number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontend/sharding/split_names.h"
#include "split/mesh.h"

namespace braid::frontend::sharding {

// A factor that is cut.
struct CutFactor {
  int dim = 0;
  std::int64_t before = 1;  // the product of the dimension's factors before it
  std::int64_t extent = 1;  // its own size
  std::int64_t after = 1;   // the product of those after it
  std::int64_t shards = 2;
};
struct DeviceLayout {
  std::vector<CutFactor> factors;
  std::vector<std::vector<int>> devices;  // of each shard; every device is in one of them
};

// Returns, by factor, the axes of the mesh among which it is cut; nullopt if the devices are no grid of that
// mesh in its order. Extents are ignored.
std::optional<std::vector<std::vector<int>>> axes_of(const DeviceLayout& layout, const Mesh& mesh);
// Returns the first mesh of one, two or three axes, in the order of their sizes, on which all layouts are
// grids. If there is none, returns the first mesh for the most layouts, counted from the first one until one
// does not fit.
Mesh mesh_of(const std::vector<DeviceLayout>& layouts, int devices);
// Returns the mesh whose ranks have these names, such as "dp=0,tp=1", in their order; nullopt if they are
// other names.
std::optional<Mesh> mesh_of_names(const std::vector<std::string>& names);
// Returns those names.
std::vector<std::string> device_names(const Mesh& mesh);

// Returns the state that each axis alone has of the whole tensor; cut_in_turn makes the state on the mesh
// from these. `axes` are those of axes_of.
MeshSpec whole_state(const DeviceLayout& layout, const std::vector<std::vector<int>>& axes, const Mesh& mesh);
// Returns the layout of a state on a mesh. Returns nullopt if annotations cannot express it: it is pending or
// padded, blocks differ, or an axis cuts within a block of what the axes before have left. `sizes` are those
// of the whole tensor.
std::optional<DeviceLayout> layout_of(const MeshSpec& spec, const std::vector<std::int64_t>& sizes,
                                      const Mesh& mesh);

// "split along axis 1 over devices 0, 1", "split along axis 0 over devices {0, 1}, {2, 3}", "whole on devices
// 0, 1": in the terms of annotations.
std::string in_words(const MeshSpec& spec, const Mesh& mesh);
// "device 3", "devices 0, 1".
std::string listed(const std::vector<int>& devices);
// The devices of one shard: "3", "{0, 1}".
std::string copies(const std::vector<int>& devices);

}  // namespace braid::frontend::sharding
