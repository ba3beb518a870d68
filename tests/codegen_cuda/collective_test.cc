#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class Collective : public CudaCase {};

TEST_F(Collective, TensorParallelLayersOnAnyNumberOfRanks) {
  for (int ranks : {1, 2, 4}) {
    RunOptions options;
    options.steps = 3;
    expect_equal(run_case("layers_" + std::to_string(ranks), {{"rows", 5}}, options), 0);
  }
}

TEST_F(Collective, ATensorParallelNetworkAsItIsCompiled) {
  for (std::int64_t tokens : {1, 7, 64}) {
    RunOptions options;
    options.integers = false;
    expect_equal(run_case("tensor_parallel", {{"tokens", tokens}}, options), 1e-2);
    EXPECT_THAT(found(), ::testing::IsEmpty());
  }
}

TEST_F(Collective, EveryKindIsAsTheInterpreterSays) {
  for (const char* name : {"collectives_1_f32", "collectives_2_f32", "collectives_4_f32", "collectives_2_f64",
                           "collectives_2_f16", "collectives_2_bf16", "collectives_2_i8", "collectives_2_i16",
                           "collectives_2_i32", "collectives_2_i64", "collectives_2_u8", "collectives_2_u16",
                           "collectives_2_u32", "collectives_2_u64", "collectives_2_bool"}) {
    SCOPED_TRACE(name);
    expect_equal(run_case(name), 0);
  }
}

TEST_F(Collective, GroupsAreSplitFromTheWorld) { expect_equal(run_case("groups"), 0); }

TEST_F(Collective, CoordinatesAreThoseOfTheRank) {
  for (const std::int64_t n : {1, 6}) expect_equal(run_case("by_coordinates", {{"n", n}}), 0);
  EXPECT_THAT(found(), ::testing::IsEmpty());
}

TEST_F(Collective, SendAndReceive) { expect_equal(run_case("transfer"), 0); }
TEST_F(Collective, AMessageIsSentOnWhenItHasArrived) {
  expect_equal(run_case("relay"), 0);
  EXPECT_THAT(found(), ::testing::IsEmpty());
}
TEST_F(Collective, MessagesDoNotMeetInMemoryThatTheyShare) {
  expect_equal(run_case("two_messages"), 0);
  EXPECT_THAT(found(), ::testing::IsEmpty());
}

TEST_F(Collective, NothingRacesWhateverTheTiming) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulated::options().max_delay = std::chrono::microseconds(200);
    emulated::options().seed = seed;
    RunOptions options;
    options.steps = 2;
    options.seed = seed;
    options.own_stream = seed % 2 == 0;
    expect_equal(run_case("layers_2", {{"rows", 4}}, options), 0);
    expect_equal(run_case("overwrite", {}, options), 0);
    ASSERT_THAT(found(), ::testing::IsEmpty()) << "seed " << seed;
  }
}

// Each leaves out one edge between the streams.
TEST_F(Collective, AMissingEventBeforeACollectiveIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const char* name : {"overwrite_without_event_before", "layers_without_event_before"}) {
    RunOptions options;
    run_case(name,
             name[0] == 'l' ? std::map<std::string, std::int64_t>{{"rows", 4}}
                            : std::map<std::string, std::int64_t>{},
             options);
    EXPECT_THAT(found(), Contains(HasSubstr("race"))) << name;
  }
}

TEST_F(Collective, AMissingEventAfterACollectiveIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  run_case("layers_without_event_after", {{"rows", 4}});
  EXPECT_THAT(found(), Contains(HasSubstr("race")));
}

TEST_F(Collective, OverwritingWhatAPeerStillReadsIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  run_case("overwrite_without_release");
  EXPECT_THAT(found(),
              Contains(::testing::AllOf(HasSubstr("race"), HasSubstr("/late"), HasSubstr("/AllReduce"))));
}

}  // namespace
}  // namespace braid::test
