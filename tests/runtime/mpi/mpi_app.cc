// The program of each rank of mpirun: `mpi_app SCENARIO [ARGUMENT]`. Exit code 0 where everything was as
// expected.
//   kinds, environment    every kind, type, reduction and place; the World from the environment
//   progress              of collectives while a rank calls nothing
//   random                random programs of 200 collectives
//   killed KIND           a rank kills itself
//   others                mpi_failures.h
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/comm/mpi_world.h"
#include "runtime/comm/reduce.h"
#include "tests/runtime/mpi/mpi_failures.h"
#include "tests/runtime/random_program.h"
#include "tests/support/random.h"

namespace braid::rt::testing {
namespace {

// Every kind, type, reduction and place, over the whole World and over a part of it in another order.
void kinds(World& world) {
  Communicator* all = make_group(world, first_ranks(world.size()), "all");
  Communicator* part = make_group(world, {3, 1, 2}, "part");
  int salt = 0;
  for (Communicator* group : {all, part}) {
    if (group == nullptr) continue;
    for (const DType dtype : kAllDTypes) {
      for (const ReduceOp op : kAllOps) {
        if (!reducible(dtype, op)) continue;
        for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter})
          run_case(*group, world, {.kind = kind, .dtype = dtype, .op = op, .count = 37, .salt = ++salt});
      }
    }
    for (const CollectiveKind kind :
         {CollectiveKind::all_gather, CollectiveKind::broadcast, CollectiveKind::all_to_all,
          CollectiveKind::send, CollectiveKind::all_reduce}) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{70'000}}) {
        for (const bool in_place : {false, true})
          run_case(*group, world,
                   {.kind = kind, .count = count, .peer = 1, .in_place = in_place, .salt = ++salt});
      }
    }
  }
}

// The others get their results while rank 0, which has started all, is in no call of the runtime: it looks
// for files.
void progress(World& world) {
  namespace fs = std::filesystem;
  Communicator* all = make_group(world, first_ranks(world.size()), "all");
  std::vector<float> data(100'000, 1.0F), gathered(data.size() * static_cast<size_t>(world.size()));
  const CollectiveCall sum{.kind = CollectiveKind::all_reduce,
                           .count = data.size(),
                           .input = data.data(),
                           .output = data.data(),
                           .label = "sum"};
  const CollectiveCall gather{.kind = CollectiveKind::all_gather,
                              .count = data.size(),
                              .input = data.data(),
                              .output = gathered.data(),
                              .label = "gather"};
  ASSERT_TRUE(all->run(sum).ok());
  const auto file_of = [](int rank) {  // the parent of all is mpirun
    return fs::temp_directory_path() /
           ("braid_mpi_" + std::to_string(getppid()) + "_" + std::to_string(rank));
  };
  Ticket first, second;
  ASSERT_TRUE(all->start(sum, &first).ok());
  if (world.rank() == 0) {
    for (int rank = 1; rank < world.size(); ++rank) {
      while (!fs::exists(file_of(rank))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      fs::remove(file_of(rank));
    }
    ASSERT_TRUE(all->wait(first).ok());
  } else {
    ASSERT_TRUE(all->wait(first).ok());
    std::ofstream(file_of(world.rank())) << "done";
  }
  EXPECT_EQ(data.back(), static_cast<float>(world.size() * world.size()));
  ASSERT_TRUE(all->start(gather, &second).ok());
  ASSERT_TRUE(all->wait(second).ok());
  EXPECT_EQ(gathered.back(), data.back());
}

// A World for each few programs: communicators go with their World.
void random(const WorldOptions& options, int programs) {
  const auto seed = static_cast<unsigned>(test::first_seed(5000));
  constexpr int kPerWorld = 10;
  for (int first = 0; first < programs; first += kPerWorld) {
    std::unique_ptr<World> world;
    const Status joined = join_mpi_world(options, &world);
    ASSERT_TRUE(joined.ok()) << joined.message;
    for (int k = first; k < std::min(first + kPerWorld, programs) && !::testing::Test::HasFailure(); ++k)
      run_program(*world, seed + static_cast<unsigned>(k));
  }
}

int run(const std::string& scenario, const std::string& argument) {
  const bool stalls = scenario.starts_with("stall") || scenario == "missing";
  const WorldOptions options{.segment_bytes = kSlots * kSlotBytes, .timeout_ms = stalls ? 1500 : 60'000};
  if (scenario == "random") {
    random(options, test::random_cases(100));
    return 0;
  }
  std::unique_ptr<World> world;
  if (scenario == "environment") setenv("BRAID_ENGINE", "mpi", 1);
  const Status joined = scenario == "environment" ? join_world_from_environment(options, &world)
                                                  : join_mpi_world(options, &world);
  if (!joined.ok() || world->size() != 4) {
    std::fprintf(stderr, "%d ranks; %s\n", world ? world->size() : 0, joined.message.c_str());
    return 2;
  }
  if (scenario == "kinds" || scenario == "environment") {
    kinds(*world);
  } else if (scenario == "progress") {
    progress(*world);
  } else if (scenario == "killed") {
    kill_a_rank(argument, *world);
  } else if (!run_failure(scenario, *world)) {
    return 2;
  }
  return 0;
}

std::string scenario, argument;
TEST(Mpi, scenario) { EXPECT_EQ(run(scenario, argument), 0); }

}  // namespace
}  // namespace braid::rt::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return 2;
  braid::rt::testing::scenario = argv[1];
  if (argc > 2) braid::rt::testing::argument = argv[2];
  return RUN_ALL_TESTS();
}
