#include "ir/comm_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace braid::ir {

const std::vector<int>* CommGroup::part_of(int rank) const {
  for (const std::vector<int>& part : parts) {
    if (std::find(part.begin(), part.end(), rank) != part.end()) return &part;
  }
  return nullptr;
}

std::string CommGroup::fault(int world) const {
  if (size() == 0) return "the group has no ranks";
  std::set<int> seen;
  for (const std::vector<int>& part : parts) {
    if (part.size() != parts.front().size()) return "the parts of the group have different numbers of ranks";
    seen.insert(part.begin(), part.end());
  }
  if (static_cast<std::int64_t>(seen.size()) != members()) return "a rank occurs twice in the group";
  if (*seen.begin() < 0 || *seen.rbegin() >= world)
    return fmt::format("a rank is not below the number of ranks, {}", world);
  return {};
}

std::string parts_text(const Parts& parts) {
  std::string text;
  for (const std::vector<int>& part : parts)
    text += fmt::format("{}{}", text.empty() ? "" : " | ", fmt::join(part, " "));
  return text;
}

std::string mesh_fault(const Mesh& mesh, int world) {
  if (mesh.empty()) return {};
  std::set<std::string> names;
  std::int64_t product = 1;
  for (const MeshAxis& axis : mesh) {
    if (!names.insert(axis.name).second) return fmt::format("the mesh has two axes '{}'", axis.name);
    if (axis.size < 1) return fmt::format("the size of axis '{}' is below 1", axis.name);
    product = std::min<std::int64_t>(product * axis.size, kMaxRanks + 1);  // sizes may be anything
  }
  if (product != world)
    return fmt::format("the sizes of the mesh do not multiply to the number of ranks, {}", world);
  return {};
}

Parts parts_along(const Mesh& mesh, std::span<const int> axes) {
  std::vector<int> stride(mesh.size(), 1);
  for (std::size_t k = mesh.size(); k-- > 1;) stride[k - 1] = stride[k] * mesh[k].size;
  // Every rank that is first along the given axes, then what lies along them.
  std::vector<int> firsts{0}, offsets{0};
  const auto extend = [&](std::vector<int>& points, std::size_t axis) {
    std::vector<int> all;
    for (const int p : points) {
      for (int k = 0; k < mesh[axis].size; ++k) all.push_back(p + k * stride[axis]);
    }
    points = std::move(all);
  };
  for (std::size_t k = 0; k < mesh.size(); ++k) {
    if (std::find(axes.begin(), axes.end(), static_cast<int>(k)) == axes.end()) extend(firsts, k);
  }
  for (const int axis : axes) extend(offsets, static_cast<std::size_t>(axis));
  Parts parts;
  for (const int first : firsts) {
    std::vector<int>& part = parts.emplace_back(offsets);
    for (int& rank : part) rank += first;
  }
  return parts;
}

std::optional<std::vector<int>> axes_of(const Mesh& mesh, const Parts& parts) {
  if (parts.empty() || parts.front().empty()) return std::nullopt;
  std::vector<int> axes;
  int stride = 1;
  for (std::size_t k = mesh.size(); k-- > 0; stride *= mesh[k].size) {
    const auto at = [&](int rank) { return rank / stride % mesh[k].size; };
    const std::vector<int>& part = parts.front();
    if (std::any_of(part.begin(), part.end(), [&](int rank) { return at(rank) != at(part.front()); }))
      axes.insert(axes.begin(), static_cast<int>(k));
  }
  if (axes.empty() || parts_along(mesh, axes) != parts) return std::nullopt;
  return axes;
}

}  // namespace braid::ir
