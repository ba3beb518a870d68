#include "frontend/sharding/statement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/error_numbers.h"

namespace braid::frontend::sharding {
namespace {

using Proto = onnx::ShardingSpecProto;

std::string divisors_of(std::int64_t size) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= size && d <= 1024; ++d) {
    if (size % d == 0) all.push_back(d);
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

// The groups that hold copies, by their keys. Calls `fail` with what is wrong and a hint.
template <class Fail>
std::map<std::int64_t, std::vector<std::int64_t>> groups_of(const Proto& proto, const Fail& fail) {
  std::map<std::int64_t, std::vector<std::int64_t>> groups;
  for (const onnx::IntIntListEntryProto& entry : proto.index_to_device_group_map()) {
    if (!entry.has_key() || entry.key() >= 0)
      fail(fmt::format("the key {} of a group of devices is not negative", entry.key()),
           "numbers from 0 on are devices: groups have the keys -1, -2, ...");
    std::vector<std::int64_t> members(entry.value().begin(), entry.value().end());
    if (members.empty()) fail(fmt::format("group {} has no devices", entry.key()), "");
    if (!groups.emplace(entry.key(), std::move(members)).second)
      fail(fmt::format("group {} is given twice", entry.key()), "");
  }
  return groups;
}

// The devices of each entry: one, or those of a group. Empty: not given.
template <class Fail>
std::vector<std::vector<int>> entries_of(const Proto& proto, int devices, const Fail& fail) {
  const auto groups = groups_of(proto, fail);
  std::vector<std::vector<int>> entries;
  std::set<std::int64_t> seen;
  for (const std::int64_t number : proto.device()) {
    std::vector<int>& entry = entries.emplace_back();
    const auto add = [&](std::int64_t device) {
      if (device < 0 || device >= devices)
        fail(fmt::format("there is no device {}: the configuration has {}", device, devices), "");
      if (!seen.insert(device).second) fail(fmt::format("device {} is given twice", device), "");
      entry.push_back(device);
    };
    if (number >= 0) {
      add(number);
      continue;
    }
    const auto group = groups.find(number);
    if (group == groups.end()) {
      fail(fmt::format("there is no group {}", number), "");
    } else {
      for (const std::int64_t device : group->second) add(device);
    }
  }
  return entries;
}

std::vector<int> all_of(const std::vector<std::vector<int>>& entries) {
  std::vector<int> all;
  for (const std::vector<int>& entry : entries) all.insert(all.end(), entry.begin(), entry.end());
  return all;
}

// Returns the devices by the entries; without entries, shard k is on device k. A whole tensor is on all
// devices.
std::vector<std::vector<int>> devices_of_shards(const std::vector<std::vector<int>>& entries,
                                                std::int64_t shards, int devices) {
  if (shards == 1) {
    std::vector<int> all(devices);
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }
  if (!entries.empty()) return entries;
  std::vector<std::vector<int>> own;
  for (int d = 0; d < devices; ++d) own.push_back({d});
  return own;
}

class Statement {
 public:
  Statement(const std::string& path, const onnx::NodeProto& node, const Proto& proto, const GraphValue& value,
            const Mesh& mesh)
      : path_(path), node_(node), proto_(proto), value_(value), mesh_(mesh) {}

  StatedState read() {
    const std::vector<std::vector<int>> entries = entries_of(
        proto_, mesh_.ranks(),
        [&](const std::string& what, const char* hint) { fail(what, *hint == '\0' ? kCorrect : hint); });
    DeviceLayout layout;
    std::set<int> axes;
    for (const onnx::ShardedDimProto& dim : proto_.sharded_dim()) {
      const int axis = read_axis(dim);
      if (!axes.insert(axis).second) fail(fmt::format("axis {} is given twice", axis));
      read_dim(dim, axis, layout);
    }
    check_devices(entries, layout);
    layout.devices = devices_of_shards(entries, shards_, mesh_.ranks());
    const auto cut = axes_of(layout, mesh_);
    if (!cut) refuse_grid(layout);
    StatedState stated;
    stated.whole = whole_state(layout, *cut, mesh_);
    std::vector<std::int64_t> sizes;
    for (const ir::Expr& size : value_.sizes) sizes.push_back(static_size(size).value_or(-1));
    std::optional<MeshSpec> state = cut_in_turn(stated.whole, sizes, mesh_);
    if (!state || !is_of_one_letter(*state, stated.whole, sizes))
      lack(fmt::format("two factors{} are cut among the axes of the mesh [{}]", where(layout),
                       to_string(mesh_)),
           "cut one factor of a dimension among all of them, or the first one of several completely");
    stated.state = std::move(*state);
    return stated;
  }

 private:
  static constexpr const char* kCorrect = "correct the annotation";

  [[noreturn]] void fail(const std::string& what, const std::string& hint = kCorrect) const {
    ir::user_error(errors::kAnnotation, location_of(path_, node_),
                   fmt::format("the annotation of '{}': {}", value_.name, what), hint);
  }
  [[noreturn]] void lack(const std::string& what, const std::string& hint) const {
    ir::user_error(errors::kAnnotationForm, location_of(path_, node_),
                   fmt::format("the annotation of '{}': {}", value_.name, what), hint);
  }

  // " along axes 0 and 1"
  static std::string where(const DeviceLayout& layout) {
    std::vector<int> dims;
    for (const CutFactor& factor : layout.factors) {
      if (dims.empty() || dims.back() != factor.dim) dims.push_back(factor.dim);
    }
    if (dims.empty()) return "";
    return fmt::format(" along {} {}", dims.size() == 1 ? "axis" : "axes", fmt::join(dims, " and "));
  }

  // Rules cut a dimension in the same blocks on each axis: whether the state is one that they know.
  bool is_of_one_letter(const MeshSpec& state, const MeshSpec& whole,
                        const std::vector<std::int64_t>& sizes) const {
    for (const Spec& own : whole) {
      if (!own.is_split()) continue;
      bool known = false;
      for (const Spec& other : whole) {
        if (!other.is_split() || other.dim != own.dim) continue;
        MeshSpec same = whole;
        for (Spec& spec : same) {
          if (spec.is_split() && spec.dim == own.dim) spec.blocks = other.blocks;
        }
        const std::optional<MeshSpec> cut = cut_in_turn(same, sizes, mesh_);
        known = known || (cut && *cut == state);
      }
      if (!known) return false;
    }
    return true;
  }

  int read_axis(const onnx::ShardedDimProto& dim) const {
    if (!dim.has_axis()) fail("a sharded dimension has no axis");
    const int rank = value_.rank();
    if (dim.axis() < -rank || dim.axis() >= rank)
      fail(fmt::format("there is no axis {}: the tensor has {} dimensions", dim.axis(), rank));
    return dim.axis() < 0 ? dim.axis() + rank : dim.axis();
  }

  // Adds the factors that are cut.
  void read_dim(const onnx::ShardedDimProto& dim, int axis, DeviceLayout& layout) {
    if (dim.simple_sharding_size() == 0) fail(fmt::format("axis {} has no simple_sharding", axis));
    const std::optional<std::int64_t> size = static_size(value_.sizes[axis]);
    const bool factored = dim.simple_sharding_size() > 1;
    std::int64_t product = 1;
    std::vector<CutFactor> cut;
    for (const onnx::SimpleShardedDimProto& factor : dim.simple_sharding()) {
      if (!factor.has_num_shards() || factor.num_shards() < 1)
        fail(fmt::format("axis {} has {} shards", axis, factor.num_shards()),
             "num_shards must be at least 1");
      if (factored && !factor.has_dim_value())
        lack(fmt::format("axis {} has a factor without a size", axis), "give each factor its dim_value");
      const std::int64_t extent = factor.has_dim_value() ? factor.dim_value() : size.value_or(0);
      if (factor.has_dim_value() && extent < 1)
        fail(fmt::format("axis {} has a factor of size {}", axis, extent));
      if (factor.num_shards() > 1) cut.push_back({axis, product, extent, 1, factor.num_shards()});
      if (__builtin_mul_overflow(product, extent, &product))
        fail(fmt::format("axis {}: the size overflows", axis));
      if (__builtin_mul_overflow(shards_, factor.num_shards(), &shards_))
        fail(fmt::format("axis {}: the number of shards overflows", axis));
    }
    if (dim.simple_sharding(0).has_dim_value() && size && product != *size)
      fail(fmt::format("axis {} has the size {}, not {}", axis, *size, product));
    for (CutFactor& factor : cut) {
      if (!size)
        fail(fmt::format("axis {} is split into {} parts, but its size is known only at run time", axis,
                         factor.shards),
             "fix the dimension with --dim NAME=SIZE, or split another axis");
      if (factor.extent == 0) fail(fmt::format("axis {} has no elements to split", axis));
      if (factor.extent % factor.shards != 0)
        fail(
            fmt::format("axis {} of size {} cannot be cut into {} equal parts", axis, factor.extent,
                        factor.shards),
            fmt::format("parts are equal; {} can be cut into {}", factor.extent, divisors_of(factor.extent)));
      constexpr std::int64_t kMostBlocks = 4096;
      if (factor.before > kMostBlocks)
        lack(fmt::format("axis {} has {} blocks", axis, factor.before), "split the factor before them");
      factor.after = product / factor.before / factor.extent;
      layout.factors.push_back(factor);
    }
  }

  void check_devices(const std::vector<std::vector<int>>& entries, const DeviceLayout& layout) const {
    const int devices = mesh_.ranks();
    const std::vector<int> flat = all_of(entries);
    const std::int64_t count = entries.empty() ? devices : std::ssize(entries);
    if (shards_ > 1 && shards_ != count)
      fail(fmt::format("{} shards{} on {}", shards_, where(layout),
                       entries.empty() ? fmt::format("the {} devices of the configuration", devices)
                                       : fmt::format("{} entries of device ({})", count, listed(flat))),
           "the product of the numbers of shards must be the number of entries");
    if (entries.empty() || count_of(flat) == devices) return;
    std::vector<int> without;
    for (int d = 0; d < devices; ++d) {
      if (std::find(flat.begin(), flat.end(), d) == flat.end()) without.push_back(d);
    }
    lack(fmt::format("{} hold{} nothing of it", listed(without), without.size() == 1 ? "s" : ""),
         "all devices run one program: every one of the configuration needs a part or a copy");
  }

  [[noreturn]] void refuse_grid(const DeviceLayout& layout) const {
    std::string shards;
    bool several = false;
    for (const std::vector<int>& own : layout.devices) {
      shards += (shards.empty() ? "" : ", ") + copies(own);
      several = several || own.size() > 1;
    }
    if (mesh_.size() == 1 && !several)
      lack(fmt::format("its shards{} lie on devices {}, in this order", where(layout), shards),
           "list the devices of a mesh in their order: shard k lies on device k if all are cut apart");
    lack(fmt::format("its shards{} lie on devices {}, which is no grid of {}", where(layout), shards,
                     mesh_.size() == 1 ? fmt::format("{} devices in their order", mesh_.ranks())
                                       : fmt::format("the mesh [{}]", to_string(mesh_))),
         "all annotations of a configuration share one mesh of at most three axes; --mesh names it");
  }

  const std::string& path_;
  const onnx::NodeProto& node_;
  const Proto& proto_;
  const GraphValue& value_;
  const Mesh& mesh_;
  std::int64_t shards_ = 1;
};

}  // namespace

std::optional<DeviceLayout> layout_of(const Proto& proto, int devices) {
  bool wrong = false;
  const auto fail = [&](const std::string&, const char*) { wrong = true; };
  const std::vector<std::vector<int>> entries = entries_of(proto, devices, fail);
  DeviceLayout layout;
  std::int64_t shards = 1;
  for (const onnx::ShardedDimProto& dim : proto.sharded_dim()) {
    for (const onnx::SimpleShardedDimProto& factor : dim.simple_sharding()) {
      if (factor.num_shards() < 1 || factor.num_shards() > devices) return std::nullopt;
      shards *= factor.num_shards();
      if (shards > devices) return std::nullopt;
      if (factor.num_shards() > 1) layout.factors.push_back({0, 1, 1, 1, factor.num_shards()});
    }
  }
  const std::int64_t count = entries.empty() ? devices : std::ssize(entries);
  if (wrong || (shards > 1 && shards != count)) return std::nullopt;
  if (!entries.empty() && count_of(all_of(entries)) < devices) return std::nullopt;
  layout.devices = devices_of_shards(entries, shards, devices);
  return layout;
}

StatedState stated_state(const std::string& path, const onnx::NodeProto& node, const Proto& proto,
                         const GraphValue& value, const Mesh& mesh) {
  return Statement(path, node, proto, value, mesh).read();
}

}  // namespace braid::frontend::sharding
