// Tree ensembles of ai.onnx.ml as one value, whatever operator and version they are written with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontend/ops/common.h"

namespace braid::frontend {

enum class TestKind : std::uint8_t { leq, lt, gte, gt, eq, neq, member };

// The condition of a node: feature OP threshold, or feature in members.
struct NodeTest {
  TestKind kind = TestKind::leq;
  std::int64_t feature = 0;
  double threshold = 0;
  std::vector<double> members;
  bool missing_is_true = false;  // where a NaN goes
};

struct LeafWeight {
  std::int64_t target = 0;
  double weight = 0;
};

struct ForestNode {
  std::string name;              // for messages: "node 3 of tree 2"
  std::optional<NodeTest> test;  // absent: a leaf
  std::size_t on_true = 0, on_false = 0;
  std::vector<LeafWeight> weights;
};

// Nodes may be shared by several parents of their tree, but there are no cycles.
struct Forest {
  std::vector<ForestNode> nodes;
  std::vector<std::size_t> roots;  // in the order of the trees
  std::int64_t targets = 0;
  DType real = DType::f32;  // in which thresholds are compared and weights combined: f32 or f64

  std::int64_t features() const;  // one more than the largest index that a test reads
};

// TreeEnsembleRegressor and TreeEnsembleClassifier; `weights` is the prefix of the attributes of leaves:
// "target" or "class". Throws BR0140 if the trees are malformed.
Forest forest_of_ids(OpContext& c, const std::string& weights, std::int64_t targets);

// TreeEnsemble. Throws BR0140 if the trees are malformed.
Forest forest_of_positions(OpContext& c);

// The numbers of an attribute that may also be given as a tensor, NAME_as_tensor.
std::vector<double> real_attribute(OpContext& c, const std::string& name);

// The nodes that the roots reach, parents before their children. Throws BR0140 if there is a cycle.
std::vector<std::size_t> reached_nodes(OpContext& c, const Forest& forest);

}  // namespace braid::frontend
