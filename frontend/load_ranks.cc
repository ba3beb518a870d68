#include "frontend/load_ranks.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::Location;
using ir::user_error;

constexpr std::string_view kPlaceholder = "{rank}";

}  // namespace

std::string path_of_rank(const std::string& path, int rank) {
  std::string result = path;
  const std::string number = std::to_string(rank);
  for (std::size_t at = 0; (at = result.find(kPlaceholder, at)) != std::string::npos; at += number.size()) {
    result.replace(at, kPlaceholder.size(), number);
  }
  return result;
}

namespace {

void check_files(const std::string& path, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string file = path_of_rank(path, rank);
    if (!std::filesystem::exists(file)) {
      user_error(errors::kRankFileMissing, {.file = file},
                 fmt::format("the file of rank {} does not exist", rank),
                 fmt::format("{} ranks require the files of ranks 0 to {}", ranks, ranks - 1));
    }
  }
  const std::string beyond = path_of_rank(path, ranks);
  if (std::filesystem::exists(beyond)) {
    user_error(errors::kRankCount, {.file = beyond},
               fmt::format("there is a file of rank {}, but there are {} ranks", ranks, ranks),
               "give the number of ranks for which the model was split");
  }
}

// Compares one rank's graph with rank 0's; user error if they differ.
class GraphComparison {
 public:
  GraphComparison(const Model& first, const Model& other, int rank)
      : first_(first), other_(other), rank_(rank) {}

  void run() const {
    const onnx::GraphProto &a = first_.proto.graph(), &b = other_.proto.graph();
    for (int k = 0; k < std::min(a.node_size(), b.node_size()); ++k) compare_nodes(a.node(k), b.node(k));
    if (a.node_size() != b.node_size()) {
      differ({}, fmt::format("{} nodes, rank 0 has {}", b.node_size(), a.node_size()));
    }
    compare_values("input", a.input(), b.input());
    compare_values("output", a.output(), b.output());
    compare_imports();
    compare_functions();
    compare_initializers();
  }

 private:
  [[noreturn]] void differ(const onnx::NodeProto* node, const std::string& what) const {
    Location at{.file = other_.path};
    if (node) at = location_of(other_.path, *node);
    user_error(errors::kRanksDiffer, at,
               fmt::format("the graph of rank {} differs from rank 0's: {}", rank_, what),
               "only the values of initializers may differ between ranks");
  }

  void compare_nodes(const onnx::NodeProto& a, const onnx::NodeProto& b) const {
    if (a.op_type() != b.op_type() || a.domain() != b.domain()) {
      differ(&b, fmt::format("operator {}, rank 0 has {}", b.op_type(), a.op_type()));
    }
    if (a.name() != b.name()) differ(&b, fmt::format("rank 0 names the node '{}'", a.name()));
    if (!std::equal(a.input().begin(), a.input().end(), b.input().begin(), b.input().end()))
      differ(&b, "other inputs");
    if (!std::equal(a.output().begin(), a.output().end(), b.output().begin(), b.output().end()))
      differ(&b, "other outputs");
    for (const onnx::AttributeProto& attribute : b.attribute()) {
      const onnx::AttributeProto* match = find(a, attribute.name());
      if (!match || match->SerializeAsString() != attribute.SerializeAsString()) {
        differ(&b, fmt::format("attribute '{}'", attribute.name()));
      }
    }
    for (const onnx::AttributeProto& attribute : a.attribute()) {
      if (!find(b, attribute.name())) differ(&b, fmt::format("no attribute '{}'", attribute.name()));
    }
  }

  static const onnx::AttributeProto* find(const onnx::NodeProto& node, const std::string& name) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name() == name) return &attribute;
    }
    return nullptr;
  }

  void compare_values(const char* what, const auto& a, const auto& b) const {
    for (int k = 0; k < std::min(a.size(), b.size()); ++k) {
      if (a[k].name() != b[k].name()) {
        differ({}, fmt::format("{} {} is '{}', rank 0 has '{}'", what, k, b[k].name(), a[k].name()));
      }
      if (a[k].type().SerializeAsString() != b[k].type().SerializeAsString()) {
        differ({}, fmt::format("type or shape of {} '{}'", what, b[k].name()));
      }
    }
    if (a.size() != b.size()) differ({}, fmt::format("{} {}s, rank 0 has {}", b.size(), what, a.size()));
  }

  void compare_imports() const {
    const auto versions = [](const onnx::ModelProto& model) {
      std::map<std::string, std::int64_t> result;
      for (const onnx::OperatorSetIdProto& import : model.opset_import())
        result[import.domain()] = import.version();
      return result;
    };
    if (versions(first_.proto) != versions(other_.proto)) differ({}, "imported operator sets");
  }

  void compare_functions() const {
    if (first_.proto.functions_size() != other_.proto.functions_size()) differ({}, "local functions");
    for (int k = 0; k < first_.proto.functions_size(); ++k) {
      if (first_.proto.functions(k).SerializeAsString() != other_.proto.functions(k).SerializeAsString()) {
        differ({}, fmt::format("local function '{}'", other_.proto.functions(k).name()));
      }
    }
  }

  void compare_initializers() const {
    for (const auto& [name, tensor] : other_.initializers) {
      const auto match = first_.initializers.find(name);
      if (match == first_.initializers.end())
        differ({}, fmt::format("initializer '{}', which rank 0 lacks", name));
      if (match->second.dtype != tensor.dtype || match->second.sizes != tensor.sizes) {
        differ({}, fmt::format("initializer '{}' is {}[{}], rank 0 has {}[{}]", name, to_string(tensor.dtype),
                               fmt::join(tensor.sizes, ","), to_string(match->second.dtype),
                               fmt::join(match->second.sizes, ",")));
      }
    }
    for (const auto& [name, tensor] : first_.initializers) {
      if (!other_.initializers.count(name)) differ({}, fmt::format("no initializer '{}'", name));
    }
  }

  const Model& first_;
  const Model& other_;
  int rank_;
};

bool equal_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// The name that gives every rank's file if "{rank}" is replaced, or "" if there is none.
std::string common_file(const std::vector<const Tensor*>& parts) {
  const std::string& first = parts[0]->data.file;
  if (first.empty()) return {};
  for (std::size_t at = first.rfind('0'); at != std::string::npos;
       at = at == 0 ? std::string::npos : first.rfind('0', at - 1)) {
    std::string pattern = first;
    pattern.replace(at, 1, kPlaceholder);
    bool fits = true;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      fits &= parts[rank]->data.file_offset == parts[0]->data.file_offset &&
              parts[rank]->data.file == path_of_rank(pattern, static_cast<int>(rank));
    }
    if (fits) return pattern;
  }
  return {};
}

// The data of all ranks; rank 0's alone if all are equal.
ir::ConstantData merge(const std::vector<const Tensor*>& parts) {
  bool same = true;
  for (const Tensor* part : parts) same &= equal_bytes(parts[0]->data.of_rank(0), part->data.of_rank(0));
  if (same) return parts[0]->data;
  ir::ConstantData data;
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (const Tensor* part : parts) {
    data.per_rank.push_back(part->data.of_rank(0));
    owners->push_back(part->data.owner);
  }
  data.owner = owners;
  data.file = common_file(parts);
  data.file_offset = data.file.empty() ? 0 : parts[0]->data.file_offset;
  return data;
}

}  // namespace

Model load_ranks(const std::string& path, int ranks) {
  if (path.find(kPlaceholder) == std::string::npos) return load_model(path);
  check_files(path, ranks);
  std::vector<Model> models;
  for (int rank = 0; rank < ranks; ++rank) {
    models.push_back(load_model(path_of_rank(path, rank)));
    if (rank > 0) GraphComparison(models[0], models.back(), rank).run();
  }
  std::map<std::string, Tensor> merged;
  for (const auto& [name, tensor] : models[0].initializers) {
    std::vector<const Tensor*> parts;
    for (const Model& model : models) parts.push_back(&model.initializers.at(name));
    merged[name] = {tensor.dtype, tensor.sizes, merge(parts)};
  }
  Model result = std::move(models[0]);
  result.path = path;
  result.initializers = std::move(merged);
  return result;
}

}  // namespace braid::frontend
