// Rules: the states of a node's outputs that follow from the states of its inputs, on one mesh axis.
//
// A rule (rule.h) describes a node by letters (split/factors.h).
//
// The replicated combination is always legal and needs no rule. Every claim is proved by brute force in
// tests/frontend/sharding.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "frontend/sharding/rule.h"
#include "frontend/sharding/split_names.h"
#include "split/graph.h"
#include "split/spec.h"

namespace onnx {
class AttributeProto;
class NodeProto;
}  // namespace onnx

namespace braid::frontend::sharding {

// A node as rules see it.
class NodeView {
 public:
  NodeView(const Graph& graph, const GraphNode& node) : graph_(graph), node_(node) {}

  const GraphNode& node() const { return node_; }
  const onnx::NodeProto& proto() const;  // as it stands in the model
  const std::string& op() const { return node_.op; }
  int version() const { return node_.version; }
  // The version of ONNX's own operator set, whose operators a local form may use.
  int onnx_version() const { return graph_.onnx_version; }
  int inputs() const { return count_of(node_.inputs); }
  int outputs() const { return count_of(node_.outputs); }
  // The places of all inputs: 0, 1, ...
  std::vector<int> all_inputs() const;
  bool has_input(int k) const { return k >= 0 && k < inputs() && node_.inputs[k].valid(); }
  // Whether it has output k, read or not.
  bool computes(int k) const { return k < outputs() && node_.outputs[k].valid(); }
  // Whether output k is read.
  bool has_output(int k) const;
  const GraphValue& input(int k) const;
  const GraphValue& output(int k) const;
  int rank(int k) const { return input(k).rank(); }
  const ir::Expr& size(int k, int dim) const { return input(k).sizes[dim]; }
  const ir::Expr& out_size(int k, int dim) const { return output(k).sizes[dim]; }

  const onnx::AttributeProto* attribute(const char* name) const;
  std::int64_t int_attribute(const char* name, std::int64_t fallback) const;
  float float_attribute(const char* name, float fallback) const;
  std::string string_attribute(const char* name, const std::string& fallback) const;
  std::optional<std::vector<std::int64_t>> ints_attribute(const char* name) const;
  // The elements of a small integer input, if all are constant.
  std::optional<std::vector<std::int64_t>> known_ints(int k) const;
  // The value of attribute `name` in old versions, of input k in new ones.
  std::optional<std::vector<std::int64_t>> ints_of(const char* name, int k) const;
  // Returns an axis of a tensor of that rank, counted from the front.
  static int axis(std::int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

 private:
  const Graph& graph_;
  const GraphNode& node_;
};

// The letters of a node by its rule.
Factors factors_of(const Graph& graph, const GraphNode& node, const Rule& rule);

// ---- helpers of the families

// Returns a letter of the size of a dimension; nullopt if the size is not static.
std::optional<Letter> letter_of(const ir::Expr& size, std::string name);
// Adds a letter, if there is one, which stands at these dimensions; the first form makes it of a size.
void add(Factors& f, const ir::Expr& size, std::string name, std::vector<Occurrence> at);
void add(Factors& f, std::optional<Letter> letter, std::vector<Occurrence> at,
         std::optional<ir::ReduceKind> reduce = std::nullopt);
// Whether both are the same constant.
bool same(const ir::Expr& a, const ir::Expr& b);
Occurrence in(int index, int dim, std::vector<std::int64_t> segments = {1});
Occurrence out(int index, int dim, std::vector<std::int64_t> segments = {1});
// Allows all letters to be split with padding.
Factors padded(Factors factors);
// Returns letters of the dimensions of output `index`, with the inputs listed aligned to its last dimension:
// a dimension of size 1 stays whole. `skip`: dimensions of the output that get no letter.
Letters broadcast_letters(const NodeView& node, const std::vector<int>& inputs,
                          const std::set<int>& skip = {}, int index = 0);
// Returns letters of inputs that are joined along an axis: those of other dimensions, and one of the axis,
// along which every piece is cut the same way.
Letters joined_letters(const NodeView& node, const std::vector<int>& inputs, int axis);
std::vector<Linear> linear_of(const NodeView& node, Pending pending);

}  // namespace braid::frontend::sharding
