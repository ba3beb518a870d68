#include "frontend/sharding/device_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/coordinate.h"
#include "ir/error.h"

namespace braid::frontend::sharding {
namespace {

// By device: the number of its shard of each factor.
std::vector<std::vector<std::int64_t>> shards_of_devices(const DeviceLayout& layout, int devices) {
  std::vector<std::vector<std::int64_t>> shards(devices);
  for (int shard = 0; shard < count_of(layout.devices); ++shard) {
    std::vector<std::int64_t> numbers(layout.factors.size());
    std::int64_t rest = shard;
    for (std::size_t f = layout.factors.size(); f-- > 0;) {
      numbers[f] = rest % layout.factors[f].shards;
      rest /= layout.factors[f].shards;
    }
    for (const int device : layout.devices[shard]) shards[device] = numbers;
  }
  return shards;
}

}  // namespace

std::optional<std::vector<std::vector<int>>> axes_of(const DeviceLayout& layout, const Mesh& mesh) {
  const int devices = mesh.ranks();
  const auto shards = shards_of_devices(layout, devices);
  std::vector<std::vector<int>> axes(layout.factors.size());
  // The axes along which the factor's shards change.
  for (std::size_t f = 0; f < axes.size(); ++f) {
    for (int k = 0; k < mesh.size(); ++k) {
      bool changes = false;
      for (int d = 0; d < devices; ++d) {
        const int first = d - ir::coordinate_of(mesh.axes, k, d) * mesh.stride(k);
        changes = changes || shards[d][f] != shards[first][f];
      }
      if (changes) axes[f].push_back(k);
    }
  }
  for (std::size_t f = 0; f < axes.size(); ++f) {
    for (int d = 0; d < devices; ++d) {
      std::int64_t number = 0;
      for (const int k : axes[f]) number = number * mesh.axes[k].size + ir::coordinate_of(mesh.axes, k, d);
      if (number != shards[d][f]) return std::nullopt;
    }
  }
  return axes;
}

Mesh mesh_of(const std::vector<DeviceLayout>& layouts, int devices) {
  constexpr int kMostAxes = 3;
  std::vector<Mesh> meshes = {Mesh::line(devices)};
  for (int axes = 2; axes <= kMostAxes; ++axes) {
    for (Mesh& mesh : meshes_of(devices, axes)) meshes.push_back(std::move(mesh));
  }
  const Mesh* best = nullptr;
  std::ptrdiff_t most = 0;  // layouts
  for (const Mesh& mesh : meshes) {
    const auto other = std::find_if(layouts.begin(), layouts.end(),
                                    [&](const DeviceLayout& layout) { return !axes_of(layout, mesh); });
    const auto fit = other - layouts.begin();
    if (best != nullptr && fit <= most) continue;
    best = &mesh;
    most = fit;
  }
  return *best;
}

std::vector<std::string> device_names(const Mesh& mesh) {
  std::vector<std::string> names;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    std::string& name = names.emplace_back();
    for (int k = 0; k < mesh.size(); ++k)
      name +=
          fmt::format("{}{}={}", k == 0 ? "" : ",", mesh.axes[k].name, ir::coordinate_of(mesh.axes, k, rank));
  }
  return names;
}

std::optional<Mesh> mesh_of_names(const std::vector<std::string>& names) {
  // The last name has the largest coordinates.
  if (names.empty() || names.back().find('=') == std::string::npos) return std::nullopt;
  Mesh mesh;
  try {
    // A coordinate of 0 is a size that parse_mesh refuses; such an axis has one rank.
    std::string sizes;
    for (std::string_view rest = names.back(); !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find(','));
      const std::size_t equals = one.find('=');
      if (equals == std::string_view::npos || one.size() - equals > 5) return std::nullopt;
      const std::string digits(one.substr(equals + 1));
      if (digits.empty() ||
          !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
        return std::nullopt;
      sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ",", one.substr(0, equals), std::stoi(digits) + 1);
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    }
    mesh = parse_mesh(sizes, "the names of devices");
  } catch (const ir::UserError&) {
    return std::nullopt;
  }
  if (device_names(mesh) != names) return std::nullopt;
  return mesh;
}

MeshSpec whole_state(const DeviceLayout& layout, const std::vector<std::vector<int>>& axes,
                     const Mesh& mesh) {
  MeshSpec whole(mesh.size());
  for (std::size_t f = 0; f < axes.size(); ++f) {
    const CutFactor& factor = layout.factors[f];
    // A factor after others is a block that repeats.
    const Spec spec = Spec::split(factor.dim, Blocks(factor.before, factor.extent * factor.after));
    for (const int k : axes[f]) whole[k] = spec;
  }
  return whole;
}

namespace {

// A factor of a dimension that axes cut in turn: each axis cuts the blocks of what the axes before it have
// left. `axes` are those that cut the factor.
struct Piece {
  std::int64_t extent = 1;
  std::int64_t shards = 1;
  std::vector<int> axes;
  std::int64_t left() const { return extent / shards; }
};

bool cut(std::vector<Piece>& pieces, std::int64_t block, int axis, int parts) {
  // The piece at which blocks of that size begin.
  std::int64_t behind = 1;
  for (std::size_t p = pieces.size(); p-- > 0;) {
    const std::int64_t all = behind * pieces[p].left();
    if (all < block) {
      behind = all;
      continue;
    }
    if (all > block) {
      const std::int64_t inner = block / behind;
      if (block % behind != 0 || pieces[p].left() % inner != 0) return false;
      Piece front = pieces[p];
      front.extent = pieces[p].extent / inner;
      pieces[p] = {inner, 1, {}};
      pieces.insert(pieces.begin() + p, std::move(front));
      ++p;
    }
    if (pieces[p].left() % parts != 0) return false;
    pieces[p].shards *= parts;
    pieces[p].axes.push_back(axis);
    return true;
  }
  return false;
}

}  // namespace

std::optional<DeviceLayout> layout_of(const MeshSpec& spec, const std::vector<std::int64_t>& sizes,
                                      const Mesh& mesh) {
  DeviceLayout layout;
  std::vector<std::vector<int>> axes;
  for (int dim = 0; dim < count_of(sizes); ++dim) {
    std::int64_t left = sizes[dim];
    std::vector<Piece> pieces = {{left, 1, {}}};
    for (int k = 0; k < count_of(spec); ++k) {
      if (spec[k].is_pending()) return std::nullopt;
      if (!spec[k].is_split() || spec[k].dim != dim) continue;
      const Blocks& blocks = spec[k].blocks;
      if (std::adjacent_find(blocks.begin(), blocks.end(), std::not_equal_to<>()) != blocks.end())
        return std::nullopt;
      if (left <= 0 || !cut(pieces, blocks.empty() ? left : blocks[0], k, mesh.axes[k].size))
        return std::nullopt;
      left /= mesh.axes[k].size;
    }
    std::int64_t before = 1;
    for (const Piece& piece : pieces) {
      if (piece.shards > 1) {
        layout.factors.push_back(
            {dim, before, piece.extent, sizes[dim] / before / piece.extent, piece.shards});
        axes.push_back(piece.axes);
      }
      before *= piece.extent;
    }
  }
  std::int64_t shards = 1;
  for (const CutFactor& factor : layout.factors) shards *= factor.shards;
  layout.devices.resize(shards);
  for (int d = 0; d < mesh.ranks(); ++d) {
    std::int64_t shard = 0;
    for (const std::vector<int>& own : axes) {
      for (const int k : own) shard = shard * mesh.axes[k].size + ir::coordinate_of(mesh.axes, k, d);
    }
    layout.devices[shard].push_back(d);
  }
  return layout;
}

std::string listed(const std::vector<int>& devices) {
  return fmt::format("{} {}", devices.size() == 1 ? "device" : "devices", fmt::join(devices, ", "));
}

std::string copies(const std::vector<int>& devices) {
  return devices.size() == 1 ? fmt::format("{}", devices[0])
                             : fmt::format("{{{}}}", fmt::join(devices, ", "));
}

std::string in_words(const MeshSpec& spec, const Mesh& mesh) {
  // The devices of each part along an axis.
  const auto parts = [&](int k) {
    std::string text;
    for (int c = 0; c < mesh.axes[k].size; ++c) {
      std::vector<int> own;
      for (int d = 0; d < mesh.ranks(); ++d) {
        if (ir::coordinate_of(mesh.axes, k, d) == c) own.push_back(d);
      }
      text += (c == 0 ? "" : ", ") + copies(own);
    }
    return fmt::format("{} {}", mesh.ranks() == 1 ? "device" : "devices", text);
  };
  std::string text;
  for (int k = 0; k < count_of(spec); ++k) {
    if (spec[k].is_replicated()) continue;
    if (!text.empty()) text += " and ";
    if (spec[k].is_pending()) {
      text += fmt::format("a pending {} over {}", to_string(spec[k].reduce), parts(k));
      continue;
    }
    const std::string blocks =
        spec[k].blocks.empty() ? "" : fmt::format(" in blocks of {}", fmt::join(spec[k].blocks, ", "));
    text += fmt::format("split along axis {}{} over {}", spec[k].dim, blocks, parts(k));
  }
  if (!text.empty()) return text;
  std::vector<int> all(mesh.ranks());
  std::iota(all.begin(), all.end(), 0);
  return "whole on " + listed(all);
}

}  // namespace braid::frontend::sharding
