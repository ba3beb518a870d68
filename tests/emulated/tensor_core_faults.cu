// Kernels of one warp that use the loads, stores, products and copies of tensor cores wrongly in one way
// each, beside right ones.
#include "runtime/cuda_program.h"
#include "runtime/device/async_copy.h"
#include "runtime/device/ldmatrix.h"
#include "runtime/device/mma.h"
#include "tests/emulated/block_faults.h"

namespace {

using namespace braid::rt::device;

struct alignas(16) Row {
  uint32_t words[4];
};

// ---- matrices

enum class Load {
  kRight,
  kUnwritten,
  kNoBarrier,
  kPastTheEnd,
  kMisaligned,
  kGlobal,
  kLaneMissing,
  kTwoPlaces
};
// Each lane writes a row and names its neighbour's.
template <Load load>
__global__ void ldmatrix_kernel(float* out) {
  BRAID_SHARED(Row, tile, 32);
  const int lane = static_cast<int>(threadIdx.x);
  if (load != Load::kUnwritten || lane != 9) tile[lane] = {{1, 2, 3, 4}};
  if (load != Load::kNoBarrier) __syncthreads();
  const void* row = tile + (load == Load::kPastTheEnd ? lane + 1 : lane ^ 1);
  if (load == Load::kMisaligned && lane == 3) row = tile[lane].words + 2;
  if (load == Load::kGlobal) row = out + 4 * lane;
  uint32_t registers[4] = {};
  if (load == Load::kTwoPlaces && lane < 16)
    ldmatrix<4>(registers, row);
  else if (load != Load::kLaneMissing || lane != 30)
    ldmatrix<4>(registers, row);
  out[lane] = static_cast<float>(registers[0] + registers[3]);
}

// Lanes from 16 on name no rows.
template <int first>
__global__ void two_matrices_kernel(float* out) {
  BRAID_SHARED(Row, tile, 16);
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 16) tile[lane] = {{1, 2, 3, 4}};
  __syncthreads();
  uint32_t registers[2];
  ldmatrix<2>(registers, tile + lane - first);
  out[lane] = static_cast<float>(registers[1]);
}

enum class Store { kRight, kNoBarrier, kTwoLanesOneRow, kPastTheEnd, kMisaligned, kGlobal };
template <Store store>
__global__ void stmatrix_kernel(float* out) {
  BRAID_SHARED(Row, tile, 32);
  const int lane = static_cast<int>(threadIdx.x);
  const uint32_t registers[4] = {1, 2, 3, 4};
  void* row = tile + lane;
  if (store == Store::kTwoLanesOneRow && lane == 31) row = tile + 4;
  if (store == Store::kPastTheEnd) row = tile + lane + 1;
  if (store == Store::kMisaligned && lane == 3) row = tile[lane].words + 1;
  if (store == Store::kGlobal) row = out + 4 * lane;
  stmatrix<4>(row, registers);
  if (store != Store::kNoBarrier) __syncthreads();
  out[lane] = static_cast<float>(tile[lane % 16].words[0]);
}

template <bool missing, bool two_forms>
__global__ void mma_kernel(float* out) {
  const MmaA a = {};
  const MmaB b = {};
  MmaSums<float> sums = {};
  if (two_forms && threadIdx.x < 16)
    mma_sync<__half>(sums, a, b);
  else if (!missing || threadIdx.x != 3)
    mma_sync<__nv_bfloat16>(sums, a, b);
  out[threadIdx.x] = sums.values[0];
}

// ---- copies: each lane copies 16 bytes, waits, meets the others, and reads what its neighbour has copied

enum class Copy {
  kRight,
  kZeroFilled,
  kWaitsForAll,
  kMeetsTheWarp,
  kWritesAfterwards,
  kWritesBesideTheCopy,
  kWritesPastWhatIsRead,
  kNoWait,
  kNoCommit,
  kWaitsForTooFew,
  kNoBarrier,
  kBarrierBeforeWait,
  kReadsItsOwnBeforeWait,
  kReadsAnothersBeforeWait,
  kTargetAdded,
  kTargetWritten,
  kTargetCopiedTwice,
  kSourceWritten,
  kSourceWrittenByAnother,
  kSourceAdded,
  kSourceWrittenBefore,
  kTargetReadBefore,
  kNeverWaits,
  kMisalignedTarget,
  kMisalignedSource,
  kPastTheTarget,
  kSourceInShared,
  kTargetInGlobal,
  kTooManyBytes,
};

template <Copy copy>
__device__ void issue(Row* tile, float* x, int lane) {
  float* source = x + 4 * lane;
  void* target = tile + lane;
  if (copy == Copy::kMisalignedTarget) target = tile[lane].words + 1;
  if (copy == Copy::kMisalignedSource) source += 2;
  if (copy == Copy::kPastTheTarget) target = tile + lane + 1;
  if (copy == Copy::kTargetInGlobal) target = source + 256;
  if (copy == Copy::kSourceInShared)
    cp_async<16>(target, tile + (lane ^ 1));
  else if (copy == Copy::kZeroFilled)
    cp_async_zfill<16>(target, source, lane % 5 * 4);
  else if (copy == Copy::kWritesBesideTheCopy)
    cp_async<4>(target, source);
  else if (copy == Copy::kWritesPastWhatIsRead)
    cp_async_zfill<16>(target, source, 4);
  else if (copy == Copy::kTooManyBytes)
    cp_async_zfill<8>(target, source, 12);
  else
    cp_async<16>(target, source);
}

// Runs between a copy and the wait for it.
template <Copy copy>
__device__ void in_flight(Row* tile, float* x, float* out, int lane) {
  if (copy == Copy::kReadsItsOwnBeforeWait) out[lane] = static_cast<float>(tile[lane].words[1]);
  if (copy == Copy::kReadsAnothersBeforeWait) {
    __syncthreads();
    out[lane] = static_cast<float>(tile[lane ^ 1].words[1]);
    __any_sync(0xffffffffu, 1);  // all lanes have read, although this orders nothing
  }
  if (copy == Copy::kTargetAdded) atomicAdd(&tile[lane].words[1], 1u);
  if (copy == Copy::kTargetWritten) tile[lane].words[3] = 7;
  if (copy == Copy::kWritesBesideTheCopy) tile[lane].words[1] = 7;
  if (copy == Copy::kWritesBesideTheCopy || copy == Copy::kWritesPastWhatIsRead) x[4 * lane + 1] = 3.0f;
  if (copy == Copy::kSourceWritten) x[4 * lane + 2] = 3.0f;
  if (copy == Copy::kSourceAdded) atomicAdd(x + 4 * lane, 1.0f);
  if (copy == Copy::kSourceWrittenByAnother) {
    __syncthreads();
    x[4 * (lane ^ 1) + 1] = 2.0f;
    __syncthreads();
  }
}

// With `fence` the kernel may synchronise with others: texts then name no thread.
template <Copy copy, bool fence = false>
__global__ void copy_kernel(float* x, float* out) {
  BRAID_SHARED(Row, tile, 32);
  const int lane = static_cast<int>(threadIdx.x);
  if (fence) __threadfence();
  if (copy == Copy::kSourceWrittenBefore) x[4 * (lane ^ 1)] = 1.0f;
  if (copy == Copy::kTargetReadBefore) {
    tile[lane] = {};
    __syncthreads();
    out[lane] = static_cast<float>(tile[lane ^ 1].words[0]);
  }
  issue<copy>(tile, x, lane);
  if (copy == Copy::kTargetCopiedTwice) issue<copy>(tile, x, lane);
  if (copy == Copy::kNeverWaits) return;
  if (copy != Copy::kNoCommit && copy != Copy::kWaitsForAll) cp_async_commit_group();
  in_flight<copy>(tile, x, out, lane);
  if (copy == Copy::kBarrierBeforeWait) __syncthreads();
  if (copy == Copy::kWaitsForAll)
    cp_async_wait_all();
  else if (copy == Copy::kWaitsForTooFew)
    cp_async_wait_group<1>();
  else if (copy != Copy::kNoWait)
    cp_async_wait_group<0>();
  if (copy == Copy::kMeetsTheWarp)
    __syncwarp();
  else if (copy != Copy::kNoBarrier && copy != Copy::kBarrierBeforeWait)
    __syncthreads();
  out[lane] = static_cast<float>(tile[lane ^ 1].words[0]);
  if (copy != Copy::kWritesAfterwards) return;
  x[4 * lane] = 1.0f;
  __syncthreads();
  tile[lane].words[0] = 2;
}

// A block copies, raises a flag and waits; another one lowers the flag and overwrites the source.
template <bool flag_after_wait>
__global__ void handed_on_kernel(float* x, int* flag, float* out) {
  BRAID_SHARED(Row, tile, 1);
  if (threadIdx.x != 0) return;
  __threadfence();
  if (blockIdx.x == 0) {
    cp_async<16>(tile, x);
    if (flag_after_wait) cp_async_wait_all();
    __threadfence();
    atomicExch(flag, 1);
    if (!flag_after_wait) cp_async_wait_all();
    out[0] = static_cast<float>(tile[0].words[0]);
  } else {
    while (atomicCAS(flag, 1, 0) == 0) {
    }
    __threadfence();
    x[3] = 1.0f;
  }
}

template <class... Parameters, class... Arguments>
const char* go(const char* name, void (*kernel)(Parameters...), unsigned blocks, void* stream,
               Arguments... arguments) {
  BRAID_LABEL("node");
  const cudaError_t error =
      braid::rt::cuda::launch(name, kernel, blocks, 32, 0, static_cast<cudaStream_t>(stream), arguments...);
  return error == cudaSuccess ? nullptr : cudaGetErrorName(error);
}
#define KERNEL(kernel) [](float* memory, void* stream) { return go(#kernel, kernel, 1, stream, memory); }
// The sources follow what the kernel writes.
constexpr unsigned long kSources = 1024, kAll = kBlockFaultBytes / sizeof(float);
#define COPY_AS(kernel, blocks, first)                                          \
  [](float* memory, void* stream) {                                             \
    return go("copy_kernel", kernel, blocks, stream, memory + (first), memory); \
  }
#define COPY_FROM(copy, first) COPY_AS(copy_kernel<copy>, 1, first)
#define COPY(copy) COPY_FROM(copy, kSources)
#define COPY_AND_FENCE(copy) COPY_AS((copy_kernel<copy, true>), 1, kSources)

#define HANDED_ON(flag_after_wait)                                                                 \
  [](float* memory, void* stream) {                                                                \
    return go("handed_on_kernel", handed_on_kernel<flag_after_wait>, 2, stream, memory + kSources, \
              reinterpret_cast<int*>(memory + 64), memory);                                        \
  }

const char* kRace = "race";
const char* kUninitialized = "uninitialized read";
const char* kIllegal = "illegal access";
const char* kDivergent = "divergent barrier";
const char* kInvalid = "invalid use";
const char* kAsync = "asynchronous copy";

}  // namespace

const std::vector<BlockFault>& tensor_core_faults() {
  static const std::vector<BlockFault> faults = {
      {"matrices", KERNEL(ldmatrix_kernel<Load::kRight>), nullptr, ""},
      {"a row that nobody wrote", KERNEL(ldmatrix_kernel<Load::kUnwritten>), kUninitialized,
       "thread (8,0,0) of block (0,0,0) reads byte 144 of shared array 'tile'"},
      {"matrices without a barrier", KERNEL(ldmatrix_kernel<Load::kNoBarrier>), kRace,
       "no barrier orders the read by thread (0,0,0) and the write by thread (1,0,0) of block (0,0,0); both "
       "touch byte 16 of shared array 'tile'"},
      {"a row past the end", KERNEL(ldmatrix_kernel<Load::kPastTheEnd>), kIllegal,
       "thread (31,0,0) of block (0,0,0): read of 16 bytes out of bounds: shared array 'tile' (512 bytes), "
       "offset 512"},
      {"a row at byte 56", KERNEL(ldmatrix_kernel<Load::kMisaligned>), kIllegal,
       "thread (3,0,0) of block (0,0,0): misaligned access at byte 56 of shared array 'tile' (512 bytes): it "
       "must be aligned to 16 bytes"},
      {"a row in global memory", KERNEL(ldmatrix_kernel<Load::kGlobal>), kIllegal,
       "ldmatrix.x4: the address is not in shared memory"},
      {"a lane does not load", KERNEL(ldmatrix_kernel<Load::kLaneMissing>), kDivergent,
       "ldmatrix.x4 of line"},
      {"lanes load at two places", KERNEL(ldmatrix_kernel<Load::kTwoPlaces>), kDivergent,
       "ldmatrix.x4 of line"},
      {"two matrices and lanes that name none", KERNEL(two_matrices_kernel<0>), nullptr, ""},
      {"a row before the first", KERNEL(two_matrices_kernel<1>), kIllegal, "offset -16"},

      {"stored matrices", KERNEL(stmatrix_kernel<Store::kRight>), nullptr, ""},
      {"stored matrices without a barrier", KERNEL(stmatrix_kernel<Store::kNoBarrier>), kRace,
       "shared array 'tile'"},
      {"two lanes store one row", KERNEL(stmatrix_kernel<Store::kTwoLanesOneRow>), kRace,
       "no barrier orders the write by thread (31,0,0) and the write by thread (4,0,0)"},
      {"a stored row past the end", KERNEL(stmatrix_kernel<Store::kPastTheEnd>), kIllegal,
       "write of 16 bytes out of bounds: shared array 'tile' (512 bytes), offset 512"},
      {"a stored row at byte 52", KERNEL(stmatrix_kernel<Store::kMisaligned>), kIllegal,
       "misaligned access at byte 52"},
      {"a stored row in global memory", KERNEL(stmatrix_kernel<Store::kGlobal>), kIllegal,
       "stmatrix.x4: the address is not in shared memory"},

      {"a product", KERNEL((mma_kernel<false, false>)), nullptr, ""},
      {"a lane does not multiply", KERNEL((mma_kernel<true, false>)), kDivergent, "mma.m16n8k16.f32.bf16"},
      {"lanes multiply in two forms", KERNEL((mma_kernel<false, true>)), kDivergent, "mma.m16n8k16.f32.f16"},

      {"copies", COPY(Copy::kRight), nullptr, ""},
      {"copies that wait for all", COPY(Copy::kWaitsForAll), nullptr, ""},
      {"copies within a warp that meets", COPY(Copy::kMeetsTheWarp), nullptr, ""},
      {"sources and targets that are written afterwards", COPY(Copy::kWritesAfterwards), nullptr, ""},
      {"writes beside a target and a source in flight", COPY(Copy::kWritesBesideTheCopy), nullptr, ""},
      {"a write past what a copy in flight reads", COPY(Copy::kWritesPastWhatIsRead), nullptr, ""},
      {"a copy filled with zeros", COPY(Copy::kZeroFilled), nullptr, ""},
      {"zeros in the place of what lies past the source", COPY_FROM(Copy::kZeroFilled, kAll - 32 * 4),
       nullptr, ""},
      {"a copy that is not waited for", COPY(Copy::kNoWait), kUninitialized,
       "thread (31,0,0) of block (0,0,0) reads byte 480 of shared array 'tile' (512 bytes) before cp.async "
       "was waited for: thread (30,0,0) has issued the copy and not waited for its group"},
      {"a copy in no group", COPY(Copy::kNoCommit), kUninitialized,
       "before cp.async was waited for: thread (30,0,0) has issued the copy and not committed it to a group"},
      {"a wait for all groups but one", COPY(Copy::kWaitsForTooFew), kUninitialized,
       "before cp.async was waited for: thread (30,0,0) has issued the copy and not waited for its group"},
      {"copies without a barrier", COPY(Copy::kNoBarrier), kRace, "of block (0,0,0); both touch byte"},
      {"a barrier before the wait", COPY(Copy::kBarrierBeforeWait), kRace,
       "of block (0,0,0); both touch byte"},
      {"a thread reads its own copy before the wait", COPY(Copy::kReadsItsOwnBeforeWait), kUninitialized,
       "thread (0,0,0) of block (0,0,0) reads byte 4 of shared array 'tile' (512 bytes) before cp.async was "
       "waited for: thread (0,0,0) has issued"},
      {"a thread reads another's copy before both wait", COPY(Copy::kReadsAnothersBeforeWait), kUninitialized,
       "before cp.async was waited for: thread (30,0,0) has issued the copy and not waited for its group"},
      {"an atomic changes a target in flight", COPY(Copy::kTargetAdded), kUninitialized,
       "thread (0,0,0) of block (0,0,0) reads byte 4 of shared array 'tile' (512 bytes) before cp.async"},
      {"a target is written in flight", COPY(Copy::kTargetWritten), kAsync,
       "thread (0,0,0) of block (0,0,0) writes byte 12 of shared array 'tile' (512 bytes), the target of a "
       "cp.async in flight: thread (0,0,0) has issued"},
      {"a target is copied to twice", COPY(Copy::kTargetCopiedTwice), kAsync,
       "writes byte 0 of shared array 'tile' (512 bytes), the target of a cp.async in flight"},
      {"a source is written in flight", COPY(Copy::kSourceWritten), kAsync,
       "thread (0,0,0) of block (0,0,0) writes byte 4104 of cudaMalloc #0 of rank 0 (65536 bytes), the "
       "source "
       "of a cp.async in flight: thread (0,0,0) has issued"},
      {"another thread writes a source in flight, behind a barrier", COPY(Copy::kSourceWrittenByAnother),
       kAsync, "the source of a cp.async in flight: thread (30,0,0) has issued"},
      {"an atomic changes a source in flight", COPY(Copy::kSourceAdded), kAsync,
       "byte 4096 of cudaMalloc #0"},
      {"a source is written without a barrier before", COPY(Copy::kSourceWrittenBefore), kRace,
       "of cudaMalloc #0"},
      {"a target is read without a barrier before", COPY(Copy::kTargetReadBefore), kRace,
       "shared array 'tile'"},
      {"copies that are never waited for", COPY(Copy::kNeverWaits), kAsync,
       "thread (0,0,0) of block (0,0,0) ends without having waited for its cp.async to byte 0 of shared "
       "array "
       "'tile'"},
      {"a copy in flight of a kernel that synchronises", COPY_AND_FENCE(Copy::kNoWait), kUninitialized,
       "a thread reads shared array 'tile' before cp.async was waited for: a thread has issued the copy and "
       "not waited for its group"},
      {"a source in flight of such a kernel", COPY_AND_FENCE(Copy::kSourceWritten), kAsync,
       "a thread writes cudaMalloc #0 of rank 0 (65536 bytes), the source of a cp.async in flight: a thread"},
      {"such a kernel never waits", COPY_AND_FENCE(Copy::kNeverWaits), kAsync,
       "a thread ends without having waited for its cp.async to shared array 'tile'"},
      {"blocks that never wait", COPY_AS(copy_kernel<Copy::kNeverWaits>, 2, kSources), kAsync,
       "thread (0,0,0) of block (0,0,0) ends without having waited for its cp.async to byte 0"},
      {"a source that another block gets after the wait", HANDED_ON(true), nullptr, ""},
      {"a source that another block gets before the wait", HANDED_ON(false), kRace, "cudaMalloc #0"},
      {"a target at byte 4", COPY(Copy::kMisalignedTarget), kIllegal,
       "misaligned access at byte 4 of shared array 'tile'"},
      {"a source at byte 8", COPY(Copy::kMisalignedSource), kIllegal,
       "misaligned access at byte 4104 of cudaMalloc #0"},
      {"a source past the end", COPY_FROM(Copy::kRight, kAll - 31 * 4), kIllegal,
       "thread (31,0,0) of block (0,0,0): read of 16 bytes out of bounds"},
      {"a target past the end", COPY(Copy::kPastTheTarget), kIllegal,
       "write of 16 bytes out of bounds: shared array 'tile' (512 bytes), offset 512"},
      {"a source in shared memory", COPY(Copy::kSourceInShared), kIllegal,
       "cp.async: the source is not in global memory"},
      {"a target in global memory", COPY(Copy::kTargetInGlobal), kIllegal,
       "cp.async: the address is not in shared memory"},
      {"a copy of more bytes than it has", COPY(Copy::kTooManyBytes), kInvalid,
       "cp.async of 8 bytes: 12 of them are to be read"},
  };
  return faults;
}
