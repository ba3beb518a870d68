// Random programs of collectives on threads and on processes; tests/runtime/mpi has the MPI engine.
#include "tests/runtime/random_program.h"

namespace braid::rt::testing {
namespace {

class RandomSequences : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSequences, ::testing::Range(0, 8));

TEST_P(RandomSequences, agree_with_the_oracle_on_threads_and_processes) {
  const unsigned seed = 1234 + static_cast<unsigned>(GetParam());
  SCOPED_TRACE("seed " + std::to_string(seed));
  const int sizes[] = {2, 3, 4, 5};
  const LaunchOptions options{.world = {.segment_bytes = kSlots * kSlotBytes, .staging_bytes = 16 * 1024}};
  for (const Ranks ranks : {Ranks::threads, Ranks::processes}) {
    run_ranks(ranks, sizes[GetParam() % 4], options, [&](World& world) { run_program(world, seed); });
  }
}

}  // namespace
}  // namespace braid::rt::testing
