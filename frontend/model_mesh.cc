#include "frontend/model_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "split/graph.h"
#include "split/mesh.h"
#include "split/parts.h"

namespace braid::frontend {
namespace {

constexpr const char* kProperty = "ai.braid.mesh";
constexpr const char* kPart = "ai.braid.part";

constexpr std::string_view kOf = " of [", kNext = ", ", kUnknown = "?";

}  // namespace

ir::Mesh mesh_of(const Model& model, int ranks, const onnx::NodeProto* communicating) {
  for (const onnx::StringStringEntryProto& property : model.proto.metadata_props()) {
    if (property.key() != kProperty) continue;
    const split::Mesh mesh =
        split::parse_mesh(property.value(), fmt::format("{}: property {}", model.path, kProperty));
    if (mesh.ranks() != ranks) {
      if (ranks == 1 && communicating == nullptr) return {};
      ir::user_error(errors::kRankCount, {.file = model.path},
                     fmt::format("the model's mesh, [{}], has {} ranks, but there {} {}{}",
                                 split::to_string(mesh), mesh.ranks(), ranks == 1 ? "is" : "are", ranks,
                                 communicating == nullptr
                                     ? ""
                                     : fmt::format("; '{}' ({}) communicates, or depends on the rank",
                                                   name_of(*communicating), communicating->op_type())),
                     "compile for the number of ranks of the model (--ranks); only a model without "
                     "collectives and ranks can be "
                     "split");
    }
    return mesh.axes;
  }
  return {};
}

void set_mesh(onnx::ModelProto& model, ir::Mesh mesh) {
  const split::Mesh named{std::move(mesh)};
  for (int k = model.metadata_props_size(); k-- > 0;) {
    if (model.metadata_props(k).key() == kProperty) model.mutable_metadata_props()->DeleteSubrange(k, 1);
  }
  if (named.ranks() == 1 || !named.has_names()) return;
  onnx::StringStringEntryProto& property = *model.add_metadata_props();
  property.set_key(kProperty);
  property.set_value(split::to_string(named));
}

std::optional<ir::Part> part_of_value(const onnx::ValueInfoProto& value, std::span<const ir::Expr> local,
                                      const ir::Mesh& mesh, int ranks) {
  for (const onnx::StringStringEntryProto& property : value.metadata_props()) {
    if (property.key() != kPart) continue;
    std::string_view text = property.value();
    const std::size_t of = text.find(kOf);
    if (of == std::string_view::npos || !text.ends_with(']')) return std::nullopt;
    ir::Part part{std::string(text.substr(0, of)), {}};
    text.remove_prefix(of + kOf.size());
    text.remove_suffix(1);
    while (!text.empty()) {
      const std::string_view size = text.substr(0, text.find(kNext));
      text.remove_prefix(std::min(text.size(), size.size() + kNext.size()));
      if (part.whole.size() == local.size()) return std::nullopt;
      std::int64_t known = 0;
      const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), known);
      if (size == kUnknown)
        part.whole.push_back(local[part.whole.size()]);
      else if (error == std::errc{} && end == size.data() + size.size() && known >= 0)
        part.whole.emplace_back(known);
      else
        return std::nullopt;
    }
    split::KnownSizes whole, own;
    for (const ir::Expr& size : part.whole) whole.push_back(split::static_size(size));
    for (const ir::Expr& size : local) own.push_back(split::static_size(size));
    const split::Mesh axes = mesh.empty() ? split::Mesh::line(ranks) : split::Mesh{mesh};
    if (!split::axis_specs(part.state, axes, whole, own)) return std::nullopt;
    return part;
  }
  return std::nullopt;
}

void clear_part(onnx::ValueInfoProto& value) {
  for (int k = value.metadata_props_size(); k-- > 0;)
    if (value.metadata_props(k).key() == kPart) value.mutable_metadata_props()->DeleteSubrange(k, 1);
}

void add_part(onnx::ValueInfoProto& value, const split::Spec& state, const ir::MeshAxis& axis,
              std::span<const std::optional<std::int64_t>> sizes) {
  const std::string own =
      axis.name.empty() ? to_string(state) : fmt::format("{} on {}", to_string(state), axis.name);
  for (onnx::StringStringEntryProto& property : *value.mutable_metadata_props()) {
    if (property.key() != kPart) continue;
    std::string& text = *property.mutable_value();
    text.insert(text.find(kOf), std::string(kNext) + own);
    return;
  }
  std::string list;
  for (const std::optional<std::int64_t>& size : sizes)
    list +=
        fmt::format("{}{}", list.empty() ? "" : kNext, size ? std::to_string(*size) : std::string(kUnknown));
  onnx::StringStringEntryProto& property = *value.add_metadata_props();
  property.set_key(kPart);
  property.set_value(own + std::string(kOf) + list + "]");
}

}  // namespace braid::frontend
