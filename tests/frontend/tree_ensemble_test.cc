// Trees of ai.onnx.ml: against a slow evaluator, and why malformed ones are refused.
// tests/frontend/reference/trees.py has aggregates, scores and types.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"
#include "tests/support/random.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The nodes of a TreeEnsembleRegressor with one target, as a test changes them.
struct Trees {
  std::vector<std::int64_t> trees, ids, features, on_true, on_false, missing;
  std::vector<float> values;
  std::vector<std::string> modes;
  std::vector<std::int64_t> target_trees, target_ids, target_nodes;
  std::vector<float> weights;
  std::int64_t targets = 1;

  void branch(std::int64_t tree, std::int64_t id, const char* mode, std::int64_t feature, float value,
              std::int64_t yes, std::int64_t no, bool missing_is_true = false) {
    add(tree, id, mode, feature, value, yes, no, missing_is_true);
  }
  void leaf(std::int64_t tree, std::int64_t id, float weight) {
    add(tree, id, "LEAF", 0, 0, 0, 0, false);
    target_trees.push_back(tree);
    target_ids.push_back(0);
    target_nodes.push_back(id);
    weights.push_back(weight);
  }

  onnx::ModelProto model(std::int64_t columns) const {
    onnx::ModelProto model = parse_model(fmt::format(
        "g (float[n, {}] x) => (float[n, {}] y) {{ y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = "
        "{}> (x) }}",
        columns, targets, targets));
    onnx::OperatorSetIdProto& import = *model.add_opset_import();
    import.set_domain("ai.onnx.ml");
    import.set_version(3);
    onnx::NodeProto& node = *model.mutable_graph()->mutable_node(0);
    const auto list = [&](const char* name,
                          onnx::AttributeProto::AttributeType type) -> onnx::AttributeProto& {
      onnx::AttributeProto& attribute = *node.add_attribute();
      attribute.set_name(name);
      attribute.set_type(type);
      return attribute;
    };
    const auto ints = [&](const char* name, const std::vector<std::int64_t>& numbers) {
      list(name, onnx::AttributeProto::INTS).mutable_ints()->Add(numbers.begin(), numbers.end());
    };
    const auto floats = [&](const char* name, const std::vector<float>& numbers) {
      list(name, onnx::AttributeProto::FLOATS).mutable_floats()->Add(numbers.begin(), numbers.end());
    };
    ints("nodes_treeids", trees);
    ints("nodes_nodeids", ids);
    ints("nodes_featureids", features);
    ints("nodes_truenodeids", on_true);
    ints("nodes_falsenodeids", on_false);
    ints("nodes_missing_value_tracks_true", missing);
    floats("nodes_values", values);
    list("nodes_modes", onnx::AttributeProto::STRINGS).mutable_strings()->Add(modes.begin(), modes.end());
    ints("target_treeids", target_trees);
    ints("target_ids", target_ids);
    ints("target_nodeids", target_nodes);
    floats("target_weights", weights);
    return model;
  }

 private:
  void add(std::int64_t tree, std::int64_t id, const char* mode, std::int64_t feature, float value,
           std::int64_t yes, std::int64_t no, bool missing_is_true) {
    trees.push_back(tree);
    ids.push_back(id);
    features.push_back(feature);
    on_true.push_back(yes);
    on_false.push_back(no);
    missing.push_back(missing_is_true ? 1 : 0);
    values.push_back(value);
    modes.emplace_back(mode);
  }
};

const ImportOptions kRows{.dims = {{"n", {0, 64}}}};

// x[0] <= 1 ? (x[1] > 2 ? 10 : 20) : 30, and a tree that is one leaf.
Trees two_trees() {
  Trees t;
  t.branch(0, 0, "BRANCH_LEQ", 0, 1, 1, 4);
  t.branch(0, 1, "BRANCH_GT", 1, 2, 2, 3, true);
  t.leaf(0, 2, 10);
  t.leaf(0, 3, 20);
  t.leaf(0, 4, 30);
  t.leaf(1, 0, 0.5F);
  return t;
}

std::vector<float> evaluated(const ir::Schedule& schedule, const std::vector<float>& x,
                             std::int64_t columns) {
  const std::vector<std::vector<ir::Tensor>> inputs = {
      {floats({static_cast<std::int64_t>(x.size()) / columns, columns}, x)}};
  return ir::run(schedule, inputs).outputs[0][0].values<float>();
}

TEST(TreeEnsemble, IsOneKernel) {
  const ir::Schedule schedule = import_proto(two_trees().model(2), kRows);
  const std::string text = ir::print(schedule);
  EXPECT_THAT(text, HasSubstr("extern \"tree_ensemble\""));
  EXPECT_EQ(ir::print(ir::parse_schedule(text)), text);
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(evaluated(schedule, {1, 2, 1, 3, 2, 0, nan, 3, 0, nan, -inf, inf, inf, 0}, 2),
              ElementsAre(20.5F, 10.5F, 30.5F, 30.5F, 10.5F, 10.5F, 30.5F));
}

// ---- random trees

struct Grown {
  Trees trees;
  std::int64_t columns = 1;
  std::mt19937_64& random;

  int below(int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); }

  // A tree of so many leaves, from the number `next` on.
  std::int64_t grow(std::int64_t tree, int leaves, std::int64_t& next) {
    const std::int64_t own = next++;
    if (leaves == 1) {
      trees.leaf(tree, own, static_cast<float>(below(100)) / 8);
      return own;
    }
    static constexpr const char* kModes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                             "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
    const std::size_t at = trees.ids.size();
    trees.branch(tree, own, kModes[below(6)], below(static_cast<int>(columns)),
                 static_cast<float>(below(9) - 4) / 2, 0, 0, below(2) == 0);
    const int left = 1 + below(leaves - 1);
    const std::int64_t yes = grow(tree, left, next), no = grow(tree, leaves - left, next);
    trees.on_true[at] = yes;
    trees.on_false[at] = no;
    return own;
  }
};

bool holds(const std::string& mode, float x, float value) {
  if (mode == "BRANCH_LEQ") return x <= value;
  if (mode == "BRANCH_LT") return x < value;
  if (mode == "BRANCH_GTE") return x >= value;
  if (mode == "BRANCH_GT") return x > value;
  return mode == "BRANCH_EQ" ? x == value : x != value;
}

float slow(const Trees& t, const float* row) {
  float sum = 0;
  for (std::size_t root = 0; root < t.trees.size(); ++root) {
    if (root > 0 && t.trees[root] == t.trees[root - 1]) continue;
    std::size_t at = root;
    while (t.modes[at] != "LEAF") {
      const float x = row[t.features[at]];
      const bool yes = holds(t.modes[at], x, t.values[at]) || (std::isnan(x) && t.missing[at] != 0);
      at = root + static_cast<std::size_t>(yes ? t.on_true[at] : t.on_false[at]);
    }
    for (std::size_t k = 0; k < t.weights.size(); ++k) {
      if (t.target_trees[k] == t.trees[at] && t.target_nodes[k] == t.ids[at]) sum += t.weights[k];
    }
  }
  return sum;
}

TEST(TreeEnsemble, RandomTreesEqualASlowEvaluator) {
  for (int k = 0; k < test::random_cases(30); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    Grown grown{{}, static_cast<std::int64_t>(1 + random() % 4), random};
    const int trees = 1 + grown.below(12);
    for (int tree = 0; tree < trees; ++tree) {
      std::int64_t next = 0;
      grown.grow(tree, 1 + grown.below(20), next);
    }
    std::vector<float> x(static_cast<std::size_t>(grown.columns * grown.below(20)));
    static constexpr float kOdd[] = {std::numeric_limits<float>::quiet_NaN(),
                                     std::numeric_limits<float>::infinity(),
                                     -std::numeric_limits<float>::infinity(),
                                     -0.0F,
                                     1e-45F,
                                     -1e-45F};
    for (float& v : x)
      v = grown.below(5) == 0 ? kOdd[grown.below(6)] : static_cast<float>(grown.below(13) - 6) / 2;
    std::vector<float> expected;
    for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(grown.columns))
      expected.push_back(slow(grown.trees, x.data() + row));
    const ir::Schedule schedule = import_proto(grown.trees.model(grown.columns), kRows);
    EXPECT_EQ(evaluated(schedule, x, grown.columns), expected);
  }
}

// LightGBM's converter writes a set as tests for equality that share their true child.
TEST(TreeEnsemble, NodesMayShareChildren) {
  Trees t;
  t.branch(0, 0, "BRANCH_EQ", 0, 1, 3, 1);
  t.branch(0, 1, "BRANCH_EQ", 0, 2, 3, 2);
  t.leaf(0, 2, 5);
  t.branch(0, 3, "BRANCH_LEQ", 1, 0, 4, 5);
  t.leaf(0, 4, 6);
  t.leaf(0, 5, 7);
  EXPECT_THAT(evaluated(import_proto(t.model(2), kRows), {1, 0, 2, 1, 3, 0}, 2), ElementsAre(6, 7, 5));
}

TEST(TreeEnsemble, NodesThatNothingReachesAreIgnored) {
  Trees t = two_trees();
  t.trees.insert(t.trees.begin() + 5, 0);
  t.ids.insert(t.ids.begin() + 5, 9);
  t.features.insert(t.features.begin() + 5, 0);
  t.on_true.insert(t.on_true.begin() + 5, 9);
  t.on_false.insert(t.on_false.begin() + 5, 2);
  t.missing.insert(t.missing.begin() + 5, 0);
  t.values.insert(t.values.begin() + 5, 0);
  t.modes.insert(t.modes.begin() + 5, "BRANCH_LEQ");
  EXPECT_THAT(evaluated(import_proto(t.model(2), kRows), {1, 2}, 2), ElementsAre(20.5F));
}

// ---- malformed ones

void expect_malformed(const Trees& trees, const char* text, int code = errors::kInvalidTree) {
  const ir::UserError error = error_of([&] { import_proto(trees.model(2), kRows); });
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(text));
}

TEST(TreeEnsemble, MalformedTreesAreRefused) {
  Trees t = two_trees();
  t.on_false[1] = 0;
  expect_malformed(t, "the tree has a cycle through node 0 of tree 0");
  t = two_trees();
  t.on_true[1] = 1;
  expect_malformed(t, "the tree has a cycle through node 1 of tree 0");
  t = two_trees();
  t.on_true[0] = 7;
  expect_malformed(t, "node 0 of tree 0 has the child 7, which the tree lacks");
  t = two_trees();
  t.values[1] = std::numeric_limits<float>::quiet_NaN();
  expect_malformed(t, "the threshold of node 1 of tree 0 is NaN");
  t = two_trees();
  t.target_ids[0] = 1;
  expect_malformed(t, "a leaf has a weight for target 1, but there are 1");
  t = two_trees();
  t.target_nodes[0] = 8;
  expect_malformed(t, "a weight is for node 8 of tree 0, which does not exist");
  t = two_trees();
  t.ids[1] = 0;
  expect_malformed(t, "there are two node 0 of tree 0");
  t = two_trees();
  t.trees.back() = 0;
  t.trees[4] = 1;
  expect_malformed(t, "the nodes of tree 0 do not stand together");
  t = two_trees();
  t.values.pop_back();
  expect_malformed(t, "attribute 'nodes_values' has 5 elements, expected 6");
  t = two_trees();
  t.weights.pop_back();
  expect_malformed(t, "attribute 'target_weights' has 3 elements, expected 4");
  t = two_trees();
  t.modes[0] = "BRANCH";
  expect_malformed(t, "node 0 of tree 0 has the mode 'BRANCH'");
  t = two_trees();
  t.features[0] = -1;
  expect_malformed(t, "node 0 of tree 0 reads feature -1");
  expect_malformed(Trees(), "the ensemble has no nodes");
}

// As ONNX Runtime's approximation has it: 0.1 lies 1.2816 standard deviations below the middle.
TEST(TreeEnsemble, ProbitIsAnInverse) {
  Trees t;
  t.leaf(0, 0, 0.1F);
  onnx::ModelProto model = t.model(1);
  onnx::AttributeProto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name("post_transform");
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s("PROBIT");
  EXPECT_NEAR(evaluated(import_proto(model, kRows), {0}, 1).at(0), -1.2817129F, 1e-5);
}

TEST(TreeEnsemble, TooManyTargetsAreRefused) {
  Trees t = two_trees();
  t.targets = std::int64_t{1} << 30;
  expect_malformed(t, "the ensemble has 1073741824 targets", errors::kUnsupportedForm);
  t.targets = 0;
  expect_malformed(t, "the ensemble has 0 targets");
}

TEST(TreeEnsemble, FeaturesMustBeInTheInput) {
  Trees t = two_trees();
  t.features[0] = 2;
  expect_malformed(t, "3", errors::kShapeMismatch);
}

}  // namespace
}  // namespace braid::frontend
