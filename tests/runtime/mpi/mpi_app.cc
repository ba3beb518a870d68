// What each rank of mpirun runs: `mpi_app SCENARIO`. Exit code 0 where everything was as expected.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "runtime/comm/mpi_world.h"
#include "runtime/comm/reduce.h"
#include "tests/runtime/random_program.h"

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

void random(World& world) {
  for (unsigned seed = 100; seed < 110 && !::testing::Test::HasFailure(); ++seed) run_program(world, seed);
}

void expect(const Status& status, StatusCode code, std::initializer_list<const char*> parts) {
  EXPECT_EQ(status.code, code) << status.message;
  for (const char* part : parts)
    EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
}

CollectiveCall sum(std::vector<float>& data, size_t count) {
  return {.kind = CollectiveKind::all_reduce,
          .count = count,
          .input = data.data(),
          .output = data.data(),
          .label = "/mlp/Sum"};
}

void mismatch(World& world) {
  Communicator* all = make_group(world, first_ranks(world.size()), "tp");
  std::vector<float> data(8);
  EXPECT_TRUE(all->run(sum(data, 8)).ok());
  const Status status = all->run(sum(data, world.rank() == 2 ? 7 : 8));
  expect(status, StatusCode::disagreement,
         {"collective 1", "'tp'", "f32 x 7", "f32 x 8", "rank 2", "/mlp/Sum"});
  expect(all->run(sum(data, 8)), StatusCode::disagreement, {"f32 x 7"});
}

void stall(World& world) {
  Communicator* all = make_group(world, first_ranks(world.size()), "tp");
  std::vector<float> data(8);
  EXPECT_TRUE(all->run(sum(data, 8)).ok());
  if (world.rank() == 1) {
    for (int k = 0; k < 10'000 && world.last_error().ok(); ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    expect(world.last_error(), StatusCode::timed_out, {"rank 1 has not started it"});
    return;
  }
  expect(all->run(sum(data, 8)), StatusCode::timed_out,
         {"rank 1 has not started it", "'tp'", "collective 1", "/mlp/Sum"});
}

void missing(World& world) {
  if (world.rank() == 3) {
    for (int k = 0; k < 10'000 && world.last_error().ok(); ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return;
  }
  Communicator* all = nullptr;
  expect(world.group(first_ranks(world.size()), "tp", &all), StatusCode::timed_out,
         {"never joined", "'tp'", "rank 3"});
}

void fingerprint(World& world) {
  Communicator* all = make_group(world, first_ranks(world.size()), "tp");
  EXPECT_TRUE(all->compare_fingerprint(7, "same").ok());
  const bool odd = world.rank() == 1;
  expect(all->compare_fingerprint(odd ? 1 : 2, odd ? "one plan" : "another plan"), StatusCode::disagreement,
         {"ranks 0 2 3 ", "ranks 1 ", "one plan", "another plan"});
}

void abort_all(World& world) {
  Communicator* all = make_group(world, first_ranks(world.size()), "tp");
  std::vector<float> data(8);
  if (world.rank() == 3) all->abort("the user pressed a key");
  expect(all->run(sum(data, 8)), StatusCode::aborted, {"rank 3", "the user pressed a key"});
}

int run(const std::string& scenario) {
  const bool stalls = scenario == "stall" || scenario == "missing";
  const WorldOptions options{.segment_bytes = kSlots * kSlotBytes, .timeout_ms = stalls ? 2000 : 60'000};
  {
    std::unique_ptr<World> world;
    if (scenario == "environment") setenv("BRAID_ENGINE", "mpi", 1);
    const Status joined = scenario == "environment" ? join_world_from_environment(options, &world)
                                                    : join_mpi_world(options, &world);
    if (!joined.ok() || world->size() != 4) {
      std::fprintf(stderr, "%d ranks; %s\n", world ? world->size() : 0, joined.message.c_str());
      return 2;
    }
    if (scenario == "kinds" || scenario == "environment") kinds(*world);
    if (scenario == "random") random(*world);
    if (scenario == "mismatch") mismatch(*world);
    if (scenario == "stall") stall(*world);
    if (scenario == "missing") missing(*world);
    if (scenario == "fingerprint") fingerprint(*world);
    if (scenario == "abort") abort_all(*world);
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}

std::string scenario;
TEST(Mpi, scenario) { EXPECT_EQ(run(scenario), 0); }

}  // namespace
}  // namespace braid::rt::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  braid::rt::testing::scenario = argv[1];
  return RUN_ALL_TESTS();
}
