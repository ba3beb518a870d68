// A plain model as the splitter sees it: values with sizes, types and constants, nodes with the values that they read and
// compute. Nodes and values are those of the model's own graph; dead ones are left out.
//
// Shape code, the integers that determine sizes, is known here as expressions: it stays as it is, on every rank, with the
// sizes of the whole tensors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/lower_graph.h"
#include "frontend/sharding/spec.h"
#include "frontend/work.h"

namespace braid::frontend::sharding {

struct Factors;
struct Rule;

struct GraphUse {
  int node = -1;  // -1: a graph output
  int input = 0;  // of the node; of a graph output: its index
};

struct GraphValue {
  std::string name;
  ir::DType dtype = ir::DType::f32;
  std::vector<ir::Expr> sizes;
  std::optional<Tensor> constant;    // bytes known at compile time
  std::optional<Elements> elements;  // integers known at compile time, possibly as expressions
  int producer = -1;                 // node; -1: a graph input or an initializer
  bool graph_input = false;
  std::vector<GraphUse> readers;
  // Must be whole on every rank and is never converted: shape code, sequences, what the body of an If, Loop or Scan reads.
  bool pinned = false;
  // Consists of elements of constants only, such as a transposed table of embeddings: programs have it in that form, and do nothing for
  // it.
  bool moved_constant = false;
  // Values of one kind differ only in names, bytes and what they are connected to.
  int kind = -1;

  int rank() const { return static_cast<int>(sizes.size()); }
  // Values that a reader may have in any state without a conversion: the compiler cuts their bytes.
  bool is_constant() const { return constant.has_value() && !pinned; }
};

struct GraphNode {
  const onnx::NodeProto* proto = nullptr;
  std::string domain;                // "" is ONNX's own
  int version = 1;                   // of the domain's operator set
  std::vector<int> inputs, outputs;  // values; -1: absent
  const Rule* rule = nullptr;        // nullptr: none, the node is replicated
  Work work;                         // of the operator's row
  // Computes shape code or constants only: no variable of a search, costs nothing.
  bool compile_time = false;
  // Nodes of one kind differ only in names, and in values of one kind: those of equal layers.
  int kind = -1;
};

// By value and dimension: lists of blocks that splits or joins of the graph suggest (beside one block).
using BlockCandidates = std::map<std::pair<int, int>, std::set<Blocks>>;

struct Graph {
  std::vector<GraphValue> values;
  std::vector<GraphNode> nodes;      // live ones, in the order in which they are in the model
  std::vector<int> inputs, outputs;  // values, in the model's order
  int onnx_version = 1;              // of ONNX's own operator set
  int value_kinds = 0;

  int find(const std::string& name) const;  // -1: none
  std::unordered_map<std::string, int> index;
  // What block_candidates has found (rules.h), by ranks, and the factors of all nodes: every mesh asks again. The graph is not changed once
  // it is asked.
  mutable std::map<int, std::shared_ptr<const BlockCandidates>> known_candidates;
  mutable std::shared_ptr<const std::vector<Factors>> known_factors;
};

// `facts` must be those of the same model. The graph points into the model and has expressions of the schedule from which the
// facts are.
Graph make_graph(const Model& model, const Opsets& opsets, const GraphFacts& facts);

// Finds kinds and moved constants, as make_graph does: again after a graph was changed.
void find_kinds(Graph& graph);

// A size that is the same in every run; nullopt if it depends on a dimension.
std::optional<std::int64_t> static_size(const ir::Expr& size);

}  // namespace braid::frontend::sharding
