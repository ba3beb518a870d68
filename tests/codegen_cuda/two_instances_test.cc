// Two instances of one program on one device, each on a stream of its own: they share no written memory,
// unless their caller makes them.
#include "runtime/emulated/cuda_api.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Share { kNothing, kInput, kOutput, kOutputInOrder };

class TwoInstances : public CudaCase {
 protected:
  // Several kernels that hand over rows in the arena.
  static const char* run(Share share) {
    const BraidCudaProgram& program = *program_of("softmax_spilled");
    const int64_t dims[] = {3, 77};
    constexpr size_t kBytes = 2 * 3 * 80 * sizeof(float);  // of which the step takes 2 * 3 * 77 floats
    BraidCudaInstance* instances[2] = {};
    cudaStream_t streams[2] = {};
    char* memory = nullptr;
    const auto failed = [](cudaError_t error) { return error != cudaSuccess; };
    if (failed(cudaMalloc(reinterpret_cast<void**>(&memory), 4 * kBytes)) ||
        failed(cudaMemset(memory, 0, 4 * kBytes)) || failed(cudaDeviceSynchronize()))
      return "no memory";
    BraidCudaCreateInfo info = {};
    info.abi_version = BRAID_CUDA_ABI_VERSION;
    info.struct_size = sizeof(info);
    for (int k = 0; k < 2; ++k) {
      if (failed(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking))) return "no stream";
      if (program.create(&info, &instances[k]) != BRAID_OK) return program.last_error(nullptr);
      if (program.prepare(instances[k], dims) != BRAID_OK) return program.last_error(instances[k]);
    }
    const bool same_output = share == Share::kOutput || share == Share::kOutputInOrder;
    for (int step = 0; step < 3; ++step) {
      for (int k = 0; k < 2; ++k) {
        const void* inputs[] = {memory + (share == Share::kInput ? 0 : k) * kBytes};
        void* outputs[] = {memory + (2 + (same_output ? 0 : k)) * kBytes};
        if (program.run(instances[k], inputs, outputs, streams[k]) != BRAID_OK)
          return program.last_error(instances[k]);
        if (share == Share::kOutputInOrder && failed(cudaStreamSynchronize(streams[k])))
          return "not finished";
      }
    }
    for (int k = 0; k < 2; ++k) {
      if (failed(cudaStreamSynchronize(streams[k]))) return "not finished";
      program.destroy(instances[k]);
      if (failed(cudaStreamDestroy(streams[k]))) return "no stream";
    }
    return failed(cudaFree(memory)) ? "not freed" : nullptr;
  }
};

TEST_F(TwoInstances, ShareNothingThatTheyWrite) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    emulated::options().max_delay = std::chrono::microseconds(200);
    emulated::options().seed = seed;
    for (const Share share : {Share::kNothing, Share::kInput, Share::kOutputInOrder}) {
      EXPECT_EQ(run(share), nullptr);
      EXPECT_THAT(found(), IsEmpty()) << static_cast<int>(share);
    }
  }
}

TEST_F(TwoInstances, ThatWriteOneOutputRace) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_EQ(run(Share::kOutput), nullptr);
  EXPECT_THAT(found(), Contains(AllOf(HasSubstr("race: nothing orders the write by"),
                                      HasSubstr("cudaMalloc #0 of rank 0"))));
}

}  // namespace
}  // namespace braid::test
