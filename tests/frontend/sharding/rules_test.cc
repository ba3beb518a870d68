// Every rule, proved by brute force (proof.h), and wrong rules, which the proof must find.
#include "frontend/sharding/rules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "frontend/op_registry.h"
#include "frontend/schemas.h"
#include "tests/frontend/sharding/rule_cases.h"

namespace braid::frontend::sharding {
namespace {

std::string name_of_operator(const std::string& domain, const std::string& name) {
  return (domain.empty() ? std::string("ai.onnx") : domain) + "." + name;
}

std::string domain_of(const ProofCase& c) {
  return c.graph.find(" com.microsoft." + c.op) != std::string::npos ? kMicrosoftDomain : "";
}

// Collectives of other axes, which no plain model has: mesh_test.cc proves them by conversions.
bool is_of_meshes(const Rule& rule) { return std::string(rule.domain) == kBraidDomain; }

TEST(Rules, EveryOperatorHasARuleOrAReason) {
  for (const OpSpec& op : all_ops()) {
    const Rule* rule = find_rule(op.domain, op.name);
    ASSERT_NE(rule, nullptr) << name_of_operator(op.domain, op.name);
    EXPECT_TRUE(rule->factors != nullptr || rule->reason[0] != 0) << name_of_operator(op.domain, op.name);
  }
}

TEST(Rules, EveryRuleHasACombinationThatIsProved) {
  std::set<std::string> proved;
  for (const ProofCase& c : rule_cases()) proved.insert(name_of_operator(domain_of(c), c.op));
  for (const Rule* rule : all_rules()) {
    if (rule->factors != nullptr && !is_of_meshes(*rule)) {
      EXPECT_EQ(proved.count(name_of_operator(rule->domain, rule->name)), 1u) << rule->name;
    }
  }
}

class RuleProof : public testing::TestWithParam<int> {};

TEST_P(RuleProof, EveryCombinationIsRight) {
  const int ranks = GetParam();
  std::set<std::string> with_combinations;
  int combinations = 0;
  unsigned seed = 1000;
  for (const ProofCase& c : rule_cases()) {
    Proof proof;
    try {
      proof = prove(c, ranks, seed += 10);
    } catch (const std::exception& error) {
      ADD_FAILURE() << c.graph << ": " << error.what();
    }
    combinations += proof.combinations;
    if (proof.combinations > 0) with_combinations.insert(name_of_operator(domain_of(c), c.op));
    for (const std::string& wrong : proof.wrong) ADD_FAILURE() << wrong;
  }
  for (const Rule* rule : all_rules()) {
    const std::string name = name_of_operator(rule->domain, rule->name);
    if (rule->factors != nullptr && !is_of_meshes(*rule)) {
      EXPECT_EQ(with_combinations.count(name), 1u) << "nothing is claimed of " << name;
    }
  }
  RecordProperty("combinations", combinations);
  fmt::print("{} combinations of states on {} ranks\n", combinations, ranks);
}

INSTANTIATE_TEST_SUITE_P(Ranks, RuleProof, testing::Values(2, 3, 4));

}  // namespace
}  // namespace braid::frontend::sharding
