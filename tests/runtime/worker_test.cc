// The communication worker: a rank's collectives go on while the rank does not call, and nothing else
// changes.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/comm/peer_memory.h"
#include "runtime/comm/shm_worker.h"
#include "tests/runtime/random_program.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LaunchOptions with_worker(size_t segment_bytes, CommWorker worker = CommWorker::on) {
  return {.world = {.segment_bytes = segment_bytes,
                    .staging_bytes = 16 * 1024,
                    .worker = worker,
                    .timeout_ms = 20'000},
          .pacing = {}};
}

// By their name: a sanitizer may have threads of its own.
int workers_of_this_process() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);  // none of a thread that has just ended
    count += name == shm::Worker::kThreadName;
  }
  return count;
}

class WorkerSequences : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, WorkerSequences, ::testing::Range(0, 4));

TEST_P(WorkerSequences, agree_with_the_oracle_with_the_worker_on) {
  const unsigned seed = 4321 + static_cast<unsigned>(GetParam());
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const Ranks ranks : {Ranks::threads, Ranks::processes}) {
    run_ranks(ranks, 2 + GetParam() % 3, with_worker(kSlots * kSlotBytes),
              [&](World& world) { run_program(world, seed); });
  }
}

// In one process, so that each rank sees when the other's output is complete, though no rank waits or tests.
TEST(Worker, completes_started_collectives_that_nobody_waits_for) {
  constexpr size_t kCount = 100'000;  // many rounds of staging
  std::vector<int32_t> outputs[2];
  std::atomic<int> seen = 0;
  LaunchOptions options = with_worker(4096);
  options.world.peer_reads = false;
  run_ranks(Ranks::threads, 2, options, [&](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    std::vector<int32_t> input(kCount, world.rank() + 1);
    std::vector<int32_t>& output = outputs[world.rank()];
    output.assign(kCount, 0);
    Ticket ticket;
    ASSERT_TRUE(all->start({.kind = CollectiveKind::all_reduce,
                            .dtype = DType::i32,
                            .count = kCount,
                            .input = input.data(),
                            .output = output.data()},
                           &ticket)
                    .ok());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    // Through the kernel, as another process would: this thread may not look at the output before it has
    // waited.
    const auto last = [&] {
      int32_t value = 0;
      EXPECT_TRUE(shm::read_peer(getpid(), &value, reinterpret_cast<uint64_t>(&output.back()), sizeof value));
      return value;
    };
    while (last() != 3 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(last(), 3) << "nobody went on";
    ++seen;
    while (seen < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(all->wait(ticket).ok());
    EXPECT_EQ(output, std::vector<int32_t>(kCount, 3));
  });
}

TEST(Worker, ends_with_its_world) {
  {
    SharedMemory memory;
    ASSERT_TRUE(SharedMemory::create(2, with_worker(4096).world, &memory).ok());
    std::unique_ptr<World> worlds[2];
    for (int rank = 0; rank < 2; ++rank) ASSERT_TRUE(memory.attach(rank, &worlds[rank]).ok());
    EXPECT_EQ(workers_of_this_process(), 2);
    Communicator* groups[2];
    for (int rank = 0; rank < 2; ++rank) groups[rank] = make_group(*worlds[rank], {0, 1}, "all");
    Ticket ticket;  // left behind unfinished
    EXPECT_TRUE(groups[0]->start({.kind = CollectiveKind::barrier}, &ticket).ok());
  }
  // A joined thread leaves the list a little after its join.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (workers_of_this_process() > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(workers_of_this_process(), 0);
}

TEST(Worker, is_not_made_when_off_or_when_threads_are_unknown) {
  unsetenv("BRAID_COMM_WORKER");
  for (const CommWorker option : {CommWorker::off, CommWorker::automatic}) {
    SharedMemory memory;
    ASSERT_TRUE(SharedMemory::create(2, with_worker(4096, option).world, &memory).ok());
    std::unique_ptr<World> world;
    ASSERT_TRUE(memory.attach(0, &world).ok());
    EXPECT_EQ(workers_of_this_process(), 0);
  }
}

TEST(Worker, environment_decides_where_the_program_does_not) {
  SharedMemory memory;
  ASSERT_TRUE(SharedMemory::create(2, with_worker(4096, CommWorker::automatic).world, &memory).ok());
  std::unique_ptr<World> world;
  setenv("BRAID_COMM_WORKER", "sometimes", 1);
  const Status refused = memory.attach(0, &world);
  EXPECT_EQ(refused.code, StatusCode::invalid_argument);
  EXPECT_THAT(refused.message, HasSubstr("'sometimes' is not one of on, off, auto"));
  setenv("BRAID_COMM_WORKER", "on", 1);
  EXPECT_TRUE(memory.attach(1, &world).ok());
  EXPECT_EQ(workers_of_this_process(), 1);
  unsetenv("BRAID_COMM_WORKER");
}

TEST(Worker, disagreement_that_the_worker_meets_is_the_error_of_all_waits) {
  run_ranks(Ranks::threads, 2, with_worker(4096), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    std::vector<float> data(100);
    Ticket ticket;
    const Status started = all->start({.kind = CollectiveKind::all_reduce,
                                       .count = world.rank() == 0 ? size_t{50} : size_t{60},
                                       .input = data.data(),
                                       .output = data.data()},
                                      &ticket);
    if (started.ok()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(all->wait(ticket).code, StatusCode::disagreement);
    } else {
      EXPECT_EQ(started.code, StatusCode::disagreement);
    }
  });
}

TEST(Worker, abort_reaches_ranks_whose_worker_sleeps) {
  run_ranks(Ranks::threads, 2, with_worker(4096), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    if (world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      world.abort("enough");
      return;
    }
    const Status status = all->run({.kind = CollectiveKind::barrier});
    EXPECT_EQ(status.code, StatusCode::aborted);
    EXPECT_THAT(status.message, HasSubstr("enough"));
  });
}

TEST(Worker, killed_peer_is_named) {
  const Status status = launch_processes(2, with_worker(4096), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "tp");
    EXPECT_TRUE(all->run({.kind = CollectiveKind::barrier}).ok());
    if (world.rank() == 1) kill(getpid(), SIGKILL);
    std::vector<float> data(100'000);
    const Status missed = all->run({.kind = CollectiveKind::all_reduce,
                                    .count = data.size(),
                                    .input = data.data(),
                                    .output = data.data(),
                                    .label = "sum"});
    EXPECT_EQ(missed.code, StatusCode::peer_died) << missed.message;
    EXPECT_THAT(missed.message, AllOf(HasSubstr("rank 1"), HasSubstr("'sum'"), HasSubstr("group 'tp'")));
    return ::testing::Test::HasFailure() ? 3 : 0;
  });
  EXPECT_THAT(status.message, HasSubstr("killed by signal 9"));
  EXPECT_THAT(status.message, ::testing::Not(HasSubstr("exited with")));
}

}  // namespace
}  // namespace braid::rt::testing
