// The extern kernel `tree_ensemble` (runtime/tree_ensemble.h).
#include "runtime/tree_ensemble.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "codegen/kernels/source_text.h"
#include "ir/extern_registry.h"
#include "ir/tree_layout.h"

namespace braid::codegen {
namespace {

using ir::DType;

static_assert(ir::tree_cut_words(false) == rt::kCutWords<std::int32_t> &&
              ir::tree_cut_words(true) == rt::kCutWords<std::int64_t>);
static_assert(ir::tree_node_words(false) == rt::kNodeWords<std::int32_t> &&
              ir::tree_node_words(true) == rt::kNodeWords<std::int64_t>);
static_assert(ir::kTreeWords == rt::kTreeWords);

std::optional<rt::TreeAggregate> aggregate_of(const ir::ExternKernel& kernel) {
  const auto found = kernel.attributes.find("aggregate");
  if (found == kernel.attributes.end()) return std::nullopt;
  const auto* text = std::get_if<std::string>(&found->second);
  if (text == nullptr) return std::nullopt;
  if (*text == "sum") return rt::TreeAggregate::sum;
  if (*text == "min") return rt::TreeAggregate::min;
  return *text == "max" ? std::optional(rt::TreeAggregate::max) : std::nullopt;
}

// The words of a constant on each rank; empty for a text without the bytes. nullopt: it is no constant.
std::optional<std::vector<std::vector<std::int32_t>>> words_of(const ir::Graph& graph,
                                                               const ir::TensorRef& ref) {
  const ir::Buffer& buffer = graph[ref.buffer];
  if (!buffer.storage.valid() || graph[buffer.storage].kind != ir::StorageKind::constant ||
      !ref.offset.is_constant(0))
    return std::nullopt;
  std::vector<std::vector<std::int32_t>> ranks;
  for (const std::span<const std::byte> bytes : graph[buffer.storage].data.per_rank) {
    ranks.emplace_back(bytes.size() / sizeof(std::int32_t));
    if (!ranks.back().empty())
      std::memcpy(ranks.back().data(), bytes.data(), ranks.back().size() * sizeof(std::int32_t));
  }
  return ranks;
}

// A check that no descent leaves the nodes, the columns or the weights.
class TreeCheck {
 public:
  TreeCheck(std::span<const std::int32_t> nodes, bool wide_keys) : nodes_(nodes), wide_(wide_keys) {}

  // Why the trees cannot be evaluated; empty if they can.
  std::string problem(std::span<const std::int32_t> trees, std::int64_t columns, std::int64_t targets,
                      std::int64_t weights) {
    if (std::ssize(nodes_) % words() != 0) return "takes whole nodes";
    if (const std::string why = check_nodes(columns); !why.empty()) return why;
    for (std::int64_t t = 0; t < std::ssize(trees); t += rt::kTreeWords) {
      if (const std::string why = check_tree(trees.subspan(static_cast<std::size_t>(t)), targets);
          !why.empty())
        return why;
    }
    return check_leaves(weights);
  }

 private:
  std::int64_t words() const { return ir::tree_node_words(wide_); }
  std::int64_t count() const { return std::ssize(nodes_) / words(); }
  // A member of a node: 0 is the column, 1 the left child, 2 the leaf.
  std::int64_t member(std::int64_t node, std::int64_t k) const {
    return nodes_[static_cast<std::size_t>(node * words() + ir::tree_cut_words(wide_) + k)];
  }
  std::int64_t cut(std::int64_t node) const {
    const std::int32_t* at = nodes_.data() + node * words();
    if (!wide_) return *at;
    std::int64_t value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  bool is_leaf(std::int64_t node) const { return member(node, 1) == node * words(); }

  // Children come after their parents, so nothing is a cycle and depths follow from the last node to the
  // first.
  std::string check_nodes(std::int64_t columns) {
    const std::int64_t largest =
        wide_ ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
    depth_.assign(static_cast<std::size_t>(count()), 0);
    for (std::int64_t n = count() - 1; n >= 0; --n) {
      if (member(n, 0) < 0 || member(n, 0) >= columns) return "takes nodes that read a column of the keys";
      if (is_leaf(n)) {
        if (cut(n) != largest) return "takes leaves with the largest cut";
        continue;
      }
      const std::int64_t left = member(n, 1) / words();
      if (member(n, 1) % words() != 0 || left <= n || left + 1 >= count())
        return "takes nodes whose children come after them";
      depth(n) = 1 + std::max(depth(left), depth(left + 1));
    }
    return {};
  }

  std::string check_tree(std::span<const std::int32_t> tree, std::int64_t targets) {
    const std::int64_t root = tree[0] / words();
    if (tree[0] < 0 || tree[0] % words() != 0 || root >= count()) return "takes trees whose root is a node";
    if (tree[1] < 0 || tree[2] < 0 || tree[1] > targets - tree[2])
      return "takes trees whose targets are those of the result";
    if (tree[3] != depth(root)) return "takes the depths of trees";
    if (width_.empty()) width_.assign(depth_.size(), 0);
    width_[static_cast<std::size_t>(root)] =
        std::max<std::int64_t>(width_[static_cast<std::size_t>(root)], tree[2]);
    return {};
  }

  std::string check_leaves(std::int64_t weights) {
    if (width_.empty()) return {};
    for (std::int64_t n = 0; n < count(); ++n) {
      const std::int64_t width = width_[static_cast<std::size_t>(n)];
      if (is_leaf(n)) {
        if (member(n, 2) < 0 || member(n, 2) > weights - width) return "takes leaves that have weights";
        continue;
      }
      for (std::int64_t child = member(n, 1) / words(), k = 0; k < 2; ++k) {
        std::int64_t& of_child = width_[static_cast<std::size_t>(child + k)];
        of_child = std::max(of_child, width);
      }
    }
    return {};
  }

  std::int64_t& depth(std::int64_t node) { return depth_[static_cast<std::size_t>(node)]; }

  std::span<const std::int32_t> nodes_;
  bool wide_;
  std::vector<std::int64_t> depth_;  // steps to the furthest leaf
  std::vector<std::int64_t> width_;  // the most weights that a tree with the node adds
};

std::string refuses_contents(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  const auto nodes = words_of(graph, kernel.reads[1]), trees = words_of(graph, kernel.reads[2]);
  if (!nodes || !trees) return "takes nodes and trees that are constants";
  const ir::Expr columns = kernel.reads[0].sizes[1], targets = kernel.writes[0].sizes[1],
                 weights = kernel.reads[3].sizes[0];
  if (!columns.is_constant() || !targets.is_constant() || !weights.is_constant())
    return "takes numbers of columns, targets and weights that are known";
  const bool wide = graph[kernel.reads[0].buffer].dtype == DType::i64;
  for (std::size_t rank = 0; rank < std::max(nodes->size(), trees->size()); ++rank) {
    if (nodes->empty() || trees->empty()) break;
    const std::string why = TreeCheck((*nodes)[std::min(rank, nodes->size() - 1)], wide)
                                .problem((*trees)[std::min(rank, trees->size() - 1)], columns.constant(),
                                         targets.constant(), weights.constant());
    if (!why.empty()) return why;
  }
  return {};
}

std::string refuses_trees(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  if (kernel.reads.size() != 4 || kernel.writes.size() != 1)
    return "takes keys, nodes, trees and weights, and makes one tensor";
  const auto type = [&](const ir::TensorRef& ref) { return graph[ref.buffer].dtype; };
  const DType keys = type(kernel.reads[0]), weights = type(kernel.reads[3]);
  if ((keys != DType::i32 && keys != DType::i64) || type(kernel.reads[1]) != DType::i32 ||
      type(kernel.reads[2]) != DType::i32)
    return "takes keys of int32 or int64 and int32 nodes and trees";
  if ((weights != DType::f32 && weights != DType::f64) || type(kernel.writes[0]) != weights)
    return "takes weights of float32 or float64 and makes a tensor of their type";
  const ir::TensorRef& y = kernel.writes[0];
  if (kernel.reads[0].sizes.size() != 2 || kernel.reads[1].sizes.size() != 1 ||
      kernel.reads[2].sizes.size() != 2 || kernel.reads[3].sizes.size() != 1 || y.sizes.size() != 2 ||
      !kernel.reads[2].sizes[1].is_constant(rt::kTreeWords) ||
      !ir::provably_equal(kernel.reads[0].sizes[0], y.sizes[0]))
    return "takes keys [rows, columns], nodes [words], trees [t, 4] and weights [w] and makes [rows, "
           "targets]";
  if (!aggregate_of(kernel)) return "needs the attribute aggregate, which is sum, min or max";
  return refuses_contents(graph, kernel);
}

// From the root to a leaf, one comparison at a time.
template <class Key, class Weight>
std::vector<Weight> evaluate(const ir::ExternCall& call, rt::TreeAggregate aggregate) {
  const auto keys = call.reads[0].values<Key>();
  const auto nodes = call.reads[1].values<std::int32_t>(), trees = call.reads[2].values<std::int32_t>();
  const auto weights = call.reads[3].values<Weight>();
  const std::int64_t rows = call.reads[0].sizes[0], columns = call.reads[0].sizes[1],
                     targets = call.writes[0].sizes[1];
  std::vector<Weight> y(static_cast<std::size_t>(rows * targets), rt::tree_identity<Weight>(aggregate));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const std::int32_t* tree = trees.data(); tree < trees.data() + trees.size();
         tree += rt::kTreeWords) {
      const auto member = [&](std::int64_t at, std::int64_t k) {
        return nodes.data()[at + rt::kCutWords<Key> + k];
      };
      std::int64_t at = tree[0];
      while (member(at, 1) != at) {
        Key cut;
        std::memcpy(&cut, nodes.data() + at, sizeof(cut));
        const bool right = keys[static_cast<std::size_t>(row * columns + member(at, 0))] > cut;
        at = member(at, 1) + (right ? rt::kNodeWords<Key> : 0);
      }
      for (std::int64_t k = 0; k < tree[2]; ++k) {
        Weight& sum = y[static_cast<std::size_t>(row * targets + tree[1] + k)];
        const Weight weight = weights[static_cast<std::size_t>(member(at, 2) + k)];
        if (aggregate == rt::TreeAggregate::sum) sum += weight;
        if (aggregate == rt::TreeAggregate::min && weight < sum) sum = weight;
        if (aggregate == rt::TreeAggregate::max && weight > sum) sum = weight;
      }
    }
  }
  return y;
}

void interpret_trees(ir::ExternCall& call) {
  const rt::TreeAggregate aggregate = *aggregate_of(*call.op.as<ir::ExternKernel>());
  const bool wide = call.reads[0].dtype == DType::i64;
  const std::vector<std::int64_t> sizes = call.writes[0].sizes;
  if (call.reads[3].dtype == DType::f64)
    call.writes[0] = ir::make_tensor(DType::f64, sizes,
                                     wide ? evaluate<std::int64_t, double>(call, aggregate)
                                          : evaluate<std::int32_t, double>(call, aggregate));
  else
    call.writes[0] = ir::make_tensor(DType::f32, sizes,
                                     wide ? evaluate<std::int64_t, float>(call, aggregate)
                                          : evaluate<std::int32_t, float>(call, aggregate));
}

// A comparison and an addition for each step of balanced trees. Asked for calls that are refused, too.
double step_flops(const ir::ExternShapes& shapes) {
  if (shapes.reads.size() != 4 || shapes.reads[0].empty() || shapes.reads[1].empty() ||
      shapes.reads[2].empty())
    return 0;
  const auto trees = static_cast<double>(std::max<std::int64_t>(shapes.reads[2][0], 1));
  const double nodes = static_cast<double>(shapes.reads[1][0]) / rt::kNodeWords<std::int32_t>;
  return 2 * static_cast<double>(shapes.reads[0][0]) * trees * std::log2(std::max(2.0, nodes / trees));
}

const ir::RegisterExternKernel kTreeKernel{{
    .symbol = "tree_ensemble",
    .interpret = interpret_trees,
    .refuses = refuses_trees,
    .kernel_class = ir::KernelClass::gather,
    .flops = step_flops,
    .sources = runtime_sources("tree_ensemble"),
}};

}  // namespace
}  // namespace braid::codegen
