// The rows of all operators (frontend/op_registry.h): their columns are what a split does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "frontend/op_registry.h"
#include "split/found_plan.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/frontend/sharding/work_cases.h"

namespace braid::frontend::sharding {
namespace {

std::string row_name(const std::string& domain, const std::string& name) {
  return domain.empty() ? name : domain + "." + name;
}

// A row that lacks a column does not compile.
template <class... Columns>
concept Row = requires(Columns... columns) {
  OpSpec{"", "Relu", 1, kNewestOpset, kFloats, columns...};
};
static_assert(Row<LowerFn, Work, Rule, State, SizeRule>);
static_assert(!Row<LowerFn, Work, Rule, State>);
static_assert(!Row<LowerFn, Work, Rule, SizeRule>);
static_assert(!Row<LowerFn, Work, State, SizeRule>);
static_assert(!Row<LowerFn, Rule, State, SizeRule>);
static_assert(!Row<Work, Rule, State, SizeRule>);

TEST(Rows, HaveEveryColumn) {
  for (const OpSpec& op : all_ops()) {
    SCOPED_TRACE(row_name(op.domain, op.name));
    EXPECT_NE(op.lower, nullptr);
    EXPECT_LE(op.work.kind, WorkKind::collective);
    EXPECT_TRUE(op.rule.factors != nullptr || op.rule.reason[0] != 0);
    EXPECT_TRUE(op.rule.factors != nullptr || (op.rule.rewrite == nullptr && op.rule.inner == nullptr));
    for (const Carried& carried : op.state.carried) EXPECT_GE(carried.input, -1);
    // Only ONNX's own operators are in the arithmetic of sizes.
    EXPECT_TRUE(op.domain.empty() || (op.sizes.values == nullptr && op.sizes.fractions == nullptr));
    EXPECT_EQ(op.work.kind == WorkKind::sizes,
              op.sizes.values != nullptr && !op.sizes.needs_values && op.sizes.fractions == nullptr);
  }
}

// Operators without letters that work_cases() leaves out because they cost nothing.
std::vector<WorkCase> other_cases() {
  return {
      {"If",
       "g (bool c, float[8, 4] x) => (float[8, 4] y) { y = If (c) <then_branch = a () => (float[8, 4] u) { u "
       "= Neg(x) }, else_branch = b () => (float[8, 4] v) { v = Abs(x) }> }"},
      {"SequenceConstruct",
       "g (float[8, 4] x) => (float[8, 4] y) { s = SequenceConstruct(x, x) i = Constant <value = int64 {0}> "
       "() y = SequenceAt(s, i) }"},
      {"ConcatFromSequence",
       "g (float[8, 4] x) => (float[8, 4] y) { s = SplitToSequence <axis = 0> (x) y = ConcatFromSequence "
       "<axis = 0> (s) }"},
  };
}

TEST(Rows, OperatorsWithoutLettersAreWholeForTheirReason) {
  std::vector<WorkCase> cases = work_cases();
  for (WorkCase& c : other_cases()) cases.push_back(std::move(c));
  std::set<std::string> seen;
  for (const WorkCase& c : cases) {
    SCOPED_TRACE(c.graph);
    const TemporaryFolder folder;
    ImportOptions options;
    if (c.graph.find("[n") != std::string::npos) options.dims["n"] = {1, 4096};
    PlainModel(folder.write("model.onnx", model_of(c)), options).with_graph([&](const Graph& graph) {
      const SplitCosts costs = test_costs();
      FoundPlan found;
      describe(graph, choose_split(SplitSpace(graph, Mesh::line(2)), costs), costs, found);
      for (const GraphNode& node : graph.nodes) {
        const OpSpec& row = *find_op(node.domain, node.op, node.version);
        EXPECT_EQ(node.has_letters, row.rule.factors != nullptr);
        if (node.has_letters || node.compile_time) continue;
        seen.insert(row_name(node.domain, node.op));
        EXPECT_EQ(strategies(graph, node, 2, block_candidates(graph, 2)).size(), 1u) << node.op;
        EXPECT_THAT(found.replicated,
                    testing::Contains(
                        testing::AllOf(testing::Field(&PlanReplicated::op, node.op),
                                       testing::Field(&PlanReplicated::reason, std::string(row.rule.reason)),
                                       testing::Field(&PlanReplicated::ruled, false))));
      }
    });
  }
  // A model that communicates is not split, and other operators cost nothing.
  for (const OpSpec& op : all_ops()) {
    const std::string name = row_name(op.domain, op.name);
    if (op.rule.factors == nullptr && !is_free(op.work.kind) && op.domain != "ai.braid" &&
        op.work.kind != WorkKind::collective) {
      EXPECT_TRUE(seen.contains(name)) << name;
    }
  }
  for (const char* name : {"If", "SequenceConstruct", "SequenceAt", "SplitToSequence"})
    EXPECT_TRUE(seen.contains(name)) << name;
}

// A new operator of a plug-in: examples/plugin/row_sort_test.cc.
TEST(Rows, KeepColumnsThatAPlugInDoesNotGive) {
  const OpSpec relu = *find_op("", "Relu", 18);
  const LoweredOp replaced = {"",         "Relu",     relu.first_version, relu.last_version,
                              relu.types, relu.lower, relu.work};
  const RegisterOp again{replaced};
  EXPECT_EQ(find_op("", "Relu", 18)->rule.factors, relu.rule.factors);
}

}  // namespace
}  // namespace braid::frontend::sharding
