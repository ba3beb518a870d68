#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/cuda_gemm.h"
#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"
#include "tests/emulated/program_faults.h"

namespace {

constexpr int kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);

__global__ void set_kernel(float* out) { out[threadIdx.x] = 1.0f; }
__global__ void copy_kernel(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void count_kernel(int* counter) { atomicAdd(counter, 1); }
__global__ void take_kernel(const int* counter, float* out) { out[0] = static_cast<float>(*counter); }

// The resources of a program of one rank.
struct Rank {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr, other = nullptr;
  float *a = nullptr, *b = nullptr, *c = nullptr, *pinned = nullptr;  // of kBytes; `c` is never written
  ncclComm_t comm = nullptr, part = nullptr;                          // of all ranks, with several

  const char* make(const FaultRun& run) {
    CHECK_CUDA(cudaSetDevice(run.rank));
    for (cudaStream_t* each : {&first, &second})
      CHECK_CUDA(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking));
    for (cudaEvent_t* each : {&event, &other})
      CHECK_CUDA(cudaEventCreateWithFlags(each, cudaEventDisableTiming));
    for (float** each : {&a, &b, &c}) CHECK_CUDA(cudaMalloc(each, kBytes));
    CHECK_CUDA(cudaMallocHost(&pinned, kBytes));
    std::memset(pinned, 0, kBytes);
    for (float* each : {a, b}) CHECK_CUDA(cudaMemset(each, 0, kBytes));
    if (run.ranks == 1) return nullptr;
    ncclUniqueId id;
    for (int i = 0; i < 128; ++i) id.internal[i] = run.id[i];
    CHECK_NCCL(ncclCommInitRank(&comm, run.ranks, id, run.rank));
    CHECK_NCCL(ncclCommSplit(comm, 0, run.rank, &part, nullptr));
    return nullptr;
  }
  const char* release() {
    for (cudaStream_t each : {first, second}) CHECK_CUDA(cudaStreamSynchronize(each));
    for (float* each : {a, b, c}) CHECK_CUDA(cudaFree(each));
    if (pinned != nullptr) CHECK_CUDA(cudaFreeHost(pinned));
    for (cudaEvent_t each : {event, other}) CHECK_CUDA(cudaEventDestroy(each));
    for (cudaStream_t each : {first, second}) CHECK_CUDA(cudaStreamDestroy(each));
    for (ncclComm_t each : {part, comm})
      if (each != nullptr) CHECK_NCCL(ncclCommDestroy(each));
    return nullptr;
  }
  // Both streams have done all.
  const char* wait() {
    for (cudaStream_t each : {first, second}) CHECK_CUDA(cudaStreamSynchronize(each));
    return nullptr;
  }
  const char* finish() {
    if (const char* error = finish_or_abort(first, comm, 1000)) {
      comm = part = nullptr;
      return error;
    }
    return nullptr;
  }
};

// `steps` are statements on a `Rank` r.
#define PROGRAM(...)                                               \
  [](const FaultRun& run) -> const char* {                         \
    (void)run;                                                     \
    Rank r;                                                        \
    if (const char* error = r.make(run)) return error;             \
    BRAID_LABEL("node");                                           \
    const auto steps = [&]() -> const char* {                      \
      __VA_ARGS__;                                                 \
      return nullptr;                                              \
    };                                                             \
    const char* error = steps();                                   \
    BRAID_LABEL("");                                               \
    if (error == nullptr && r.comm != nullptr) error = r.finish(); \
    return error != nullptr ? error : r.release();                 \
  }
#define SET(stream, to) CHECK_CUDA(BRAID_LAUNCH(set_kernel, 1, kCount, 0, r.stream, to))
#define COPY(stream, from, to) CHECK_CUDA(BRAID_LAUNCH(copy_kernel, 1, kCount, 0, r.stream, from, to))
#define RECORD(e, stream) CHECK_CUDA(cudaEventRecord(r.e, r.stream))
#define WAIT(stream, e) CHECK_CUDA(cudaStreamWaitEvent(r.stream, r.e, 0))

const char* multiply(cudaStream_t stream, const float* a, const float* b, float* d, int64_t lda = 0) {
  braid::rt::cuda::GemmProblem problem;
  problem.m = problem.n = problem.k = 4;
  problem.lda = lda;
  static thread_local braid::rt::cuda::Gemm gemm;
  CHECK_CUDA(gemm.prepare(problem));
  braid::rt::cuda::GemmOperands operands;
  operands.a = a;
  operands.b = b;
  operands.d = d;
  CHECK_CUDA(gemm.run(operands, stream));
  return nullptr;
}
#define MULTIPLY(...) \
  if (const char* failed = multiply(__VA_ARGS__)) return failed

#define ALL_REDUCE(comm_, from, to, count) \
  CHECK_NCCL(ncclAllReduce(from, to, count, ncclFloat32, ncclSum, r.comm_, r.first))

// ---- variables of host code that ranks share

int counter = 0, constant = 5;
std::atomic<int> atomic_counter{0};
std::mutex counter_mutex;
int locked_counter = 0;
float shared_scale = 0.0f;

__attribute__((noinline)) int count_calls() { return ++counter; }
__attribute__((noinline)) int count_locked() {
  const std::lock_guard lock(counter_mutex);
  return ++locked_counter;
}
__attribute__((noinline)) const int& made_once() {
  static const int& made = *new int(7);
  return made;
}
__attribute__((noinline)) int own_counter() {
  thread_local int own = 0;
  return ++own;
}

// All ranks have come so far.
const char* meet(Rank& r) {
  ALL_REDUCE(comm, r.a, r.a, 1);
  CHECK_CUDA(cudaStreamSynchronize(r.first));
  return nullptr;
}
#define MEET \
  if (const char* failed = meet(r)) return failed

template <class T>
const char* used(const T& value) {
  asm volatile("" : : "m"(value));
  return nullptr;
}

const char* kRace = "race";
const char* kUninitialized = "uninitialized read";
const char* kIllegal = "illegal access";
const char* kInvalid = "invalid use";
const char* kHostAccess = "host access";
const char* kMismatch = "collective mismatch";
const char* kTimeOut = "collective time-out";
const char* kOrder = "collective order";
const char* kScope = "step scope";
const char* kUnchecked = "unchecked error";

const std::vector<ProgramFault> kStreams = {
    {"two streams write one buffer", 1, PROGRAM(SET(first, r.a); SET(second, r.a)), kRace,
     "nothing orders the write by set_kernel [node] on rank 0 stream 0 and the write by set_kernel [node] on "
     "rank 0 stream 1"},
    {"a stream reads what another writes", 1, PROGRAM(SET(first, r.a); COPY(second, r.a, r.b)), kRace,
     "nothing orders the read by copy_kernel [node] on rank 0 stream 1 and the write by set_kernel"},
    {"a stream overwrites what another reads", 1, PROGRAM(COPY(first, r.a, r.b); SET(second, r.a)), kRace,
     "nothing orders the read by copy_kernel [node] on rank 0 stream 0 and the write by set_kernel"},
    {"an event before the kernel", 1,
     PROGRAM(RECORD(event, first); SET(first, r.a); WAIT(second, event); COPY(second, r.a, r.b)), kRace,
     "the write by set_kernel [node] on rank 0 stream 0"},
    {"an event of another stream", 1,
     PROGRAM(SET(first, r.a); RECORD(event, second); WAIT(second, event); COPY(second, r.a, r.b)), kRace,
     "the write by set_kernel [node] on rank 0 stream 0"},
    {"another event", 1,
     PROGRAM(RECORD(other, first); SET(first, r.a); RECORD(event, first); WAIT(second, other);
             COPY(second, r.a, r.b)),
     kRace, "the read by copy_kernel [node] on rank 0 stream 1"},
    {"an event that was never recorded", 1,
     PROGRAM(SET(first, r.a); WAIT(second, event); COPY(second, r.a, r.b)), kRace, "copy_kernel"},
    {"a wait behind the kernel", 1,
     PROGRAM(SET(first, r.a); RECORD(event, first); COPY(second, r.a, r.b); WAIT(second, event)), kRace,
     "copy_kernel"},
    {"an event between streams", 1,
     PROGRAM(SET(first, r.a); RECORD(event, first); WAIT(second, event); COPY(second, r.a, r.b)), nullptr,
     ""},
    {"a memset beside a kernel", 1,
     PROGRAM(SET(first, r.a); CHECK_CUDA(cudaMemsetAsync(r.a, 0, kBytes, r.second))), kRace,
     "the write by memset [node] on rank 0 stream 1"},
    {"a copy beside a kernel", 1,
     PROGRAM(SET(first, r.a);
             CHECK_CUDA(cudaMemcpyAsync(r.b, r.a, kBytes, cudaMemcpyDeviceToDevice, r.second))),
     kRace, "the read by copy device to device [node] on rank 0 stream 1"},
    {"a download beside a kernel", 1,
     PROGRAM(SET(first, r.a);
             CHECK_CUDA(cudaMemcpyAsync(r.pinned, r.a, kBytes, cudaMemcpyDeviceToHost, r.second))),
     kRace, "the read by copy device to host [node] on rank 0 stream 1"},
    {"an upload beside a kernel", 1,
     PROGRAM(COPY(first, r.a, r.b);
             CHECK_CUDA(cudaMemcpyAsync(r.a, r.pinned, kBytes, cudaMemcpyHostToDevice, r.second))),
     kRace, "the write by copy host to device [node] on rank 0 stream 1"},
    {"the default stream does not wait for others", 1,
     PROGRAM(SET(first, r.a); CHECK_CUDA(BRAID_LAUNCH(copy_kernel, 1, kCount, 0, nullptr, r.a, r.b))), kRace,
     "stream 0 (legacy default)"},
    {"a second host thread", 1,
     PROGRAM(
         SET(first, r.a); cudaError_t launched = cudaSuccess;
         std::thread([&] { launched = BRAID_LAUNCH(copy_kernel, 1, kCount, 0, r.second, r.a, r.b); }).join();
         CHECK_CUDA(launched)),
     kRace, "the read by copy_kernel on rank 0 stream 1"},
    {"a product beside a kernel", 1, PROGRAM(SET(first, r.a); MULTIPLY(r.second, r.a, r.b, r.c)), kRace,
     "the read by Gemm [node] on rank 0 stream 1"},
    {"a kernel beside a product", 1, PROGRAM(MULTIPLY(r.first, r.a, r.b, r.c); SET(second, r.b)), kRace,
     "the read by Gemm [node] on rank 0 stream 0"},
    {"a plain read beside atomics", 1,
     PROGRAM(auto* count = reinterpret_cast<int*>(r.a);
             CHECK_CUDA(BRAID_LAUNCH(count_kernel, 1, kCount, 0, r.first, count));
             CHECK_CUDA(BRAID_LAUNCH(take_kernel, 1, 1, 0, r.second, count, r.b))),
     kRace, "the atomic access by count_kernel [node] on rank 0 stream 0"},
};

const std::vector<ProgramFault> kMemory = {
    {"a copy of what nobody wrote", 1,
     PROGRAM(CHECK_CUDA(cudaMemcpyAsync(r.a, r.c, kBytes, cudaMemcpyDeviceToDevice, r.first))),
     kUninitialized, "copy device to device [node] on rank 0 stream 0 reads bytes [0, 256)"},
    {"a download of what nobody wrote", 1,
     PROGRAM(CHECK_CUDA(cudaMemcpyAsync(r.pinned, r.c, kBytes, cudaMemcpyDeviceToHost, r.first))),
     kUninitialized, "copy device to host"},
    {"a product of what nobody wrote", 1, PROGRAM(MULTIPLY(r.first, r.a, r.c, r.b)), kUninitialized,
     "Gemm [node] on rank 0 stream 0 reads bytes [0, 64)"},
    {"a kernel behind half a memset", 1,
     PROGRAM(CHECK_CUDA(cudaMemsetAsync(r.c, 0, kBytes / 2, r.first)); COPY(first, r.c, r.a)), kUninitialized,
     "copy_kernel [node] on rank 0 stream 0 reads bytes [128, 256)"},
    {"memory that was freed and allocated again", 1,
     PROGRAM(SET(first, r.c); if (const char* failed = r.wait()) return failed; CHECK_CUDA(cudaFree(r.c));
             CHECK_CUDA(cudaMalloc(&r.c, kBytes)); COPY(first, r.c, r.a)),
     kUninitialized, "copy_kernel [node]"},
    {"a memset past the end", 1, PROGRAM(CHECK_CUDA(cudaMemsetAsync(r.a, 0, kBytes + 1, r.first))), kIllegal,
     "memset [node] on rank 0 stream 0, write of 257 bytes out of bounds"},
    {"a copy past the end", 1,
     PROGRAM(CHECK_CUDA(cudaMemcpyAsync(r.a + 1, r.b, kBytes, cudaMemcpyDeviceToDevice, r.first))), kIllegal,
     "copy device to device [node] on rank 0 stream 0, write of 256 bytes out of bounds"},
    {"a copy from before the beginning", 1,
     PROGRAM(CHECK_CUDA(cudaMemcpyAsync(r.a, r.b - 1, kBytes, cudaMemcpyDeviceToDevice, r.first))), kIllegal,
     "read of 256 bytes"},
    {"a download past the end", 1,
     PROGRAM(CHECK_CUDA(cudaMemcpyAsync(r.pinned, r.a + 1, kBytes, cudaMemcpyDeviceToHost, r.first))),
     kIllegal, "read of 256 bytes out of bounds"},
    {"an upload past the end", 1,
     PROGRAM(CHECK_CUDA(cudaMemcpyAsync(r.a + 1, r.pinned, kBytes, cudaMemcpyHostToDevice, r.first))),
     kIllegal, "write of 256 bytes out of bounds"},
    {"a copy from freed memory", 1,
     PROGRAM(float* freed = r.c; CHECK_CUDA(cudaFree(r.c)); r.c = nullptr;
             CHECK_CUDA(cudaMemcpyAsync(r.a, freed, kBytes, cudaMemcpyDeviceToDevice, r.first))),
     kIllegal, "in freed memory"},
    {"a memset of freed memory", 1,
     PROGRAM(float* freed = r.c; CHECK_CUDA(cudaFree(r.c)); r.c = nullptr;
             CHECK_CUDA(cudaMemsetAsync(freed, 0, kBytes, r.first))),
     kIllegal, "memset [node] on rank 0 stream 0, write of 256 bytes in freed memory"},
    {"a kernel on freed pinned memory", 1,
     PROGRAM(float* freed = r.pinned; CHECK_CUDA(cudaFreeHost(r.pinned)); r.pinned = nullptr;
             COPY(first, freed, r.a)),
     kIllegal, "in freed memory: cudaHostAlloc #0"},
    {"freed twice", 1,
     PROGRAM(float* freed = r.c; CHECK_CUDA(cudaFree(r.c)); r.c = nullptr; CHECK_CUDA(cudaFree(freed))),
     kInvalid, "cudaFree on rank 0 of a pointer that is not the start of a live cudaMalloc allocation"},
    {"freed within", 1, PROGRAM(CHECK_CUDA(cudaFree(r.a + 4))), kInvalid, "cudaFree on rank 0"},
    {"pinned memory freed as the device's", 1, PROGRAM(CHECK_CUDA(cudaFree(r.pinned))), kInvalid,
     "cudaFree on rank 0"},
    {"device memory freed as pinned", 1, PROGRAM(CHECK_CUDA(cudaFreeHost(r.a))), kInvalid,
     "cudaFreeHost on rank 0"},
    {"the host's memory freed as the device's", 1, PROGRAM(float local = 0; CHECK_CUDA(cudaFree(&local))),
     kInvalid, "cudaFree on rank 0"},
    {"a copy in the wrong direction", 1,
     PROGRAM(CHECK_CUDA(cudaMemcpyAsync(r.a, r.pinned, kBytes, cudaMemcpyDeviceToHost, r.first))), kInvalid,
     "this is a copy host to device"},
    {"a product of the host's memory", 1,
     PROGRAM(float local[16] = {}; MULTIPLY(r.first, r.a, local, r.b);
             if (const char* failed = r.wait()) return failed),
     kIllegal, "Gemm [node] on rank 0 stream 0, an operand is not device memory"},
    {"a product of a null pointer", 1, PROGRAM(MULTIPLY(r.first, nullptr, r.a, r.b)), kIllegal,
     "an operand is not device memory"},
    {"a product past the end", 1, PROGRAM(MULTIPLY(r.first, r.a, r.b, r.c, 32)), kIllegal,
     "Gemm [node] on rank 0 stream 0, read of 16 bytes out of bounds"},
    {"a product of misaligned operands", 1, PROGRAM(MULTIPLY(r.first, r.a + 1, r.b, r.c)), kInvalid,
     "operand A is misaligned"},
    {"host code writes device memory", 1, PROGRAM(r.a[3] = 1.0f), kHostAccess,
     "host code of rank 0 writes 4 bytes of device memory by itself: cudaMalloc #0"},
    {"host code copies device memory", 1,
     PROGRAM(float local[kCount]; size_t bytes = kBytes; asm volatile(""
                                                                      : "+r"(bytes));
             std::memcpy(local, r.a, bytes); used(local[3])),
     kHostAccess, "host code of rank 0 reads 256 bytes of device memory by itself"},
    {"host code reads freed memory", 1,
     PROGRAM(float* freed = r.c; CHECK_CUDA(cudaFree(r.c)); r.c = nullptr; used(freed[0] + 1.0f)),
     kHostAccess, "which is freed"},
    {"host code reads pinned memory too early", 1,
     PROGRAM(CHECK_CUDA(cudaMemcpyAsync(r.pinned, r.a, kBytes, cudaMemcpyDeviceToHost, r.first));
             used(r.pinned[3] + 1.0f)),
     kRace, "the read by host code on the host thread of rank 0"},
};

const std::vector<ProgramFault> kSteps = {
    {"a step does not follow its caller", 1,
     PROGRAM(SET(first, r.a); braid::rt::cuda::StepScope step(r.first); COPY(second, r.a, r.b);
             RECORD(event, second); WAIT(first, event); step.done()),
     kScope, "copy_kernel [node] on rank 0 stream 1 does not follow what was on the caller's stream 0"},
    {"a step is not joined", 1,
     PROGRAM(braid::rt::cuda::StepScope step(r.first); RECORD(event, first); WAIT(second, event);
             COPY(second, r.a, r.b); step.done()),
     kScope, "the caller's stream 0 does not wait for the last work that a step puts on another stream"},
    {"a step allocates", 1,
     PROGRAM(braid::rt::cuda::StepScope step(r.first); float* more = nullptr;
             CHECK_CUDA(cudaMalloc(&more, kBytes)); step.done(); CHECK_CUDA(cudaFree(more))),
     kScope, "cudaMalloc [node] on rank 0 within a step"},
    {"a step waits", 1,
     PROGRAM(braid::rt::cuda::StepScope step(r.first); CHECK_CUDA(cudaDeviceSynchronize()); step.done()),
     kScope, "cudaDeviceSynchronize [node] on rank 0 within a step"},
    {"a step copies pageable memory", 1,
     PROGRAM(braid::rt::cuda::StepScope step(r.first); float local[kCount] = {};
             CHECK_CUDA(cudaMemcpyAsync(r.a, local, kBytes, cudaMemcpyHostToDevice, r.first)); step.done()),
     kScope, "cudaMemcpyAsync with pageable host memory [node]"},
    {"a launch that nobody checks", 1, PROGRAM((void)BRAID_LAUNCH(set_kernel, 1, kCount, 0, r.first, r.a)),
     kUnchecked, "nobody looks at whether the launch of set_kernel [node] on rank 0 succeeded"},
    {"a failed copy that nobody checks", 1,
     PROGRAM(braid::rt::cuda::StepScope step(r.first);
             cudaMemcpyAsync(r.a, nullptr, kBytes, cudaMemcpyDefault, r.first); step.done()),
     kUnchecked, "cudaMemcpyAsync [node] on rank 0 returned 'invalid argument'"},
    {"a block too large", 1, PROGRAM(CHECK_CUDA(BRAID_LAUNCH(set_kernel, 1, 2048, 0, r.first, r.a))),
     kInvalid, "launch of set_kernel [node] on rank 0: a block of (2048,1,1)"},
};

const std::vector<ProgramFault> kVariables = {
    {"ranks count in one variable", 2, PROGRAM(MEET; used(count_calls()); MEET), kRace,
     "host code [node] of several ranks touches a static variable"},
    {"a rank reads what another has written in its step", 2,
     PROGRAM(
         MEET; if (run.rank == 0) {
           braid::rt::cuda::StepScope step(r.first);
           shared_scale = 2.0f;
           step.done();
         } MEET;
         if (run.rank == 1) {
           braid::rt::cuda::StepScope step(r.first);
           used(shared_scale);
           asm volatile("" : : "r"(&shared_scale) : "memory");
           const float scale = shared_scale;
           used(scale);
           step.done();
         } MEET),
     kRace, "host code [node] of several ranks touches a static variable"},
    {"ranks count with a lock", 2, PROGRAM(MEET; used(count_locked()); MEET; used(count_locked()); MEET),
     nullptr, ""},
    {"ranks count atomically", 2, PROGRAM(MEET; used(++atomic_counter); MEET), nullptr, ""},
    {"ranks read a variable", 2, PROGRAM(MEET; used(constant + 1); MEET), nullptr, ""},
    {"ranks make a local static variable", 2, PROGRAM(MEET; used(made_once()); MEET; used(made_once()); MEET),
     nullptr, ""},
    {"ranks have a variable each", 2, PROGRAM(MEET; used(own_counter()); MEET), nullptr, ""},
};

const std::vector<ProgramFault> kCollectives = {
    {"all is right", 2, PROGRAM(ALL_REDUCE(comm, r.a, r.b, kCount)), nullptr, ""},
    {"types differ", 2,
     PROGRAM(CHECK_NCCL(
         ncclAllReduce(r.a, r.b, kCount, run.rank == 0 ? ncclFloat32 : ncclInt32, ncclSum, r.comm, r.first))),
     kMismatch, "rank 1 calls ncclAllReduce(64 x int32, sum)"},
    {"operations differ", 2,
     PROGRAM(CHECK_NCCL(
         ncclAllReduce(r.a, r.b, kCount, ncclFloat32, run.rank == 0 ? ncclSum : ncclMax, r.comm, r.first))),
     kMismatch, "rank 1 calls ncclAllReduce(64 x float32, max)"},
    {"collectives differ", 2,
     PROGRAM(if (run.rank == 0) ALL_REDUCE(comm, r.a, r.b, kCount);
             else CHECK_NCCL(ncclAllGather(r.a, r.b, kCount / 2, ncclFloat32, r.comm, r.first))),
     kMismatch, "rank 1 calls ncclAllGather(32 x float32)"},
    {"counts differ", 2, PROGRAM(ALL_REDUCE(comm, r.a, r.b, kCount - run.rank)), kMismatch,
     "rank 1 calls ncclAllReduce(63 x float32, sum)"},
    {"roots differ", 2,
     PROGRAM(CHECK_NCCL(ncclBroadcast(r.a, r.b, kCount, ncclFloat32, run.rank, r.comm, r.first))), kMismatch,
     "root 1"},
    {"a send is longer than its receive", 2,
     PROGRAM(if (run.rank == 0) CHECK_NCCL(ncclSend(r.a, kCount, ncclFloat32, 1, r.comm, r.first));
             else CHECK_NCCL(ncclRecv(r.a, kCount - 1, ncclFloat32, 0, r.comm, r.first))),
     kMismatch, "63 x float32"},
    {"a receive without a send", 2,
     PROGRAM(if (run.rank == 1) CHECK_NCCL(ncclRecv(r.a, kCount, ncclFloat32, 0, r.comm, r.first))), kTimeOut,
     "ncclRecv [node] number 0"},
    {"a collective without a rank", 2, PROGRAM(if (run.rank == 0) ALL_REDUCE(comm, r.a, r.b, kCount)),
     kTimeOut, "missing after 300 ms: rank 1"},
    {"two communicators in two orders", 2,
     PROGRAM(
         if (run.rank == 0) {
           ALL_REDUCE(comm, r.a, r.a, kCount);
           ALL_REDUCE(part, r.b, r.b, kCount);
         } else {
           CHECK_NCCL(ncclAllReduce(r.b, r.b, kCount, ncclFloat32, ncclSum, r.part, r.second));
           CHECK_NCCL(ncclAllReduce(r.a, r.a, kCount, ncclFloat32, ncclSum, r.comm, r.first));
         }),
     kOrder, "a deadlock"},
    {"a root that is no rank", 2,
     PROGRAM(CHECK_NCCL(ncclBroadcast(r.a, r.b, kCount, ncclFloat32, 2, r.comm, r.first))), kInvalid,
     "there is no rank 2"},
    {"buffers that overlap", 2, PROGRAM(ALL_REDUCE(comm, r.a, r.a + 4, kCount - 4)), kInvalid, "overlap"},
    {"a collective past the end", 2, PROGRAM(ALL_REDUCE(comm, r.a, r.b, kCount + 1)), kIllegal,
     "260 bytes out of bounds"},
    {"a collective of freed memory", 2,
     PROGRAM(float* freed = r.c; CHECK_CUDA(cudaFree(r.c)); r.c = nullptr;
             ALL_REDUCE(comm, freed, r.a, kCount)),
     kIllegal, "in freed memory"},
    {"a collective of the host's memory", 2,
     PROGRAM(float local[kCount] = {}; ALL_REDUCE(comm, local, r.a, kCount);
             if (const char* failed = r.finish()) return failed),
     kIllegal, "the send buffer is not device memory"},
    {"a collective of what nobody wrote", 2, PROGRAM(ALL_REDUCE(comm, r.c, r.a, kCount)), kUninitialized,
     "ncclAllReduce [node]"},
    {"a kernel writes while a collective reads", 2,
     PROGRAM(ALL_REDUCE(comm, r.a, r.b, kCount); SET(second, r.a)), kRace,
     "the read by ncclAllReduce [node] on rank 0 stream 0 and the write by set_kernel [node] on rank 0"},
    {"a kernel reads what a collective writes", 2,
     PROGRAM(ALL_REDUCE(comm, r.a, r.b, kCount); COPY(second, r.b, r.c)), kRace,
     "the write by ncclAllReduce [node]"},
    {"a collective reads what a kernel writes", 2,
     PROGRAM(SET(second, r.a); ALL_REDUCE(comm, r.a, r.b, kCount)), kRace,
     "the read by ncclAllReduce [node]"},
    {"a stream of another device", 2,
     PROGRAM(cudaStream_t others = nullptr; CHECK_CUDA(cudaSetDevice(1 - run.rank));
             CHECK_CUDA(cudaStreamCreateWithFlags(&others, cudaStreamNonBlocking));
             CHECK_CUDA(cudaSetDevice(run.rank));
             CHECK_NCCL(ncclAllReduce(r.a, r.b, kCount, ncclFloat32, ncclSum, r.comm, others))),
     kInvalid, "the stream belongs to device"},
    {"a group that does not end", 2,
     PROGRAM(braid::rt::cuda::StepScope step(r.first); CHECK_NCCL(ncclGroupStart());
             ALL_REDUCE(comm, r.a, r.b, kCount); step.done(); CHECK_NCCL(ncclGroupEnd())),
     kScope, "ends between ncclGroupStart and ncclGroupEnd"},
    {"a group that ends without a beginning", 2, PROGRAM(CHECK_NCCL(ncclGroupEnd())), kInvalid,
     "ncclGroupEnd without ncclGroupStart"},
    {"a communicator that was destroyed", 2,
     PROGRAM(ncclComm_t gone = r.part; CHECK_NCCL(ncclCommDestroy(r.part)); r.part = nullptr;
             CHECK_NCCL(ncclAllReduce(r.a, r.b, kCount, ncclFloat32, ncclSum, gone, r.first))),
     kInvalid, "the communicator has been destroyed"},
};

}  // namespace

const std::vector<ProgramFault>& program_faults() {
  static const std::vector<ProgramFault> all = [] {
    std::vector<ProgramFault> faults;
    for (const auto* each : {&kStreams, &kMemory, &kSteps, &kVariables, &kCollectives})
      faults.insert(faults.end(), each->begin(), each->end());
    return faults;
  }();
  return all;
}
