// Reports by the processes of a run about one that is killed, stopped, behind or failed.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <csignal>

#include "tests/runtime/control_cases.h"
#include "tests/runtime/independent_processes.h"
#include "tests/support/random.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The processes of a run, which know each other's numbers from memory that they share.
class ControlFaults : public ::testing::TestWithParam<int> {
 protected:
  ControlFaults()
      : pids_(static_cast<volatile pid_t*>(
            mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~ControlFaults() override { munmap(const_cast<pid_t*>(pids_), 4096); }

  static constexpr int kSize = 3;
  int victim() const { return GetParam(); }
  std::string victims_name() const {
    return "rank " + std::to_string(victim()) + " (process " + std::to_string(pids_[victim()]) + " on ";
  }

  // The exit codes of the ranks: each opens the channel, waits for the others and runs the body.
  std::vector<int> run(const std::function<void(ControlChannel&)>& body, int64_t timeout_ms = 2'000) {
    const Door door;
    pids_[kSize] = 0;
    return run_independent(kSize, [&](int rank) {
      pids_[rank] = getpid();
      std::unique_ptr<ControlChannel> channel;
      EXPECT_TRUE(open_control(door, control_options(rank, kSize, timeout_ms), &channel).ok());
      if (channel == nullptr) return 1;
      channel->reached(1);
      EXPECT_TRUE(channel->await_all(1, timeout_ms).ok());
      body(*channel);
      return 0;
    });
  }
  std::vector<int> codes(int of_victim) const {
    std::vector<int> out(kSize, 0);
    out[static_cast<size_t>(victim())] = of_victim;
    return out;
  }

  volatile pid_t* const pids_;
};
INSTANTIATE_TEST_SUITE_P(Rank, ControlFaults, ::testing::Values(0, 1, 2));

TEST_P(ControlFaults, AKilledRankIsNamedByAllOthers) {
  for (int k = 0; k < test::random_cases(3); ++k) {
    const std::vector<int> ended = run([&](ControlChannel& channel) {
      if (channel.rank() == victim()) raise(SIGKILL);
      std::string text;
      EXPECT_EQ(channel.missing(true, &text), 1);
      EXPECT_THAT(text, AllOf(HasSubstr(victims_name()), HasSubstr(") has ended")));
      EXPECT_TRUE(channel.lost());
      channel.leave(text, true);
    });
    ASSERT_EQ(ended, codes(-SIGKILL));
  }
}

TEST_P(ControlFaults, AStoppedRankIsNamedByAllOthers) {
  for (int k = 0; k < test::random_cases(1); ++k) {
    const std::vector<int> ended = run([&](ControlChannel& channel) {
      if (channel.rank() == victim()) raise(SIGSTOP);
      std::string text;
      EXPECT_EQ(channel.missing(true, &text), 1);
      EXPECT_THAT(text, AllOf(HasSubstr(victims_name()), HasSubstr(") has sent nothing for ")));
      channel.leave(text, true);
      // When both have said so.
      if (__atomic_add_fetch(&pids_[kSize], 1, __ATOMIC_SEQ_CST) == kSize - 1) kill(pids_[victim()], SIGKILL);
    });
    ASSERT_EQ(ended, codes(-SIGKILL));
  }
}

TEST_P(ControlFaults, ARankThatHangsIsNamedByHowFarItIs) {
  const std::vector<int> ended = run(
      [&](ControlChannel& channel) {
        channel.reached(2);
        if (channel.rank() == victim()) {
          EXPECT_FALSE(channel.await_all(3, 500).ok());
          return;
        }
        channel.reached(3);
        const Status all = channel.await_all(3, 500);
        EXPECT_FALSE(all.ok());
        EXPECT_THAT(all.message,
                    AllOf(HasSubstr(victims_name()), HasSubstr(") has issued 1 step, others 2")));
        std::string text;
        EXPECT_EQ(channel.missing(true, &text), 1);
        EXPECT_THAT(text, HasSubstr(victims_name()));
        channel.leave(text, true);
      },
      500);
  EXPECT_EQ(ended, codes(0));
}

// All ranks have issued as much. The ranks between the victim and the foremost wait for it, too, so they are
// not named.
TEST_P(ControlFaults, ARankWhoseDeviceHangsIsNamedByHowFarItIs) {
  struct Places {
    uint64_t step, collectives;  // of the victim's device
    const char* text;
  };
  constexpr uint64_t kAll = UINT64_MAX;
  for (const Places& places : {Places{0, kAll, "before the first step"},
                               {1, 2, "at collective 2 of step 1"},
                               {1, kAll, "at the end of step 1"},
                               {2, 0, "before the first collective of step 2"}}) {
    const std::vector<int> ended = run(
        [&](ControlChannel& channel) {
          const bool hangs = channel.rank() == victim();
          channel.device_at(1, 1);
          if (hangs)
            channel.device_at(places.step, places.collectives);
          else
            channel.device_at(2, channel.rank() == (victim() + 1) % kSize ? 3 : 1);
          // Reports about the devices come with the progress.
          channel.reached(3);
          EXPECT_TRUE(channel.await_all(3, 10'000).ok());
          if (hangs) channel.reached(4);  // this host has run ahead
          std::string text;
          if (hangs) {
            EXPECT_EQ(channel.missing(true, &text), -1) << text;
            EXPECT_THAT(text, AllOf(HasSubstr("the others wait for this rank"), HasSubstr(places.text)));
            channel.leave(text);
          } else {
            EXPECT_EQ(channel.missing(true, &text), 1) << text;
            EXPECT_THAT(text, AllOf(HasSubstr(victims_name()), HasSubstr(places.text)));
            channel.leave(text, true);
          }
        },
        500);
    EXPECT_EQ(ended, codes(0));
  }
}

// Nothing is concluded from the devices of some ranks.
TEST_P(ControlFaults, ARankWhoseDeviceIsUnknownIsNotNamed) {
  const std::vector<int> ended = run(
      [&](ControlChannel& channel) {
        if (channel.rank() != victim()) channel.device_at(1, 4);
        channel.reached(2);
        EXPECT_TRUE(channel.await_all(2, 10'000).ok());
        std::string text;
        EXPECT_EQ(channel.missing(true, &text), 0) << text;
        EXPECT_THAT(text, HasSubstr("all ranks answer, and each has issued 1 step"));
        // No rank leaves before all have asked.
        __atomic_add_fetch(&pids_[kSize], 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&pids_[kSize], __ATOMIC_SEQ_CST) < kSize) usleep(1000);
      },
      500);
  EXPECT_EQ(ended, codes(0));
}

TEST_P(ControlFaults, AFailedRankIsNamedWithItsReason) {
  const std::vector<int> ended = run([&](ControlChannel& channel) {
    if (channel.rank() == victim()) {
      channel.leave("no memory");
      return;
    }
    EXPECT_EQ(channel.await_all(2, 2'000).code, StatusCode::peer_died);
    std::string text;
    EXPECT_EQ(channel.missing(true, &text), 1);
    EXPECT_THAT(text, AllOf(HasSubstr(victims_name()), HasSubstr(") has failed: no memory")));
    channel.leave(text, true);
  });
  EXPECT_EQ(ended, codes(0));
}

TEST_P(ControlFaults, RanksThatHaveFinishedStillServeTheOthers) {
  // Two ranks go on when the victim's successor has finished: the last one learns of the victim.
  const int early = (victim() + 1) % kSize;
  const std::vector<int> ended = run([&](ControlChannel& channel) {
    if (channel.rank() == early) return;
    if (channel.rank() == victim()) {
      usleep(50'000);
      raise(SIGKILL);
    }
    std::string text;
    while (!channel.lost()) usleep(1000);
    EXPECT_EQ(channel.missing(true, &text), 1);
    EXPECT_THAT(text, AllOf(HasSubstr(victims_name()), HasSubstr(") has ended")));
    channel.leave(text, true);
  });
  EXPECT_EQ(ended, codes(-SIGKILL));
}

TEST(ControlChannelTest, ARankThatIsBehindIsMissingOnlyWhenItIsOverdue) {
  const Door door;
  const std::vector<Status> met = meet_as_threads(
      door, {control_options(0, 2, 400), control_options(1, 2, 400)}, [](ControlChannel& channel) {
        channel.reached(2);
        EXPECT_TRUE(channel.await_all(2, 400).ok());
        if (channel.rank() == 1) {
          channel.reached(ControlChannel::kFinished);
          std::string text;
          EXPECT_EQ(channel.missing(false, &text), 0) << text;
          EXPECT_EQ(channel.missing(true, &text), 1);
          EXPECT_THAT(text, HasSubstr(") has issued 1 step, others have finished"));
          // Longer than the channel's time-out, as a wait for many steps may take.
          EXPECT_TRUE(channel.await_all(ControlChannel::kFinished, 20'000).ok());
        } else {
          usleep(1'500'000);
          channel.reached(ControlChannel::kFinished);
          EXPECT_TRUE(channel.await_all(ControlChannel::kFinished, 400).ok());
        }
      });
  for (const Status& each : met) EXPECT_TRUE(each.ok()) << each.message;
}

TEST(ControlChannelTest, NobodyIsMissingWhenAllAnswer) {
  const Door door;
  const std::vector<Status> met = meet_as_threads(
      door, {control_options(0, 2, 400), control_options(1, 2, 400)}, [](ControlChannel& channel) {
        channel.reached(2);
        EXPECT_TRUE(channel.await_all(2, 2'000).ok());
        // The other rank may be ahead of what it has been told, and then waits for this one.
        std::string text;
        const int found = channel.missing(true, &text);
        EXPECT_LE(found, 0) << text;
        if (found == 0) EXPECT_THAT(text, HasSubstr("all ranks answer, and each has issued"));
        channel.reached(3);
        EXPECT_TRUE(channel.await_all(3, 500).ok());
      });
  for (const Status& each : met) EXPECT_TRUE(each.ok()) << each.message;
}

}  // namespace
}  // namespace braid::rt::testing
