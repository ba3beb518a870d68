#include "frontend/seed_random.h"

#include <onnx/defs/schema.h>

#include <algorithm>

#include "frontend/node_row.h"

namespace braid::frontend {
namespace {

class SeedRandom {
 public:
  SeedRandom(const Opsets& opsets, std::uint64_t seed) : opsets_(opsets) {
    // The finaliser of SplitMix64, so that neighbouring seeds give unrelated values.
    std::uint64_t z = seed + 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    next_ = static_cast<std::uint32_t>(z ^ (z >> 31));
  }

  void visit(onnx::GraphProto& graph) {
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute())
        if (attribute.has_g()) visit(*attribute.mutable_g());
      if (lacks_seed(node)) add(node);
    }
  }

 private:
  // Random operators are those whose definition has the attribute.
  bool lacks_seed(const onnx::NodeProto& node) const {
    const onnx::OpSchema* schema =
        onnx::OpSchemaRegistry::Schema(node.op_type(), version_of(node, opsets_), domain_of(node));
    return schema != nullptr && schema->attributes().count("seed") > 0 &&
           std::ranges::none_of(node.attribute(), [](const auto& a) { return a.name() == "seed"; });
  }

  void add(onnx::NodeProto& node) {
    // An odd step visits all values of 24 bits, which a float holds exactly.
    next_ += 0x9e3779b1;
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name("seed");
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(next_ & 0xffffff));
  }

  const Opsets& opsets_;
  std::uint32_t next_ = 0;
};

}  // namespace

void seed_random_nodes(onnx::GraphProto& graph, const Opsets& opsets, std::int64_t seed) {
  SeedRandom(opsets, static_cast<std::uint64_t>(seed)).visit(graph);
}

}  // namespace braid::frontend
