// BRAID_LOG=overlap.
#include "explain/overlap_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "ir/error.h"
#include "tests/support/orders.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class OverlapLog : public ::testing::Test {
 protected:
  ~OverlapLog() override {
    ::unsetenv("BRAID_LOG");
    ::unsetenv("RANK");
  }
  const std::string text_ =
      graph(all_gather("g", "w", 2000) + compute("a", "%x", 1000) + wait("g") + compute("b", "%g.1"),
            "output %a\noutput %b\n");
  std::string logged(const char* passes) {
    ::testing::internal::CaptureStderr();
    ir::Schedule schedule = ir::parse_schedule(text_, "test");
    passes::RunOptions options;
    if (auto log = explain::overlap_log_observer()) options.observers.push_back(*log);
    passes::run_passes(schedule, passes::parse_pass_list(passes), options);
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(OverlapLog, MarksNodesBesideWhichACollectiveIsInFlight) {
  const std::string log = explain::overlap_log("some_pass", "after", ir::parse_schedule(text_, "test"),
                                               *passes::PassContext().costs);
  EXPECT_THAT(log, HasSubstr("== some_pass: after"));
  EXPECT_THAT(log, HasSubstr("1 |   compute  extern work"));
  EXPECT_THAT(log, HasSubstr("0     start    all_gather @g 512 B"));
  EXPECT_THAT(log, HasSubstr("f32[128]"));
  EXPECT_THAT(log, HasSubstr("0.002000"));
}

TEST_F(OverlapLog, IsWrittenAroundPassesThatMoveCommunicationIfAskedFor) {
  EXPECT_EQ(logged("sink_waits"), "");
  ::setenv("BRAID_LOG", "", 1);
  EXPECT_EQ(logged("sink_waits"), "");
  ::setenv("BRAID_LOG", "overlap", 1);
  EXPECT_THAT(logged("sink_waits"), HasSubstr("== sink_waits: before"));
  EXPECT_EQ(logged("dead_code"), "");
}

TEST_F(OverlapLog, AnUnknownTopicIsRefused) {
  for (const char* topics : {"something", "overlap,something", "overlap ", ",overlap", "1", "-1"}) {
    ::setenv("BRAID_LOG", topics, 1);
    try {
      explain::overlap_log_observer();
      FAIL() << topics;
    } catch (const ir::UserError& error) {
      EXPECT_EQ(error.code(), 12) << topics;
      EXPECT_THAT(error.what(), HasSubstr("BRAID_LOG="));
    }
  }
}

TEST_F(OverlapLog, IsRankZerosAffair) {
  ::setenv("BRAID_LOG", "overlap", 1);
  ::setenv("RANK", "1", 1);
  EXPECT_EQ(logged("sink_waits"), "");
  ::setenv("RANK", "0", 1);
  EXPECT_THAT(logged("sink_waits"), HasSubstr("== sink_waits"));
}

TEST_F(OverlapLog, AFaultInItStopsNothing) {
  const auto fails = []() -> std::string { throw std::runtime_error("no"); };
  EXPECT_NO_THROW(explain::log_safely(fails, [](const std::string&) {}));
  EXPECT_NO_THROW(
      explain::log_safely([] { return std::string("text"); }, [](const std::string&) { throw 1; }));
}

}  // namespace
}  // namespace braid::test
