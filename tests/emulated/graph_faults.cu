#include "runtime/cuda_program.h"
#include "tests/emulated/graph_faults.h"

#define CHECK(call)                                           \
  do {                                                        \
    const cudaError_t error = (call);                         \
    if (error != cudaSuccess) return cudaGetErrorName(error); \
  } while (0)
#define CHECK_NCCL(call)                                        \
  do {                                                          \
    const ncclResult_t error = (call);                          \
    if (error != ncclSuccess) return ncclGetErrorString(error); \
  } while (0)

namespace {

constexpr int kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);

__global__ void add_kernel(const float* a, const float* b, float* out) {
  out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}
__global__ void increase_kernel(float* data) { data[threadIdx.x] += 1.0f; }

struct Program {
  GraphFault fault;
  FaultRun run;
  ncclComm_t comm = nullptr;
  cudaStream_t main = nullptr, side = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr, outside = nullptr;
  float *input = nullptr, *middle = nullptr, *output = nullptr;
  char* segment = nullptr;

  const char* create() {
    CHECK(cudaSetDevice(run.rank));
    ncclUniqueId id;
    for (int i = 0; i < 128; ++i) id.internal[i] = run.id[i];
    CHECK_NCCL(ncclCommInitRank(&comm, run.ranks, id, run.rank));
    const unsigned flags = fault == GraphFault::kLegacyStream ? cudaStreamDefault : cudaStreamNonBlocking;
    CHECK(cudaStreamCreateWithFlags(&main, flags));
    CHECK(cudaStreamCreateWithFlags(&side, flags));
    for (cudaEvent_t* event : {&fork, &join, &outside})
      CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(outside, side));
    for (float** memory : {&input, &middle, &output}) {
      CHECK(cudaMalloc(memory, kBytes));
      CHECK(cudaMemsetAsync(*memory, 0, kBytes, main));
    }
    CHECK_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&segment), 4096));
    CHECK(cudaStreamSynchronize(main));
    return nullptr;
  }

  // input + 1, on a second stream; then output = input + middle, summed over the ranks.
  const char* step() {
    BRAID_LABEL("increase (Add)");
    CHECK(cudaEventRecord(fork, main));
    CHECK(cudaStreamWaitEvent(side, fork, 0));
    CHECK(BRAID_LAUNCH(increase_kernel, 1, kCount, 0, side, input));
    CHECK(cudaEventRecord(join, side));
    if (const char* error = forbidden()) return error;
    const bool race = fault == GraphFault::kNoEventBetweenStreams;
    if (!race && fault != GraphFault::kNoJoin) CHECK(cudaStreamWaitEvent(main, join, 0));
    BRAID_LABEL("sum (Add)");
    CHECK(BRAID_LAUNCH(add_kernel, 1, kCount, 0, main, input, middle, output));
    if (race) CHECK(cudaStreamWaitEvent(main, join, 0));
    BRAID_LABEL("all (AllReduce)");
    CHECK_NCCL(ncclAllReduce(output, output, kCount, ncclFloat32, ncclSum, comm, main));
    BRAID_LABEL("");
    return nullptr;
  }

  const char* forbidden() {
    float* memory = nullptr;
    float host[kCount] = {};
    cudaGraph_t other = nullptr;
    switch (fault) {
      case GraphFault::kStreamSynchronize:
        CHECK(cudaStreamSynchronize(main));
        break;
      case GraphFault::kDeviceSynchronize:
        CHECK(cudaDeviceSynchronize());
        break;
      case GraphFault::kStreamQuery:
        CHECK(cudaStreamQuery(side));
        break;
      case GraphFault::kEventSynchronize:
        CHECK(cudaEventSynchronize(fork));
        break;
      case GraphFault::kMalloc:
      case GraphFault::kMallocWhereRelaxed:
        CHECK(cudaMalloc(&memory, kBytes));
        CHECK(cudaFree(memory));
        break;
      case GraphFault::kMemcpy:
        CHECK(cudaMemcpy(host, input, kBytes, cudaMemcpyDeviceToHost));
        break;
      case GraphFault::kPageableCopy:
        CHECK(cudaMemcpyAsync(host, input, kBytes, cudaMemcpyDeviceToHost, main));
        break;
      case GraphFault::kLegacyStream:
        CHECK(BRAID_LAUNCH(increase_kernel, 1, kCount, 0, nullptr, middle));
        break;
      case GraphFault::kEventFromOutside:
        CHECK(cudaStreamWaitEvent(main, outside, 0));
        break;
      case GraphFault::kEventOfAnotherCapture: {
        cudaStream_t third;
        CHECK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
        CHECK(cudaStreamBeginCapture(third, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaEventRecord(outside, third));
        const cudaError_t merged = cudaStreamWaitEvent(main, outside, 0);
        CHECK(cudaStreamEndCapture(third, &other));
        CHECK(merged);
        break;
      }
      case GraphFault::kSplit: {
        ncclComm_t part;
        CHECK_NCCL(ncclCommSplit(comm, 0, 0, &part, nullptr));
        break;
      }
      case GraphFault::kWindow: {
        ncclWindow_t window;
        CHECK_NCCL(ncclCommWindowRegister(comm, segment, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
        break;
      }
      default:
        break;
    }
    return nullptr;
  }

  // Ends the capture also after an error, as a program must.
  const char* capture(cudaGraph_t* graph) {
    CHECK(cudaStreamBeginCapture(main, fault == GraphFault::kMallocWhereRelaxed
                                           ? cudaStreamCaptureModeRelaxed
                                           : cudaStreamCaptureModeThreadLocal));
    const char* const failed = step();
    cudaError_t elsewhere = cudaSuccess;
    if (fault == GraphFault::kEndOnAnotherStream) elsewhere = cudaStreamEndCapture(side, graph);
    const cudaError_t ended = cudaStreamEndCapture(main, graph);
    if (failed != nullptr) return failed;
    CHECK(elsewhere);
    CHECK(ended);
    return nullptr;
  }
};

}  // namespace

const char* run_graph(const FaultRun& run, GraphFault fault, float* sum) {
  Program program{fault, run};
  if (const char* error = program.create()) return error;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const auto at_end = [&](const char* error) {
    if (fault != GraphFault::kLaunchAfterDestroy && executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
    ncclCommAbort(program.comm);
    return error;
  };
  const bool eager = fault == GraphFault::kOneRankEager && run.rank == 1;
  if (!eager) {
    if (const char* error = program.capture(&graph)) return at_end(error);
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, program.main));
  } else if (const char* error = program.step()) {
    return error;
  }
  const bool replaced = fault == GraphFault::kInputReplaced || fault == GraphFault::kInputUpdated;
  if (replaced || fault == GraphFault::kInputFreed) {
    CHECK(cudaStreamSynchronize(program.main));
    CHECK(cudaFree(program.input));
  }
  if (replaced) {
    CHECK(cudaMalloc(&program.input, kBytes));
    CHECK(cudaMemsetAsync(program.input, 0, kBytes, program.main));
  }
  if (fault == GraphFault::kInputUpdated || fault == GraphFault::kUpdateOfAnotherShape) {
    cudaGraph_t again = nullptr;
    if (fault == GraphFault::kUpdateOfAnotherShape) program.fault = GraphFault::kNoEventBetweenStreams;
    if (const char* error = program.capture(&again)) return at_end(error);
    cudaGraphExecUpdateResultInfo info;
    const cudaError_t updated = cudaGraphExecUpdate(executable, again, &info);
    CHECK(cudaGraphDestroy(again));
    if (updated != cudaSuccess && info.result != cudaGraphExecUpdateErrorTopologyChanged)
      return "another result";
    if (updated != cudaSuccess) return at_end(cudaGetErrorName(updated));
  }
  if (fault == GraphFault::kLaunchAfterDestroy) {
    CHECK(cudaStreamSynchronize(program.main));
    CHECK(cudaGraphExecDestroy(executable));
  }
  if (!eager && cudaGraphLaunch(executable, program.main) != cudaSuccess) return at_end("cudaGraphLaunch");
  if (eager)
    if (const char* error = program.step()) return error;
  cudaStream_t reader = program.main;
  if (fault == GraphFault::kNoEventAfterLaunch) reader = program.side;
  if (fault == GraphFault::kCapturedEventOutside) CHECK(cudaStreamWaitEvent(reader, program.join, 0));
  CHECK(BRAID_LAUNCH(increase_kernel, 1, kCount, 0, reader, program.output));
  float host[kCount];
  CHECK(cudaMemcpyAsync(host, program.output, kBytes, cudaMemcpyDeviceToHost, reader));
  CHECK(cudaStreamSynchronize(program.main));
  CHECK(cudaStreamSynchronize(reader));
  *sum = 0.0f;
  for (const float value : host) *sum += value;
  if (fault == GraphFault::kCommunicatorDestroyedFirst) CHECK_NCCL(ncclCommDestroy(program.comm));
  if (fault == GraphFault::kCommunicatorAbortedFirst) CHECK_NCCL(ncclCommAbort(program.comm));
  if (!eager) {
    if (fault != GraphFault::kLaunchAfterDestroy) CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
  }
  if (fault < GraphFault::kCommunicatorDestroyedFirst) CHECK_NCCL(ncclCommDestroy(program.comm));
  return nullptr;
}
