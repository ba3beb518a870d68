#include "frontend/emit_onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "frontend/collective_forms.h"
#include "frontend/dead_nodes.h"
#include "frontend/rank_model.h"
#include "frontend/schemas.h"
#include "frontend/sharding/annotate.h"
#include "frontend/sharding/split.h"
#include "frontend/tensor.h"

namespace braid::frontend {
namespace {

// ONNX: offsets should be multiples of the page size, so that readers can map the file.
constexpr std::int64_t kPage = 4096;
// Protobuf's limit is 2 GiB; the rest, after small weights, is for nodes.
constexpr std::int64_t kMostInlined = std::int64_t{1} << 30;
constexpr char kZeros[kPage] = {};

// A file of weights, page by page.
class DataFile {
 public:
  // Returns the offset.
  std::int64_t add(std::string_view bytes) {
    const std::int64_t gap = (kPage - size_ % kPage) % kPage;
    if (gap > 0) parts_.emplace_back(kZeros, static_cast<std::size_t>(gap));
    const std::int64_t offset = size_ + gap;
    parts_.push_back(bytes);
    size_ = offset + static_cast<std::int64_t>(bytes.size());
    return offset;
  }
  const std::vector<std::string_view>& parts() const { return parts_; }

 private:
  std::vector<std::string_view> parts_;
  std::int64_t size_ = 0;
};

// The bytes that ONNX stores: types below one byte are packed, the first element in the low bits.
std::string packed(std::string_view elements, int bits) {
  const int per_byte = 8 / bits;
  const auto count = static_cast<std::size_t>(per_byte);
  std::string bytes((elements.size() + count - 1) / count, '\0');
  for (std::size_t k = 0; k < elements.size(); ++k) {
    const auto at = static_cast<unsigned>(k % count) * static_cast<unsigned>(bits);
    const unsigned element =
        static_cast<unsigned char>(elements[k]) & ((1U << static_cast<unsigned>(bits)) - 1);
    char& byte = bytes[k / count];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | (element << at));
  }
  return bytes;
}

class Emission {
 public:
  // `ranks` 0: one file, which is no rank's.
  Emission(Model model, int ranks, const EmitOnnxOptions& options, const WriteParts& write)
      : model_(std::move(model)), ranks_(ranks), options_(options), write_(write) {}

  void run() {
    drop_unread();
    place_weights();
    DataFile shared;
    write_data(shared_, 0, shared, options_.name + ".weights");
    for (int rank = 0; rank < std::max(ranks_, 1); ++rank) write_rank(rank);
  }

 private:
  struct Weight {
    std::string name;
    const Tensor* tensor;
    bool external = false;
    std::int64_t offset = 0;  // in its file
  };

  void drop_unread() {
    std::set<std::string> read;
    collect_names(model_.proto.graph(), read);
    std::erase_if(model_.initializers, [&](const auto& entry) { return read.count(entry.first) == 0; });
  }

  static void collect_names(const onnx::GraphProto& graph, std::set<std::string>& read) {
    for (const onnx::ValueInfoProto& output : graph.output()) read.insert(output.name());
    for (const onnx::NodeProto& node : graph.node()) {
      read.insert(node.input().begin(), node.input().end());
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) collect_names(attribute.g(), read);
      }
    }
  }

  // Sizes are those of all ranks, so each rank's file has the same weights in the same places.
  void place_weights() {
    std::int64_t inlined = 0;
    for (const auto& [name, tensor] : model_.initializers) {
      const auto bytes = static_cast<std::int64_t>(tensor.data.of_rank(0).size());
      Weight weight{name, &tensor};
      weight.external = bytes >= options_.external_bytes || inlined + bytes > kMostInlined;
      if (!weight.external) inlined += bytes;
      const bool same = tensor.data.same_on_all_ranks();
      (same && weight.external ? shared_ : own_).push_back(std::move(weight));
    }
  }

  // The elements as ONNX stores them.
  std::string_view stored(const Tensor& tensor, int rank,
                          std::vector<std::unique_ptr<std::string>>& buffers) {
    const std::span<const std::byte> bytes = tensor.data.of_rank(rank);
    const std::string_view elements(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!is_storage(tensor.dtype) || ir::bits_of(tensor.dtype) == 8) return elements;
    return *buffers.emplace_back(std::make_unique<std::string>(packed(elements, ir::bits_of(tensor.dtype))));
  }

  void write_data(std::vector<Weight>& weights, int rank, DataFile& file, const std::string& name) {
    std::vector<std::unique_ptr<std::string>> buffers;
    for (Weight& weight : weights) {
      if (weight.external) weight.offset = file.add(stored(*weight.tensor, rank, buffers));
    }
    if (!file.parts().empty()) write_(name, file.parts());
  }

  void write_rank(int rank) {
    const std::string stem = ranks_ == 0 ? options_.name : fmt::format("{}.rank{}", options_.name, rank);
    DataFile data;
    write_data(own_, rank, data, stem + ".weights");
    onnx::ModelProto proto = model_.proto;
    onnx::GraphProto& graph = *proto.mutable_graph();
    for (const auto& [weights, file] :
         {std::pair(&shared_, options_.name + ".weights"), std::pair(&own_, stem + ".weights")}) {
      for (const Weight& weight : *weights) add(graph, weight, rank, file);
    }
    std::string bytes;
    ir::internal_check(proto.SerializeToString(&bytes), "rank {}: the model exceeds protobuf's limit", rank);
    const std::string_view part = bytes;
    write_(stem + ".onnx", {&part, 1});
  }

  void add(onnx::GraphProto& graph, const Weight& weight, int rank, const std::string& file) {
    const Tensor& tensor = *weight.tensor;
    onnx::TensorProto& proto = *graph.add_initializer();
    proto.set_name(weight.name);
    proto.set_data_type(onnx_type_of(tensor.dtype));
    for (const std::int64_t size : tensor.sizes) proto.add_dims(size);
    std::vector<std::unique_ptr<std::string>> buffers;
    const std::string_view bytes = stored(tensor, rank, buffers);
    if (!weight.external) {
      proto.set_raw_data(bytes.data(), bytes.size());
      return;
    }
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto entry = [&](const char* key, const std::string& value) {
      onnx::StringStringEntryProto& e = *proto.add_external_data();
      e.set_key(key);
      e.set_value(value);
    };
    entry("location", file);
    entry("offset", std::to_string(weight.offset));
    entry("length", std::to_string(bytes.size()));
  }

  Model model_;
  int ranks_;
  const EmitOnnxOptions& options_;
  const WriteParts& write_;
  std::vector<Weight> shared_, own_;  // shared_: in one file for all ranks; own_: in a file of each rank
};

}  // namespace

namespace {

// Weights are initializers only. The plain model's declarations are not true of parts of values.
void undeclare(Model& model) {
  onnx::GraphProto& graph = *model.proto.mutable_graph();
  graph.clear_value_info();
  auto& inputs = *graph.mutable_input();
  const auto is_weight = [&](const onnx::ValueInfoProto& input) {
    return model.initializers.count(input.name()) > 0;
  };
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(), is_weight), inputs.end());
  // Initializers that are no inputs came with version 4.
  model.proto.set_ir_version(std::max<std::int64_t>(model.proto.ir_version(), 4));
}

// Annotations that have been obeyed, or belong to another number of ranks.
void clear_annotations(Model& model) {
  model.proto.clear_configuration();
  for (onnx::NodeProto& node : *model.proto.mutable_graph()->mutable_node())
    node.clear_device_configurations();
}

// Coordinates become nodes that take a row of a table, which is the same on all ranks.
void write_coordinates(Model& model, int ranks) {
  onnx::GraphProto& graph = *model.proto.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  nodes.Swap(graph.mutable_node());
  for (const std::string& name : model.coordinates) {
    const auto found = model.initializers.find(name);
    if (found == model.initializers.end() || found->second.data.same_on_all_ranks()) continue;
    const Tensor& row = found->second;
    std::vector<std::byte> bytes;
    for (int r = 0; r < ranks; ++r) {
      const std::span<const std::byte> own = row.data.of_rank(r);
      bytes.insert(bytes.end(), own.begin(), own.end());
    }
    std::vector<std::int64_t> sizes = row.sizes;
    sizes.insert(sizes.begin(), ranks);
    std::string table = name + "/of_ranks";
    while (model.initializers.count(table) > 0) table += "_";
    onnx::NodeProto& node = *graph.add_node();
    node.set_name(name);
    node.set_domain(kBraidDomain);
    node.set_op_type("OfRank");
    node.add_input(table);
    node.add_output(name);
    model.initializers.emplace(table, Tensor{row.dtype, std::move(sizes), ir::own_bytes(std::move(bytes))});
    model.initializers.erase(name);
  }
  for (onnx::NodeProto& node : nodes) *graph.add_node() = std::move(node);
}

}  // namespace

void emit_onnx(const std::string& path, const ImportOptions& options, const EmitOnnxOptions& emit,
               const WriteParts& write) {
  RankModel rank = rank_model(path, options);
  // ONNX Runtime's collectives have few types.
  const ElementTypes types = emit.form == CollectiveForm::microsoft ? element_types(rank) : ElementTypes();
  Model& model = rank.model;
  drop_dead_nodes(model, rank.opsets);  // e.g. shapes of values that are cut, whose readers have parts now
  rewrite_collectives(model, rank.opsets, types, options.ranks, emit.form);
  undeclare(model);
  clear_annotations(model);
  if (emit.form == CollectiveForm::braid) write_coordinates(model, options.ranks);
  Emission(std::move(model), options.ranks, emit, write).run();
}

void emit_annotated(const std::string& path, const ImportOptions& options, const EmitOnnxOptions& emit,
                    const WriteParts& write) {
  Model annotated;
  auto request = std::make_shared<sharding::SplitRequest>(*options.split);
  request->resolved = [&](const Model& plain, const split::Graph& graph, const split::MeshPlan& plan) {
    annotated = plain;
    sharding::annotate(annotated, graph, plan);
  };
  ImportOptions own = options;
  own.split = request;
  rank_model(path, own);
  undeclare(annotated);
  Emission(std::move(annotated), 0, emit, write).run();
}

}  // namespace braid::frontend
