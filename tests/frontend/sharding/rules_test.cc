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

// Operators with letters that plain models have. mesh_test.cc proves collectives of other axes differently.
std::set<std::string> ruled_operators() {
  std::set<std::string> names;
  for (const OpSpec& op : all_ops()) {
    if (op.rule.factors != nullptr && !op.rule.exchange) names.insert(name_of_operator(op.domain, op.name));
  }
  return names;
}

TEST(Rules, EveryRuleHasACombinationThatIsProved) {
  std::set<std::string> proved;
  for (const ProofCase& c : rule_cases()) proved.insert(name_of_operator(domain_of(c), c.op));
  for (const std::string& name : ruled_operators()) EXPECT_EQ(proved.count(name), 1u) << name;
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
  for (const std::string& name : ruled_operators())
    EXPECT_EQ(with_combinations.count(name), 1u) << "nothing is claimed of " << name;
  RecordProperty("combinations", combinations);
  fmt::print("{} combinations of states on {} ranks\n", combinations, ranks);
}

INSTANTIATE_TEST_SUITE_P(Ranks, RuleProof, testing::Values(2, 3, 4));

}  // namespace
}  // namespace braid::frontend::sharding
