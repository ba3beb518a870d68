// Faults inside a kernel are found by name, each with one finding, the same in every run; kernels that are right report
// nothing.
#include "tests/emulated/block_faults.h"

#include "tests/emulated/support.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class BlockFaultsTest : public EmulatedTest {};

TEST_F(BlockFaultsTest, EveryFaultIsFoundByNameAndNothingElse) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const BlockFault& fault : block_faults()) {
    std::vector<std::string> first;
    for (int run = 0; run < 2; ++run) {
      emulated::reset_devices();
      const char* error = run_block_fault(fault);
      const std::vector<std::string> texts = found();
      if (fault.kind == nullptr) {
        EXPECT_EQ(error, nullptr) << fault.name;
        EXPECT_THAT(texts, IsEmpty()) << fault.name;
      } else {
        EXPECT_THAT(texts, ElementsAre(AllOf(StartsWith(fault.kind), HasSubstr(fault.text),
                                             HasSubstr("[node]"), HasSubstr("rank 0"))))
            << fault.name;
      }
      if (run == 1) {
        EXPECT_EQ(texts, first) << fault.name;
      }
      first = texts;
    }
  }
}

}  // namespace
}  // namespace braid::test
