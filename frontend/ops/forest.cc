#include "frontend/ops/forest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr const char* kExportAgain = "train or convert the model again";

[[noreturn]] void malformed(OpContext& c, const std::string& what) {
  c.fail(errors::kInvalidTree, what, kExportAgain);
}

std::vector<std::int64_t> ints(OpContext& c, const std::string& name) {
  return c.ints_attribute(name.c_str()).value_or(std::vector<std::int64_t>());
}

void require_length(OpContext& c, const std::string& name, std::size_t length, std::size_t expected) {
  if (length != expected)
    malformed(c, fmt::format("attribute '{}' has {} elements, expected {}", name, length, expected));
}

void check_targets(OpContext& c, std::int64_t targets) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (targets < 1) malformed(c, fmt::format("the ensemble has {} targets or classes", targets));
  if (targets > kMost)
    c.fail(errors::kUnsupportedForm,
           fmt::format("the ensemble has {} targets, more than {}", targets, kMost));
}

void check_target(OpContext& c, std::int64_t target, std::int64_t targets) {
  if (target < 0 || target >= targets)
    malformed(c, fmt::format("a leaf has a weight for target {}, but there are {}", target, targets));
}

// Thresholds that are compared. Infinite ones are fine.
void check_test(OpContext& c, const ForestNode& node) {
  if (std::isnan(node.test->threshold)) malformed(c, fmt::format("the threshold of {} is NaN", node.name));
  if (node.test->feature < 0) malformed(c, fmt::format("{} reads feature {}", node.name, node.test->feature));
}

DType real_type(OpContext& c, std::initializer_list<const char*> tensors) {
  if (c.dtype(0) == DType::f64) return DType::f64;
  for (const char* name : tensors) {
    const std::optional<Tensor> tensor = c.tensor_attribute(name);
    if (tensor && tensor->dtype == DType::f64) return DType::f64;
  }
  return DType::f32;
}

// The real numbers of an attribute that is a tensor.
std::vector<double> tensor_numbers(OpContext& c, const std::string& name) {
  std::vector<double> values;
  const std::optional<Tensor> tensor = c.tensor_attribute(name.c_str());
  if (!tensor) return values;
  if (!is_float(tensor->dtype))
    malformed(c, fmt::format("attribute '{}' is no tensor of real numbers", name));
  for (std::int64_t k = 0; k < tensor->count(); ++k) values.push_back(float_at(*tensor, k));
  return values;
}

// ---- nodes that are named by tree and number

class IdReader {
 public:
  IdReader(OpContext& c, std::string weights) : c_(c), weights_(std::move(weights)) {
    trees_ = ints(c, "nodes_treeids");
    ids_ = column("nodes_nodeids");
    features_ = column("nodes_featureids");
    on_true_ = column("nodes_truenodeids");
    on_false_ = column("nodes_falsenodeids");
    missing_ = ints(c, "nodes_missing_value_tracks_true");
    if (!missing_.empty())
      require_length(c, "nodes_missing_value_tracks_true", missing_.size(), trees_.size());
    modes_ = c.strings_attribute("nodes_modes").value_or(std::vector<std::string>());
    require_length(c, "nodes_modes", modes_.size(), trees_.size());
    thresholds_ = real_attribute(c, "nodes_values");
    require_length(c, "nodes_values", thresholds_.size(), trees_.size());
  }

  void read(Forest& forest) {
    if (trees_.empty()) malformed(c_, "the ensemble has no nodes");
    for (std::size_t k = 0; k < trees_.size(); ++k) {
      forest.nodes.push_back(node(k));
      const bool first = k == 0 || trees_[k] != trees_[k - 1];
      if (first && !seen_.insert(trees_[k]).second)
        malformed(c_, fmt::format("the nodes of tree {} do not stand together", trees_[k]));
      if (first) forest.roots.push_back(k);
      if (!at_.emplace(std::pair(trees_[k], ids_[k]), k).second)
        malformed(c_, fmt::format("there are two {}", forest.nodes.back().name));
    }
    for (std::size_t k = 0; k < trees_.size(); ++k) {
      if (!forest.nodes[k].test) continue;
      forest.nodes[k].on_true = child(forest.nodes[k], k, on_true_[k]);
      forest.nodes[k].on_false = child(forest.nodes[k], k, on_false_[k]);
    }
    read_weights(forest);
  }

 private:
  std::vector<std::int64_t> column(const char* name) {
    std::vector<std::int64_t> values = ints(c_, name);
    require_length(c_, name, values.size(), trees_.size());
    return values;
  }

  ForestNode node(std::size_t k) {
    static const std::map<std::string, TestKind> kinds = {
        {"BRANCH_LEQ", TestKind::leq}, {"BRANCH_LT", TestKind::lt}, {"BRANCH_GTE", TestKind::gte},
        {"BRANCH_GT", TestKind::gt},   {"BRANCH_EQ", TestKind::eq}, {"BRANCH_NEQ", TestKind::neq}};
    ForestNode node{fmt::format("node {} of tree {}", ids_[k], trees_[k]), {}, 0, 0, {}};
    if (modes_[k] == "LEAF") return node;
    const auto kind = kinds.find(modes_[k]);
    if (kind == kinds.end()) malformed(c_, fmt::format("{} has the mode '{}'", node.name, modes_[k]));
    node.test =
        NodeTest{kind->second, features_[k], thresholds_[k], {}, !missing_.empty() && missing_[k] != 0};
    check_test(c_, node);
    return node;
  }

  std::size_t child(const ForestNode& parent, std::size_t k, std::int64_t id) {
    const auto found = at_.find({trees_[k], id});
    if (found == at_.end())
      malformed(c_, fmt::format("{} has the child {}, which the tree lacks", parent.name, id));
    return found->second;
  }

  // Weights of nodes that are no leaves are never reached.
  void read_weights(Forest& forest) {
    const std::vector<std::int64_t> targets = ints(c_, weights_ + "_ids"),
                                    ids = ints(c_, weights_ + "_nodeids"),
                                    trees = ints(c_, weights_ + "_treeids");
    const std::vector<double> weights = real_attribute(c_, weights_ + "_weights");
    require_length(c_, weights_ + "_nodeids", ids.size(), targets.size());
    require_length(c_, weights_ + "_treeids", trees.size(), targets.size());
    require_length(c_, weights_ + "_weights", weights.size(), targets.size());
    for (std::size_t k = 0; k < targets.size(); ++k) {
      const auto found = at_.find({trees[k], ids[k]});
      if (found == at_.end())
        malformed(c_,
                  fmt::format("a weight is for node {} of tree {}, which does not exist", ids[k], trees[k]));
      check_target(c_, targets[k], forest.targets);
      forest.nodes[found->second].weights.push_back({targets[k], weights[k]});
    }
  }

  OpContext& c_;
  std::string weights_;
  std::vector<std::int64_t> trees_, ids_, features_, on_true_, on_false_, missing_;
  std::vector<std::string> modes_;
  std::vector<double> thresholds_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> at_;
  std::set<std::int64_t> seen_;
};

// ---- nodes and leaves that are named by position

class PositionReader {
 public:
  explicit PositionReader(OpContext& c) : c_(c) {
    features_ = ints(c, "nodes_featureids");
    modes_ = integers("nodes_modes");
    require_length(c, "nodes_modes", modes_.size(), features_.size());
    splits_ = tensor_numbers(c, "nodes_splits");
    require_length(c, "nodes_splits", splits_.size(), features_.size());
    missing_ = ints(c, "nodes_missing_value_tracks_true");
    if (!missing_.empty())
      require_length(c, "nodes_missing_value_tracks_true", missing_.size(), features_.size());
    targets_ = ints(c, "leaf_targetids");
    weights_ = tensor_numbers(c, "leaf_weights");
    require_length(c, "leaf_weights", weights_.size(), targets_.size());
    members_ = tensor_numbers(c, "membership_values");
  }

  // Leaves come after the other nodes.
  void read(Forest& forest) {
    for (std::size_t k = 0; k < features_.size(); ++k) forest.nodes.push_back(node(k));
    for (std::size_t k = 0; k < targets_.size(); ++k) {
      check_target(c_, targets_[k], forest.targets);
      forest.nodes.push_back({fmt::format("leaf {}", k), {}, 0, 0, {{targets_[k], weights_[k]}}});
    }
    read_children(forest, "nodes_truenodeids", "nodes_trueleafs", &ForestNode::on_true);
    read_children(forest, "nodes_falsenodeids", "nodes_falseleafs", &ForestNode::on_false);
    for (const std::int64_t root : ints(c_, "tree_roots"))
      forest.roots.push_back(place("tree_roots", root, false));
    if (forest.roots.empty()) malformed(c_, "the ensemble has no trees");
  }

 private:
  std::vector<std::int64_t> integers(const char* name) {
    std::vector<std::int64_t> values;
    const std::optional<Tensor> tensor = c_.tensor_attribute(name);
    if (!tensor) return values;
    if (is_float(tensor->dtype)) malformed(c_, fmt::format("attribute '{}' is no tensor of integers", name));
    for (std::int64_t k = 0; k < tensor->count(); ++k) values.push_back(integer_at(*tensor, k));
    return values;
  }

  ForestNode node(std::size_t k) {
    ForestNode node{fmt::format("node {}", k), {}, 0, 0, {}};
    if (modes_[k] < 0 || modes_[k] > static_cast<std::int64_t>(TestKind::member))
      malformed(c_, fmt::format("{} has the mode {}, expected 0 to 6", node.name, modes_[k]));
    node.test = NodeTest{static_cast<TestKind>(modes_[k]),
                         features_[k],
                         splits_[k],
                         {},
                         !missing_.empty() && missing_[k] != 0};
    if (node.test->kind == TestKind::member) {
      node.test->threshold = 0;
      node.test->members = next_members();
    }
    check_test(c_, node);
    return node;
  }

  // The members of one node, which a NaN ends.
  std::vector<double> next_members() {
    if (next_ >= members_.size())
      malformed(c_, "attribute 'membership_values' has fewer sets than there are nodes with one");
    std::vector<double> set;
    for (; next_ < members_.size() && !std::isnan(members_[next_]); ++next_) set.push_back(members_[next_]);
    ++next_;
    return set;
  }

  void read_children(Forest& forest, const char* ids_name, const char* leafs_name,
                     std::size_t ForestNode::*child) {
    const std::vector<std::int64_t> ids = ints(c_, ids_name), leafs = ints(c_, leafs_name);
    require_length(c_, ids_name, ids.size(), features_.size());
    require_length(c_, leafs_name, leafs.size(), features_.size());
    for (std::size_t k = 0; k < ids.size(); ++k)
      forest.nodes[k].*child = place(ids_name, ids[k], leafs[k] != 0);
  }

  std::size_t place(const char* what, std::int64_t id, bool leaf) {
    const std::size_t first = leaf ? features_.size() : 0, count = leaf ? targets_.size() : features_.size();
    if (id < 0 || id >= static_cast<std::int64_t>(count))
      malformed(c_, fmt::format("attribute '{}' names {} {}, but there are {}", what, leaf ? "leaf" : "node",
                                id, count));
    return first + static_cast<std::size_t>(id);
  }

  OpContext& c_;
  std::vector<std::int64_t> features_, modes_, missing_, targets_;
  std::vector<double> splits_, weights_, members_;
  std::size_t next_ = 0;
};

}  // namespace

std::int64_t Forest::features() const {
  std::int64_t count = 0;
  for (const ForestNode& node : nodes) {
    if (node.test) count = std::max(count, node.test->feature + 1);
  }
  return count;
}

std::vector<double> real_attribute(OpContext& c, const std::string& name) {
  const std::vector<float> floats = c.floats_attribute(name.c_str()).value_or(std::vector<float>());
  if (!floats.empty()) return {floats.begin(), floats.end()};
  return tensor_numbers(c, name + "_as_tensor");
}

Forest forest_of_ids(OpContext& c, const std::string& weights, std::int64_t targets) {
  Forest forest;
  forest.targets = targets;
  check_targets(c, targets);
  const std::string tensor = weights + "_weights_as_tensor";
  forest.real = real_type(c, {"nodes_values_as_tensor", tensor.c_str()});
  IdReader(c, weights).read(forest);
  return forest;
}

Forest forest_of_positions(OpContext& c) {
  Forest forest;
  forest.targets = c.int_attribute("n_targets", 0);
  check_targets(c, forest.targets);
  forest.real = real_type(c, {"nodes_splits", "leaf_weights"});
  PositionReader(c).read(forest);
  return forest;
}

// Depth-first search without recursion: trees may be chains.
std::vector<std::size_t> reached_nodes(OpContext& c, const Forest& forest) {
  enum class Mark : std::uint8_t { none, open, done };
  std::vector<Mark> marks(forest.nodes.size(), Mark::none);
  std::vector<std::size_t> finished;
  for (auto root = forest.roots.rbegin(); root != forest.roots.rend(); ++root) {
    if (marks[*root] != Mark::none) continue;
    std::vector<std::pair<std::size_t, int>> path{{*root, 0}};  // node, next child
    marks[*root] = Mark::open;
    while (!path.empty()) {
      auto& [at, next] = path.back();
      const ForestNode& node = forest.nodes[at];
      if (!node.test || next == 2) {
        marks[at] = Mark::done;
        finished.push_back(at);
        path.pop_back();
        continue;
      }
      const std::size_t child = next++ == 0 ? node.on_false : node.on_true;
      if (marks[child] == Mark::open)
        malformed(c, fmt::format("the tree has a cycle through {}", forest.nodes[child].name));
      if (marks[child] == Mark::done) continue;
      marks[child] = Mark::open;
      path.emplace_back(child, 0);
    }
  }
  std::reverse(finished.begin(), finished.end());
  return finished;
}

}  // namespace braid::frontend
