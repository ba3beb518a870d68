// How long an instance waits for missing peers, in every call that waits, and whenever it is destroyed.
#include <atomic>
#include <latch>

#include "tests/codegen_cuda/program_rank.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kProgram = "lost_all_reduce_2";
constexpr int64_t kTimeOutMs = 300;

int one_is_missing(void*, int, char* text, uint64_t bytes) {
  std::snprintf(text, bytes, "rank 1 is away");
  return 1;
}

class TimeOuts : public CudaCase {
 protected:
  // Rank 0 runs a step that rank 1 does not take part in until rank 0 has done `then`, and then `late` says.
  static void alone(BraidCudaCreateInfo info, const std::function<void(ProgramRank&)>& then,
                    bool late = false) {
    const BraidCudaProgram& program = *program_of(kProgram);
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::latch done(1);
    const std::vector<std::string> errors = run_ranks(2, [&](int rank) -> const char* {
      ProgramRank self(program, rank, id, info);
      self.prepare({});
      float *const x = self.floats(std::vector<float>(8)), *const y = self.floats(std::vector<float>(8));
      if (rank == 0) {
        EXPECT_EQ(self.run({x}, {y}), BRAID_OK) << self.message;
        then(self);
        done.count_down();
      } else {
        done.wait();
        if (late) {
          EXPECT_EQ(self.run({x}, {y}), BRAID_OK) << self.message;
        }
      }
      if (late) {
        EXPECT_EQ(self.synchronize(-1), BRAID_OK) << self.message;
      }
      self.destroy();
      EXPECT_TRUE(self.communicator_works());
      EXPECT_EQ(self.error, "");
      return nullptr;
    });
    EXPECT_THAT(errors, Each(IsEmpty()));
    EXPECT_THAT(found(), IsEmpty());
  }
  static BraidCudaCreateInfo with_time_out(int64_t ms) {
    BraidCudaCreateInfo info = {};
    info.timeout_ms = ms;
    return info;
  }
};

TEST_F(TimeOuts, WhoeverAsksIsToldOfAStepThatDoesNotEnd) {
  const auto expect_lost = [](ProgramRank& self, BraidStatus status) {
    EXPECT_EQ(status, BRAID_COMM_ERROR);
    EXPECT_EQ(self.message, "a step is not done 300 ms after the device has begun it");
  };
  const BraidCudaCreateInfo info = with_time_out(kTimeOutMs);
  const BraidCudaProgram& program = *program_of(kProgram);
  alone(info, [&](ProgramRank& self) { expect_lost(self, self.synchronize(-1)); });
  alone(info, [&](ProgramRank& self) {
    BraidStatus status = BRAID_OK;
    while (status == BRAID_OK) status = program.status(self.instance());
    self.message = program.last_error(self.instance());
    expect_lost(self, status);
    // It stays lost.
    expect_lost(self, self.synchronize(-1));
    expect_lost(self, program.status(self.instance()));
  });
}

TEST_F(TimeOuts, AWaitThatIsTooShortIsNoLoss) {
  alone(
      with_time_out(60000),
      [](ProgramRank& self) {
        EXPECT_EQ(self.synchronize(20), BRAID_COMM_ERROR);
        EXPECT_EQ(self.message, "the step is not done after 20 ms");
      },
      true);
}

TEST_F(TimeOuts, AWaitFindsWhoIsMissing) {
  BraidCudaCreateInfo info = with_time_out(60000);
  info.missing = one_is_missing;
  alone(info, [](ProgramRank& self) {
    EXPECT_EQ(self.synchronize(20), BRAID_COMM_ERROR);
    EXPECT_EQ(self.message, "the step cannot be completed: rank 1 is away");
  });
}

TEST_F(TimeOuts, DestroyEndsAStepThatNobodyHasWaitedFor) {
  alone(with_time_out(kTimeOutMs), [](ProgramRank& self) { self.destroy(); });
}

TEST_F(TimeOuts, TheVariableIsTheDefault) {
  setenv("BRAID_TIMEOUT_MS", "250", 1);
  alone(with_time_out(0), [](ProgramRank& self) {
    EXPECT_EQ(self.synchronize(-1), BRAID_COMM_ERROR);
    EXPECT_EQ(self.message, "a step is not done 250 ms after the device has begun it");
  });
  setenv("BRAID_TIMEOUT_MS", "0", 1);
  ncclUniqueId id = {};
  EXPECT_THAT(ProgramRank(*program_of("negated"), 0, id, {}).error,
              HasSubstr("BRAID_TIMEOUT_MS='0' is not a number"));
  unsetenv("BRAID_TIMEOUT_MS");
}

// Nor does the time of work before a step count: here three times 600 ms, with a time-out of 1000 ms.
TEST_F(TimeOuts, TimeBeforeAStepBeginsDoesNotCount) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const std::vector<std::string> errors = run_ranks(2, [&](int rank) -> const char* {
    ProgramRank self(*program_of(kProgram), rank, id, with_time_out(1000));
    self.prepare({});
    float *const x = self.floats(std::vector<float>(8)), *const y = self.floats(std::vector<float>(8));
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(cudaLaunchHostFunc(
                    self.stream(), [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(600)); },
                    nullptr),
                cudaSuccess);
      EXPECT_EQ(self.run({x}, {y}), BRAID_OK) << self.message;
    }
    EXPECT_EQ(self.synchronize(-1), BRAID_OK) << self.message;
    return self.ok() ? nullptr : "failed";
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
  EXPECT_THAT(found(), IsEmpty());
}

// The instance uses the caller's communicator only in `create`.
TEST_F(TimeOuts, TheCallersCommunicatorMayEndBeforeTheInstance) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const std::vector<std::string> errors = run_ranks(2, [&](int rank) -> const char* {
    ProgramRank self(*program_of(kProgram), rank, id, with_time_out(60000));
    self.prepare({});
    float *const x = self.floats(std::vector<float>(8, 1)), *const y = self.floats(std::vector<float>(8));
    self.abort_communicator();
    EXPECT_EQ(self.run({x}, {y}), BRAID_OK) << self.message;
    EXPECT_EQ(self.synchronize(-1), BRAID_OK) << self.message;
    EXPECT_THAT(self.read(y, 8), Each(4.0f));
    self.destroy();
    return self.ok() ? nullptr : "failed";
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
  EXPECT_THAT(found(), IsEmpty());
}

// Returns the error text of `create` on rank 0 if rank 1 does not call it.
std::string create_alone(BraidCudaCreateInfo info) {
  std::string message;
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::latch created(1);
  const std::vector<std::string> errors = run_ranks(2, [&](int rank) -> const char* {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    if (cudaSetDevice(rank) != cudaSuccess) return "no device";
    ncclResult_t state = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    while (state == ncclInProgress)
      if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) return "no state";
    if (rank == 0) {
      info.abi_version = BRAID_CUDA_ABI_VERSION;
      info.struct_size = sizeof(info);
      info.comm = comm;
      info.missing = one_is_missing;
      BraidCudaInstance* instance = nullptr;
      const BraidCudaProgram& program = *program_of(kProgram);
      EXPECT_EQ(program.create(&info, &instance), BRAID_COMM_ERROR);
      message = program.last_error(nullptr);
      created.count_down();
    } else {
      created.wait();
    }
    return ncclCommAbort(comm) == ncclSuccess ? nullptr : "not aborted";
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
  return message;
}

TEST_F(TimeOuts, APeerThatDoesNotCreateIsMissed) {
  EXPECT_EQ(create_alone(with_time_out(kTimeOutMs)),
            "ncclCommSplit is not done after 300 ms: rank 1 is away");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(TimeOuts, APeerThatIsLostEndsCreateAtOnce) {
  BraidCudaCreateInfo info = with_time_out(-1);
  info.lost = [](void*) { return 1; };
  EXPECT_EQ(create_alone(info), "ncclCommSplit cannot be completed: rank 1 is away");
  EXPECT_THAT(found(), IsEmpty());
}

// Also without a time-out, and although NCCL does not tell them.
TEST_F(TimeOuts, RanksDoNotWaitForOneThatCannotBegin) {
  static const BraidCudaProgram& program = *program_of(kProgram);
  BraidCudaProgram faulty = program;
  faulty.create = [](const BraidCudaCreateInfo* info, BraidCudaInstance** out) {
    int device = 0;
    if (cudaGetDevice(&device) == cudaSuccess && device == 1) return BRAID_OUT_OF_MEMORY;
    return program.create(info, out);
  };
  faulty.last_error = [](const BraidCudaInstance*) { return "no memory"; };
  const std::vector<float> x(8);
  std::vector<float> y(8);
  const void* in = x.data();
  void* out = y.data();
  const BraidCudaHostRank ranks[2] = {{&in, &out, nullptr, 0}, {&in, &out, nullptr, 0}};
  BraidCudaHostRun run = {};
  run.struct_size = sizeof(run);
  run.program = &faulty;
  run.ranks = ranks;
  run.steps = 1;
  run.timeout_ms = -1;
  char message[512];
  EXPECT_EQ(braid_cuda_host_run(&run, message, sizeof(message)), BRAID_OUT_OF_MEMORY);
  EXPECT_STREQ(message, "rank 1: no memory");
  EXPECT_THAT(found(), IsEmpty());
}

// Nothing that the instance could end keeps the step from its beginning: destroy leaves it to the device.
TEST_F(TimeOuts, DestroyDoesNotWaitForACallerWhoHoldsItsStream) {
  std::latch released(1);
  std::atomic<bool> over = false;
  ncclUniqueId id = {};
  {
    ProgramRank self(*program_of("negated"), 0, id, with_time_out(kTimeOutMs));
    self.prepare({8});
    float *const x = self.floats(std::vector<float>(8, 1)), *const y = self.floats(std::vector<float>(8));
    ASSERT_EQ(self.run({x}, {y}), BRAID_OK);
    ASSERT_EQ(self.synchronize(-1), BRAID_OK);
    ASSERT_EQ(cudaLaunchHostFunc(
                  self.stream(), [](void* latch) { static_cast<std::latch*>(latch)->wait(); }, &released),
              cudaSuccess);
    ASSERT_EQ(self.run({x}, {y}), BRAID_OK);
    EXPECT_EQ(self.synchronize(10), BRAID_COMM_ERROR);
    self.destroy();
    over = true;
    released.count_down();
    EXPECT_THAT(self.read(y, 8), Each(-1.0f));
  }
  EXPECT_TRUE(over);
  EXPECT_THAT(found(), IsEmpty());
}

}  // namespace
}  // namespace braid::test
