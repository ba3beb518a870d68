#include "cli/parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "frontend/sharding/mesh.h"

namespace braid::cli {
namespace {

using frontend::sharding::AxisSpec;
using frontend::sharding::Mesh;
using frontend::sharding::Spec;

using Sizes = std::vector<std::optional<std::int64_t>>;

// Whether a dimension of that size, of which this is what is left of it, can be cut so.
bool can_cut(const Sizes& sizes, const Spec& state, int ranks) {
  if (!state.is_split()) return true;
  if (state.dim >= static_cast<int>(sizes.size())) return false;
  const std::optional<std::int64_t>& size = sizes[static_cast<std::size_t>(state.dim)];
  if (!size || *size < 1) return false;
  const auto& blocks = state.blocks;
  return blocks.empty() || (std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}) == *size &&
                            std::ranges::all_of(blocks, [&](std::int64_t b) { return b % ranks == 0; }));
}

}  // namespace

std::optional<TensorPart> TensorPart::of(const std::string& state, Mesh mesh, int ranks, Sizes whole) {
  if (mesh.axes.empty()) mesh = Mesh::line(ranks);
  const auto states = frontend::sharding::parse_mesh_spec(state, mesh);
  if (!states || mesh.ranks() != ranks) return std::nullopt;
  TensorPart part;
  Sizes left = whole;
  for (std::size_t k = 0; k < states->size(); ++k) {
    const Spec& own = (*states)[k];
    const int parts = mesh.axes[k].size;
    if (!can_cut(left, own, parts)) return std::nullopt;
    if (own.is_split()) {
      auto& size = left[static_cast<std::size_t>(own.dim)];
      size = frontend::sharding::part_of(*size, parts);
    }
    part.axes_.push_back({parts, own});
  }
  part.state_ = state;
  part.whole_ = std::move(whole);
  return part;
}

std::optional<TensorPart> TensorPart::of(const std::optional<ir::Part>& part, const ir::Graph& graph) {
  if (!part) return std::nullopt;
  Sizes whole;
  for (const ir::Expr& size : part->whole)
    whole.push_back(size.is_constant() ? std::optional(size.constant()) : std::nullopt);
  return of(part->state, {graph.mesh}, graph.ranks, std::move(whole));
}

std::optional<TensorPart> TensorPart::of(const nlohmann::json& entry, const nlohmann::json& manifest) {
  const auto part = entry.find("part");
  if (part == entry.end()) return std::nullopt;
  try {
    Mesh mesh;
    for (const nlohmann::json& axis : manifest.value("mesh", nlohmann::json::array()))
      mesh.axes.push_back({axis.at("name").get<std::string>(), axis.at("ranks").get<int>()});
    Sizes whole;
    for (const nlohmann::json& size : part->at("whole"))
      whole.push_back(size.is_number_integer() ? std::optional(size.get<std::int64_t>()) : std::nullopt);
    return of(part->at("state").get<std::string>(), std::move(mesh), manifest.at("ranks").get<int>(),
              std::move(whole));
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
  return frontend::sharding::part_of(whole, axes_, rank, true);
}

ir::Tensor TensorPart::expected(const ir::Tensor& whole, int rank, ir::Tensor& result) const {
  ir::Tensor part = frontend::sharding::part_of(whole, axes_, rank, false);
  if (result.sizes == given(whole, rank).sizes)
    result = frontend::sharding::without_padding(result, part.sizes);
  return part;
}

}  // namespace braid::cli
