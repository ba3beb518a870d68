// Faults inside a kernel are found by name, each with one finding, the same in every run; kernels that are
// right report nothing.
#include "tests/emulated/block_faults.h"

#include <csignal>
#include <cstdlib>

#include "tests/emulated/support.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class BlockFaultsTest : public EmulatedTest {
 protected:
  // Each twice.
  static void run_all(const std::vector<BlockFault>& faults) {
    for (const BlockFault& fault : faults) {
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
};

TEST_F(BlockFaultsTest, EveryFaultIsFoundByNameAndNothingElse) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  run_all(block_faults());
}

TEST_F(BlockFaultsTest, FaultsOfTensorCoresAndCopiesAreFoundByName) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  run_all(tensor_core_faults());
}

// They leave the process and its streams as they were: the next kernel runs.
TEST_F(BlockFaultsTest, HostMemoryFaultsAndKernelsThatDoNotEndAreFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  emulated::options().time_out = std::chrono::milliseconds(100);
  emulated::options().hang = std::chrono::milliseconds(150);
  run_all(kernel_faults());
}

// Faults of the host are the host's, whether kernels have run or not.
TEST_F(BlockFaultsTest, HostCodeThatFaultsEndsTheProcessAsEver) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto after_a_kernel = [](void (*fault)()) {
    for (const BlockFault& right : block_faults()) {
      if (right.kind != nullptr) continue;
      run_block_fault(right);
      break;
    }
    fault();
  };
  EXPECT_EXIT(after_a_kernel([] {
                volatile uintptr_t nowhere = 8;
                *reinterpret_cast<volatile int*>(nowhere) = 1;
              }),
              ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(after_a_kernel([] { __builtin_trap(); }), ::testing::KilledBySignal(SIGILL), "");
  EXPECT_EXIT(after_a_kernel([] { std::abort(); }), ::testing::KilledBySignal(SIGABRT), "");
  EXPECT_EXIT(after_a_kernel([] { raise(SIGFPE); }), ::testing::KilledBySignal(SIGFPE), "");
}

}  // namespace
}  // namespace braid::test
