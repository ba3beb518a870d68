// A plain model as the splitter sees it: values with sizes, types and constants, and nodes with the values
// that they read and compute. Dead ones are left out. frontend/sharding/onnx_graph.h makes it from an ONNX
// model.
//
// Shape code, the integers that determine sizes, appears here as expressions. It stays as it is, on every
// rank, with the sizes of the whole tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/known_tensor.h"
#include "split/conversion_steps.h"
#include "split/factors.h"
#include "split/ids.h"
#include "split/spec.h"
#include "split/work_kind.h"

namespace braid::split {

struct GraphUse {
  NodeId node;    // invalid: a graph output
  int input = 0;  // of the node; of a graph output: its index
};

struct GraphValue {
  std::string name;
  ir::DType dtype = ir::DType::f32;
  std::vector<ir::Expr> sizes;
  std::optional<ir::KnownTensor> constant;    // bytes known at compile time
  std::optional<ir::KnownElements> elements;  // integers known at compile time, possibly as expressions
  NodeId producer;                            // invalid: a graph input or an initializer
  bool graph_input = false;
  std::vector<GraphUse> readers;
  // Whether it must be whole on every rank and is never converted: shape code, sequences, values that the
  // body of an If, Loop or Scan reads.
  bool pinned = false;
  // Whether it consists of elements of constants only, such as a transposed table of embeddings. Programs
  // have it in that form, and compute nothing for it.
  bool moved_constant = false;
  // Values of one kind differ only in names, bytes and connections.
  ValueKindId kind;

  int rank() const { return count_of(sizes); }
  // Whether a reader may have it in any state without a conversion, because the compiler cuts its bytes.
  bool is_constant() const { return constant.has_value() && !pinned; }
};

// The facts about a node that follow from its operator and attributes.
class Operation {
 public:
  virtual ~Operation() = default;
  // For the whole node at these sizes: flops, bytes that its kernels pass to each other, and bytes of tables
  // that the compiler adds, which no plan cuts.
  virtual double flops(const Operands& operands) const = 0;
  virtual double passed_on(const Operands& operands) const = 0;
  virtual double tables(const Operands& operands) const = 0;
  // The collectives inside the local form of the node, to be priced with the node.
  virtual std::vector<ConversionStep> inner(const Graph& graph, const GraphNode& node,
                                            const Strategy& strategy, int ranks) const = 0;
  // Texts of the attributes; equal attributes have equal texts.
  virtual std::vector<std::string> attributes() const = 0;
};

// An input whose elements go on in an output, next to others or with some of them replaced, such as a past of
// keys.
struct Carried {
  int output = 0, input = 0;  // input -1: each of them
};

struct GraphNode {
  std::string name;                      // "": it has none
  std::string label;                     // by which its kernels are named
  std::string op, domain;                // of the operator; domain "" is ONNX's own
  int version = 1;                       // of the domain's operator set
  std::vector<ValueId> inputs, outputs;  // invalid: absent
  std::shared_ptr<const Operation> operation;
  WorkFacts work{WorkKind::view};
  Factors factors;           // none: the node is replicated
  bool has_letters = false;  // whether a rule gives letters to nodes of this operator
  std::string reason;        // why there are none
  std::vector<Carried> carried;
  // Whether it computes shape code or constants only: it has no variable in a search and costs nothing.
  bool compile_time = false;
  // Nodes of one kind differ only in names and connect values of the same kinds, like those of equal layers.
  NodeKindId kind;

  // The place of a value among the outputs.
  int output_of(ValueId value) const { return std::ranges::find(outputs, value) - outputs.begin(); }
};

struct Graph {
  IdVector<ValueId, GraphValue> values;
  IdVector<NodeId, GraphNode> nodes;     // without dead nodes, in the model's order
  std::vector<ValueId> inputs, outputs;  // in the model's order
  int onnx_version = 1;                  // of ONNX's own operator set
  IdRange<ValueKindId> value_kinds = first_ids<ValueKindId>(0);

  ValueId find(const std::string& name) const;  // invalid: none
  NodeId id_of(const GraphNode& node) const { return ir::id_at<NodeId>(&node - nodes.data()); }
  const GraphNode* producer_of(ValueId value) const {  // null: none
    const NodeId producer = value.valid() ? values[value].producer : NodeId{};
    return producer.valid() ? &nodes[producer] : nullptr;
  }
  std::unordered_map<std::string, ValueId> index;
  // The results of block_candidates (factors.h) by ranks, because every mesh asks for them. The graph must
  // not change after the first call.
  mutable std::map<int, std::shared_ptr<const BlockCandidates>> known_candidates;
};

// Finds kinds and moved constants. Call again after the graph was changed.
void find_kinds(Graph& graph);

// Returns a size that is the same in every run; nullopt if it depends on a dimension.
std::optional<std::int64_t> static_size(const ir::Expr& size);
// Returns why a tensor of these sizes cannot be in that state; empty if it can.
std::string fault(const GraphValue& value, const Spec& spec, int ranks);

}  // namespace braid::split
