// A step of a generated program lies between what its caller's stream does before and after.
#include "tests/codegen_cuda/planted.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class PlantedStep : public CudaCase {
 protected:
  void TearDown() override {
    planted_call = {};
    CudaCase::TearDown();
  }
  static std::vector<std::string> without(const char* call, const char* event) {
    planted_call = {call, event};
    RunOptions options;
    options.steps = 2;
    run_case("layers_2", {{"rows", 4}}, options);
    return found();
  }
};

TEST_F(PlantedStep, ThatDoesNotFollowItsCallerIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const char* call : {"cudaEventRecord", "cudaStreamWaitEvent"})
    EXPECT_THAT(
        without(call, "caller_"),
        AllOf(Contains(
                  AllOf(HasSubstr("race: "), HasSubstr("write by copy device to device on rank 0 stream"))),
              Contains(AllOf(HasSubstr("step scope: "), HasSubstr("does not follow what was on the caller's "
                                                                  "stream")))))
        << call;
}

TEST_F(PlantedStep, ForWhichItsCallerDoesNotWaitIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const char* call : {"cudaEventRecord", "cudaStreamWaitEvent"})
    EXPECT_THAT(
        without(call, "join_"),
        Contains(AllOf(HasSubstr("step scope: the caller's stream"),
                       HasSubstr("does not wait for the last work that a step puts on another stream"))))
        << call;
}

}  // namespace
}  // namespace braid::test
