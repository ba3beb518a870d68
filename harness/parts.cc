#include "harness/parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "split/mesh.h"

namespace braid::harness {
namespace {

using split::AxisSpec;
using split::KnownSizes;
using split::Mesh;

KnownSizes known(const std::vector<ir::Expr>& sizes) {
  KnownSizes all;
  for (const ir::Expr& size : sizes)
    all.push_back(size.is_constant() ? std::optional(size.constant()) : std::nullopt);
  return all;
}

KnownSizes known(const nlohmann::json& sizes) {
  KnownSizes all;
  for (const nlohmann::json& size : sizes)
    all.push_back(size.is_number_integer() ? std::optional(size.get<std::int64_t>()) : std::nullopt);
  return all;
}

// Whether a manifest's mesh is one of so many ranks.
bool has_ranks(const Mesh& mesh, int ranks) {
  std::int64_t product = 1;
  for (const ir::MeshAxis& axis : mesh.axes) {
    if (axis.size < 1 || axis.size > ranks) return false;
    product *= axis.size;
    if (product > ranks) return false;
  }
  return product == ranks;
}

}  // namespace

std::optional<TensorPart> TensorPart::of(const std::string& state, Mesh mesh, int ranks, KnownSizes whole,
                                         const KnownSizes& local) {
  if (mesh.axes.empty()) mesh = Mesh::line(ranks);
  if (!has_ranks(mesh, ranks)) return std::nullopt;
  auto axes = split::axis_specs(state, mesh, whole, local);
  if (!axes) return std::nullopt;
  TensorPart part;
  part.state_ = state;
  part.axes_ = std::move(*axes);
  part.whole_ = std::move(whole);
  return part;
}

std::optional<TensorPart> TensorPart::of(const std::optional<ir::Part>& part, const ir::Graph& graph,
                                         ir::BufferId local) {
  if (!part) return std::nullopt;
  return of(part->state, {graph.mesh}, graph.ranks, known(part->whole), known(graph[local].sizes));
}

std::optional<TensorPart> TensorPart::of(const nlohmann::json& entry, const nlohmann::json& manifest,
                                         int ranks) {
  const auto part = entry.find("part");
  if (part == entry.end()) return std::nullopt;
  try {
    Mesh mesh;
    for (const nlohmann::json& axis : manifest.value("mesh", nlohmann::json::array()))
      mesh.axes.push_back({axis.at("name").get<std::string>(), axis.at("ranks").get<int>()});
    return of(part->at("state").get<std::string>(), std::move(mesh), ranks, known(part->at("whole")),
              known(entry.at("shape")));
  } catch (const nlohmann::json::exception&) {  // not written by Braid
    return std::nullopt;
  }
}

std::string TensorPart::text() const {
  std::vector<std::string> sizes;
  for (const std::optional<std::int64_t>& size : whole_) sizes.push_back(size ? std::to_string(*size) : "?");
  return fmt::format("{} of [{}]", state_, fmt::join(sizes, ", "));
}

bool TensorPart::is_term() const {
  return std::ranges::any_of(axes_, [](const AxisSpec& axis) { return axis.spec.is_pending(); });
}

bool TensorPart::is_whole(const ir::Tensor& tensor) const {
  return std::ranges::equal(tensor.sizes, whole_,
                            [](std::int64_t own, const auto& whole) { return !whole || own == *whole; });
}

ir::Tensor TensorPart::given(const ir::Tensor& whole, int rank) const {
  return split::part_of(whole, axes_, rank, true);
}

ir::Tensor TensorPart::expected(const ir::Tensor& whole, int rank, ir::Tensor& result) const {
  result = without_padding(std::move(result), rank);
  return split::part_of(whole, axes_, rank, false);
}

ir::Tensor TensorPart::without_padding(ir::Tensor own, int rank) const {
  if (own.sizes.size() != whole_.size()) return own;
  std::vector<std::int64_t> whole = own.sizes;
  for (const AxisSpec& axis : axes_) {
    if (axis.spec.is_split()) {
      const auto dim = static_cast<std::size_t>(axis.spec.dim);
      whole[dim] = *whole_[dim];
    }
  }
  std::vector<std::int64_t> padded = whole;
  for (const AxisSpec& axis : axes_) {
    if (axis.spec.is_split()) {
      std::int64_t& size = padded[static_cast<std::size_t>(axis.spec.dim)];
      size = split::part_of(size, axis.ranks);
    }
  }
  // A tensor that has another size than a part is wrong; the comparison reports it.
  if (own.sizes != padded) return own;
  return split::without_padding(own, split::sizes_without_padding(whole, axes_, rank));
}

}  // namespace braid::harness
