// Host memory that asynchronous copies use belongs to them until the host has waited for them.
#include "tests/emulated/host_buffer_faults.h"
#include "tests/emulated/support.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostBufferTest : public EmulatedTest {
 protected:
  void SetUp() override {
    BRAID_NEEDS_OBSERVED_ACCESSES();
    EmulatedTest::SetUp();
  }
};

TEST_F(HostBufferTest, MemoryThatTheHostHasWaitedForIsItsOwn) {
  for (const HostBufferFault right :
       {HostBufferFault::kNone, HostBufferFault::kPolled, HostBufferFault::kReadAfterQuery,
        HostBufferFault::kReadAfterEvent, HostBufferFault::kPageable}) {
    EXPECT_STREQ(use_host_buffers(right), nullptr);
    EXPECT_THAT(found(), IsEmpty()) << static_cast<int>(right);
  }
}

TEST_F(HostBufferTest, UsingMemoryThatACopyStillUsesIsFoundWhateverTheTiming) {
  const struct {
    HostBufferFault fault;
    const char* finding;
  } kCases[] = {
      {HostBufferFault::kWrittenDuringUpload,
       "race: nothing orders the read by copy host to device [upload] on rank 0 stream 0 and the write by "
       "host code on "
       "the host thread of rank 0; both touch bytes [12, 16) of cudaHostAlloc #0 of rank 0 (256 bytes)"},
      {HostBufferFault::kWrittenByCopying,
       "race: nothing orders the read by copy host to device [upload] on rank 0 stream 0 and the write by "
       "host code on "
       "the host thread of rank 0; both touch bytes [0, 256) of cudaHostAlloc #0 of rank 0 (256 bytes)"},
      {HostBufferFault::kFreedDuringUpload,
       "race: nothing orders the read by copy host to device [upload] on rank 0 stream 0 and the write by "
       "cudaFreeHost "
       "on the host thread of rank 0; both touch bytes [0, 256) of cudaHostAlloc #0 of rank 0 (256 bytes)"},
      {HostBufferFault::kReadDuringDownload,
       "race: nothing orders the read by host code on the host thread of rank 0 and the write by copy device "
       "to host "
       "on rank 0 stream 0; both touch bytes [12, 16) of cudaHostAlloc #0 of rank 0 (256 bytes)"},
      {HostBufferFault::kReadAfterAnotherStream,
       "race: nothing orders the read by host code on the host thread of rank 0 and the write by copy device "
       "to host "
       "on rank 0 stream 0; both touch bytes [12, 16) of cudaHostAlloc #0 of rank 0 (256 bytes)"},
      {HostBufferFault::kKernelWrites,
       "race: nothing orders the read by host code on the host thread of rank 0 and the write by "
       "write_kernel on rank "
       "0 stream 0; both touch bytes [12, 16) of cudaHostAlloc #0 of rank 0 (256 bytes)"},
  };
  for (const auto& c : kCases) {
    for (const int delay : {0, 300}) {
      emulated::options().max_delay = std::chrono::microseconds(delay);
      emulated::reset_devices();
      use_host_buffers(c.fault);
      EXPECT_THAT(found(), ElementsAre(c.finding));
    }
  }
}

TEST_F(HostBufferTest, AReplayThatCopiesFreedHostMemoryIsFound) {
  EXPECT_STREQ(use_host_buffers(HostBufferFault::kFreedBeforeReplay),
               "an illegal memory access was encountered");
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("illegal access: copy host to device [upload] on rank 0 stream 0 of a "
                                    "graph")));
}

}  // namespace
}  // namespace braid::test
