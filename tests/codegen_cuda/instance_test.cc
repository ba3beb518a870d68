// Errors of an instance before its first step.
#include "runtime/emulated/cuda_api.h"
#include "runtime/emulated/nccl_api.h"
#include "tests/codegen_cuda/planted.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Four products of one token and a cache of 5: inputs x[1,24] k[5,16] v[5,16] wq[24,16] wo[16,12], output
// y[1,12].
class CudaInstance : public CudaCase {
 protected:
  void SetUp() override {
    CudaCase::SetUp();
    for (int k = 0; k < 6; ++k) {
      ASSERT_EQ(cudaMalloc(&memory_[k], 4096), cudaSuccess);
      ASSERT_EQ(cudaMemset(memory_[k], 0, 4096), cudaSuccess);
    }
    ASSERT_EQ(create(), BRAID_OK) << program_.last_error(nullptr);
    const std::int64_t past = 5;
    ASSERT_EQ(program_.prepare(instance_, &past), BRAID_OK);
  }
  void TearDown() override {
    program_.destroy(instance_);
    for (void* memory : memory_) cudaFree(memory);
    CudaCase::TearDown();
  }
  BraidStatus create() {
    BraidCudaCreateInfo info = {};
    info.abi_version = BRAID_CUDA_ABI_VERSION;
    info.struct_size = sizeof(info);
    return program_.create(&info, &instance_);
  }
  // With `pointer` for the input `which`, or for the output if it is 5.
  BraidStatus run(int which, void* pointer) {
    std::vector<void*> all(memory_, memory_ + 6);
    all[static_cast<std::size_t>(which)] = pointer;
    void* outputs[] = {all[5]};
    const BraidStatus status = program_.run(instance_, all.data(), outputs, nullptr);
    return status == BRAID_OK ? program_.synchronize(instance_, -1) : status;
  }
  std::string message() const { return program_.last_error(instance_); }

  const BraidCudaProgram& program_ = *program_of("decode_products");
  BraidCudaInstance* instance_ = nullptr;
  void* memory_[6] = {};
};

TEST_F(CudaInstance, MemoryThatIsNotItsDevicesIsRefusedAndTheNextStepRuns) {
  std::vector<float> host(64);
  void *pinned = nullptr, *there = nullptr, *freed = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 4096), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&freed, 4096), cudaSuccess);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&there, 4096), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  for (const int which : {0, 3, 5}) {
    const std::string name = which == 0 ? "input 'x'" : which == 3 ? "input 'wq'" : "output 'y'";
    for (void* wrong : {static_cast<void*>(host.data()), pinned, freed}) {
      EXPECT_EQ(run(which, wrong), BRAID_INVALID_ARGUMENT);
      EXPECT_THAT(message(), AllOf(HasSubstr(name), HasSubstr("is not device memory")));
    }
    EXPECT_EQ(run(which, there), BRAID_INVALID_ARGUMENT);
    EXPECT_THAT(message(), AllOf(HasSubstr(name), HasSubstr("memory of device 1")));
    EXPECT_EQ(run(which, static_cast<char*>(memory_[which]) + 2), BRAID_INVALID_ARGUMENT);
    EXPECT_THAT(message(), AllOf(HasSubstr(name), HasSubstr("is not a multiple of 16 bytes")));
    EXPECT_EQ(run(which, memory_[which]), BRAID_OK) << message();
  }
  cudaFreeHost(pinned);
  cudaFree(there);
}

TEST_F(CudaInstance, TooLittleMemoryIsSaidWithWhatIsNeeded) {
  BraidCudaInstance* const first = instance_;
  emulated::options().device_bytes = 6 * 4096;
  EXPECT_EQ(create(), BRAID_OUT_OF_MEMORY);
  EXPECT_THAT(program_.last_error(nullptr), AllOf(HasSubstr("no device memory"), HasSubstr("for activations"),
                                                  HasSubstr("for weights"), HasSubstr("are free")));
  EXPECT_EQ(instance_, nullptr);
  instance_ = first;
}

// In each of two ranks, what `create` says; empty if it succeeds.
class CreateOfRanks : public CudaCase {
 protected:
  void TearDown() override {
    planted_call = {};
    CudaCase::TearDown();
  }
  static std::vector<std::string> create(const BraidCudaProgram& program) {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    return run_ranks(2, [&](int rank) -> const char* {
      ncclComm_t comm = nullptr;
      if (cudaSetDevice(rank) != cudaSuccess || ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess)
        return "no communicator";
      BraidCudaCreateInfo info = {};
      info.abi_version = BRAID_CUDA_ABI_VERSION;
      info.struct_size = sizeof(info);
      info.comm = comm;
      BraidCudaInstance* instance = nullptr;
      const BraidStatus status = program.create(&info, &instance);
      if (status == BRAID_OK) program.destroy(instance);
      ncclCommDestroy(comm);
      return status == BRAID_OK ? nullptr : program.last_error(nullptr);
    });
  }
};

TEST_F(CreateOfRanks, NamesTheRankThatCannotBegin) {
  const BraidCudaProgram& program = *program_of("peers_2_any_size_one_shot");
  EXPECT_THAT(create(program), ElementsAre("", ""));
  emulated::options().device_bytes = 4 << 20;
  void* taken = nullptr;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&taken, (4 << 20) - program.comm_bytes), cudaSuccess);
  EXPECT_THAT(create(program), ElementsAre(HasSubstr("rank 1 cannot begin"), HasSubstr("no device memory")));
  ASSERT_EQ(cudaFree(taken), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(CreateOfRanks, WhatNcclRefusesIsNotLackOfMemory) {
  planted_call = {"ncclMemAlloc", "any"};
  EXPECT_THAT(create(*program_of("collectives_2_f32")), Each(StartsWith("ncclMemAlloc: ")));
}

}  // namespace
}  // namespace braid::test
