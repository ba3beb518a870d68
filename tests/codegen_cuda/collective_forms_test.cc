// Every form of every collective on 1, 2, 3, 4 and 8 ranks and on subgroups, on the emulated device.
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

class CollectiveForms : public CudaCase, public ::testing::WithParamInterface<int> {};

// Returns whether a finding is the read of a rank outside the group. Its result was never written, and its
// step copies it to an output all the same.
bool is_of_no_member(const std::string& finding, const CollectiveCase& c) {
  if (finding.rfind("uninitialized read", 0) != 0) return false;
  for (const std::vector<int>& part : c.group.parts) {
    for (int rank : part) {
      if (finding.find(" on rank " + std::to_string(rank) + " ") != std::string::npos) return false;
    }
  }
  return true;
}

TEST_P(CollectiveForms, EqualTheReference) {
  for (const CollectiveCase& c : cuda_form_cases(GetParam())) {
    for (const std::string& name : {c.name, c.name + "_as_written"}) {
      if (name != c.name && !c.in_place) continue;
      RunOptions options;
      options.steps = 2;
      options.all_inputs = c.inputs;
      const CaseResult result = run_case(name, {}, options);
      ASSERT_EQ(result.status, BRAID_OK) << name << ": " << result.message;
      expect_results(c, result.outputs, name + " on the emulated device");
      std::vector<std::string> wrong = found();
      std::erase_if(wrong, [&](const std::string& finding) { return is_of_no_member(finding, c); });
      ASSERT_THAT(wrong, ::testing::IsEmpty()) << name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveForms, ::testing::ValuesIn(kFormRanks),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace braid::test
