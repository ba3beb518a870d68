#include "frontend/ops/forest_layout.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "ir/error_numbers.h"
#include "ir/tree_layout.h"

namespace braid::frontend {
namespace {

// A test as a function of the key that is constant between cuts: `first` up to the first cut, and above each
// cut the bool beside it.
struct Steps {
  bool first = true;
  std::vector<std::pair<std::int64_t, bool>> cuts;  // ascending

  bool last() const { return cuts.empty() ? first : cuts.back().second; }
};

Steps steps_of_set(DType real, const std::vector<double>& members, bool inside) {
  std::vector<std::int64_t> keys;
  for (const double member : members) keys.push_back(ordered_key(real, member));
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  Steps steps{!inside, {}};
  for (const std::int64_t key : keys) {
    if (!steps.cuts.empty() && steps.cuts.back().first == key - 1)
      steps.cuts.pop_back();  // members next to each other
    else
      steps.cuts.emplace_back(key - 1, inside);
    steps.cuts.emplace_back(key, !inside);
  }
  return steps;
}

Steps steps_of(DType real, const NodeTest& test) {
  const std::int64_t key = ordered_key(real, test.threshold);
  switch (test.kind) {
    case TestKind::leq:
      return {true, {{key, false}}};
    case TestKind::lt:
      return {true, {{key - 1, false}}};
    case TestKind::gte:
      return {false, {{key - 1, true}}};
    case TestKind::gt:
      return {false, {{key, true}}};
    case TestKind::eq:
      return steps_of_set(real, {test.threshold}, true);
    case TestKind::neq:
      return steps_of_set(real, {test.threshold}, false);
    case TestKind::member:
      return steps_of_set(real, test.members, true);
  }
  throw ir::InternalError("a test of an unknown kind");
}

// A node with one comparison, or a leaf.
struct Plain {
  bool leaf = false;
  KeyColumn column;
  std::int64_t cut = 0;
  std::size_t left = 0, right = 0;
  std::size_t source = 0;  // of a leaf: the node of the forest
};

class Layout {
 public:
  Layout(OpContext& c, const Forest& forest, ForestAggregate aggregate, bool may_be_missing)
      : c_(c), forest_(forest), aggregate_(aggregate), may_be_missing_(may_be_missing) {}

  ForestLayout run() {
    make_plain();
    number_columns();
    place_nodes();
    make_trees();
    write_nodes();
    if (out_.weights.empty()) out_.weights.push_back(0);
    return std::move(out_);
  }

 private:
  bool wide() const { return forest_.real == DType::f64; }
  std::int64_t node_words() const { return ir::tree_node_words(wide()); }

  // ---- one comparison per node, parents before children

  void make_plain() {
    top_.assign(forest_.nodes.size(), 0);
    steps_.resize(top_.size());
    columns_of_.resize(top_.size());
    const std::vector<std::size_t> order = reached_nodes(c_, forest_);
    for (const std::size_t k : order) {
      if (forest_.nodes[k].test) prepare(k);
      top_[k] = plain_.size();
      plain_.resize(plain_.size() + std::max<std::size_t>(1, steps_[k].cuts.size()));
    }
    for (const std::size_t k : order) {
      std::size_t next = top_[k];
      if (forest_.nodes[k].test)
        write_test(k, 0, steps_[k].cuts.size(), next);
      else
        plain_[next] = {.leaf = true, .source = k};
    }
  }

  // A missing value is a key before or after all numbers. A test that has the wanted result at neither end
  // gets one more step after infinity.
  void prepare(std::size_t k) {
    const NodeTest& test = *forest_.nodes[k].test;
    Steps steps = steps_of(forest_.real, test);
    // A NaN differs from every number.
    const bool wanted = test.missing_is_true || test.kind == TestKind::neq;
    bool missing_first = false;
    if (may_be_missing_ && steps.last() != wanted) {
      missing_first = steps.first == wanted;
      if (!missing_first)
        steps.cuts.emplace_back(ordered_key(forest_.real, std::numeric_limits<double>::infinity()), wanted);
    }
    // An empty set: nothing is compared, but a node has a cut.
    if (steps.cuts.empty()) steps.cuts.emplace_back(0, steps.first);
    columns_of_[k] = {test.feature, missing_first};
    steps_[k] = std::move(steps);
  }

  std::size_t outcome(std::size_t k, std::size_t interval) const {
    const Steps& steps = steps_[k];
    const bool result = interval == 0 ? steps.first : steps.cuts[interval - 1].second;
    return top_[result ? forest_.nodes[k].on_true : forest_.nodes[k].on_false];
  }

  // Cuts [begin, end) of node k as a balanced tree, from `next` on. Returns its root.
  std::size_t write_test(std::size_t k, std::size_t begin, std::size_t end, std::size_t& next) {
    if (begin == end) return outcome(k, begin);
    const std::size_t middle = (begin + end) / 2, at = next++;
    Plain node{.column = columns_of_[k], .cut = steps_[k].cuts[middle].first};
    node.left = write_test(k, begin, middle, next);
    node.right = write_test(k, middle + 1, end, next);
    plain_[at] = node;
    return at;
  }

  void number_columns() {
    for (const Plain& node : plain_) {
      if (!node.leaf) numbers_.emplace(std::pair(node.column.missing_first, node.column.feature), 0);
    }
    for (auto& [column, number] : numbers_) {
      number = static_cast<std::int32_t>(out_.columns.size());
      out_.columns.push_back({column.second, column.first});
    }
    if (out_.columns.empty()) out_.columns.emplace_back();
  }

  // ---- places: a root, and the two children of each node side by side

  void place_nodes() {
    std::vector<bool> is_root(plain_.size(), false);
    for (const std::size_t root : forest_.roots) is_root[top_[root]] = true;
    root_.assign(plain_.size(), 0);
    children_.assign(plain_.size(), 0);
    std::int64_t next = 0;
    const auto take = [&](std::int64_t count) { return std::exchange(next, next + count * node_words()); };
    for (std::size_t p = 0; p < plain_.size(); ++p) {
      if (is_root[p]) root_[p] = take(1);
      if (!plain_[p].leaf) children_[p] = take(2);
    }
    constexpr std::int64_t kMostWords = std::numeric_limits<std::int32_t>::max();
    require_small(next, kMostWords, "words of nodes");
    out_.nodes.assign(static_cast<std::size_t>(next), 0);
  }

  void require_small(std::int64_t count, std::int64_t most, const char* what) {
    if (count > most)
      c_.fail(errors::kUnsupportedForm, fmt::format("the trees have {} {}, more than {}", count, what, most));
  }

  // ---- trees, and the weights of their leaves

  struct Range {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1;
    void add(const Range& other) {
      first = std::min(first, other.first);
      last = std::max(last, other.last);
    }
  };

  void make_trees() {
    std::vector<Range> ranges;
    for (std::size_t t = 0; t < forest_.roots.size(); ++t) ranges.push_back(own_range(t));
    // Leaves that trees share have one row of weights.
    if (shared_) {
      Range all;
      for (const Range& range : ranges) all.add(range);
      std::fill(ranges.begin(), ranges.end(), all);
    }
    const std::vector<std::int32_t> depths = all_depths();
    for (std::size_t t = 0; t < forest_.roots.size(); ++t) {
      const std::size_t root = top_[forest_.roots[t]];
      const Range& range = ranges[t];
      const bool any = range.last >= 0;
      out_.trees.insert(
          out_.trees.end(),
          {static_cast<std::int32_t>(root_[root]), static_cast<std::int32_t>(any ? range.first : 0),
           static_cast<std::int32_t>(any ? range.last - range.first + 1 : 0), depths[root]});
    }
    rows_.assign(plain_.size(), 0);
    for (std::size_t p = 0; p < plain_.size(); ++p) {
      // No row gets to the true child of a test for an empty set.
      if (plain_[p].leaf && owner_[p] != kNone)
        rows_[p] = add_weights(forest_.nodes[plain_[p].source], ranges[owner_[p]]);
    }
  }

  // The targets of the leaves of tree t.
  Range own_range(std::size_t t) {
    if (owner_.empty()) owner_.assign(plain_.size(), kNone);
    Range range;
    for (std::vector<std::size_t> open = {top_[forest_.roots[t]]}; !open.empty();) {
      const std::size_t p = open.back();
      open.pop_back();
      if (owner_[p] != kNone) {
        shared_ |= owner_[p] != t;
        continue;
      }
      owner_[p] = t;
      if (plain_[p].leaf) {
        for (const LeafWeight& w : forest_.nodes[plain_[p].source].weights) range.add({w.target, w.target});
      } else {
        open.push_back(plain_[p].left);
        open.push_back(plain_[p].right);
      }
    }
    return range;
  }

  std::vector<std::int32_t> all_depths() const {
    std::vector<std::int32_t> depths(plain_.size(), 0);
    for (std::size_t p = plain_.size(); p-- > 0;) {
      if (!plain_[p].leaf) depths[p] = 1 + std::max(depths[plain_[p].left], depths[plain_[p].right]);
    }
    return depths;
  }

  std::int32_t add_weights(const ForestNode& leaf, const Range& range) {
    const std::size_t at = out_.weights.size();
    if (range.last < 0) return 0;
    const bool least = aggregate_ == ForestAggregate::min, most = aggregate_ == ForestAggregate::max;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::size_t end = at + static_cast<std::size_t>(range.last - range.first + 1);
    constexpr std::int64_t kMostWeights = std::int64_t{1} << 28;
    require_small(static_cast<std::int64_t>(end), kMostWeights, "weights of leaves");
    // The value of a target without a weight changes nothing.
    out_.weights.resize(end, least ? kInfinity : most ? -kInfinity : 0);
    for (const LeafWeight& w : leaf.weights) {
      double& to = out_.weights[at + static_cast<std::size_t>(w.target - range.first)];
      to = least ? std::min(to, w.weight) : most ? std::max(to, w.weight) : to + w.weight;
    }
    return static_cast<std::int32_t>(at);
  }

  // ---- words

  void write_nodes() {
    for (const std::size_t root : forest_.roots) write_node(top_[root], root_[top_[root]]);
    for (std::size_t p = 0; p < plain_.size(); ++p) {
      if (plain_[p].leaf) continue;
      write_node(plain_[p].left, children_[p]);
      write_node(plain_[p].right, children_[p] + node_words());
    }
  }

  void write_node(std::size_t p, std::int64_t at) {
    const Plain& node = plain_[p];
    std::int32_t* words = out_.nodes.data() + at;
    const std::int64_t cut_words = ir::tree_cut_words(wide());
    const std::int64_t largest =
        wide() ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
    const std::int64_t cut = node.leaf ? largest : node.cut;
    std::memcpy(words, &cut, static_cast<std::size_t>(cut_words) * sizeof(*words));
    if (!node.leaf) words[cut_words] = numbers_.at({node.column.missing_first, node.column.feature});
    words[cut_words + 1] = static_cast<std::int32_t>(node.leaf ? at : children_[p]);
    words[cut_words + 2] = node.leaf ? rows_[p] : 0;
  }

  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  OpContext& c_;
  const Forest& forest_;
  ForestAggregate aggregate_;
  bool may_be_missing_;
  ForestLayout out_;
  std::vector<std::size_t> top_;  // by node of the forest: the first of its plain nodes
  std::vector<Steps> steps_;
  std::vector<KeyColumn> columns_of_;
  std::vector<Plain> plain_;
  std::map<std::pair<bool, std::int64_t>, std::int32_t> numbers_;  // of columns
  // By plain node: where a root and the children stand, the tree, the row of weights.
  std::vector<std::int64_t> root_, children_;
  std::vector<std::size_t> owner_;
  std::vector<std::int32_t> rows_;
  bool shared_ = false;
};

}  // namespace

std::int64_t ordered_key(DType real, double number) {
  if (number == 0) return 0;
  if (real == DType::f64) {
    const auto bits = std::bit_cast<std::int64_t>(number);
    return bits ^ ((bits >> 63) & std::numeric_limits<std::int64_t>::max());
  }
  const auto bits = std::bit_cast<std::int32_t>(static_cast<float>(number));
  return bits ^ ((bits >> 31) & std::numeric_limits<std::int32_t>::max());
}

ForestLayout lay_out_forest(OpContext& c, const Forest& forest, ForestAggregate aggregate,
                            bool may_be_missing) {
  return Layout(c, forest, aggregate, may_be_missing).run();
}

}  // namespace braid::frontend
