// Faults of host code, each in a program of its own, are found by name; programs that are right report
// nothing.
#include "tests/emulated/program_faults.h"

#include <algorithm>

#include "tests/emulated/block_faults.h"
#include "tests/emulated/support.h"
#include "tests/emulated/two_streams.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class ProgramFaultsTest : public EmulatedTest {};

TEST_F(ProgramFaultsTest, EveryFaultIsFoundByNameWhateverTheTiming) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  emulated::options().time_out = std::chrono::milliseconds(300);
  for (const ProgramFault& fault : program_faults()) {
    SCOPED_TRACE(fault.name);
    for (const int delay : {0, 200}) {
      emulated::reset_devices();
      emulated::options().max_delay = std::chrono::microseconds(delay);
      char id[128];
      ASSERT_EQ(two_streams_id(id), nullptr);
      const auto errors = run_ranks(fault.ranks, [&](int rank) {
        return fault.run({rank, fault.ranks, id});
      });
      const std::vector<std::string> texts = found();
      if (fault.kind == nullptr) {
        EXPECT_THAT(errors, Each(IsEmpty()));
        EXPECT_THAT(texts, IsEmpty());
      } else {
        EXPECT_THAT(texts,
                    Contains(AllOf(StartsWith(std::string(fault.kind) + ": "), HasSubstr(fault.text))));
      }
    }
  }
}

// The figure that issue 38 asks for: planted faults over all classes, each with the words of its finding.
TEST_F(ProgramFaultsTest, ThereAreAtLeast110) {
  std::vector<const char*> kinds;
  for (const ProgramFault& fault : program_faults()) kinds.push_back(fault.kind);
  for (const auto* faults : {&block_faults(), &kernel_faults()}) {
    for (const BlockFault& fault : *faults) kinds.push_back(fault.kind);
  }
  EXPECT_GE(std::count_if(kinds.begin(), kinds.end(), [](const char* kind) { return kind != nullptr; }), 110);
}

}  // namespace
}  // namespace braid::test
