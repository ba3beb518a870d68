#include "runtime/cuda_program.h"
#include "tests/emulated/block_faults.h"
#include "tests/emulated/check.h"

namespace {

using namespace braid::rt::device;

// ---- threads of one block

// Each thread takes its neighbour's value, through shared memory.
template <bool barrier>
__global__ void neighbour_kernel(float* out) {
  BRAID_SHARED(float, tile, 64);
  tile[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (barrier) __syncthreads();
  out[threadIdx.x] = tile[(threadIdx.x + 1) % 64];
}

// The same several times; without the second barrier a fast thread overwrites what a slow one still reads.
template <bool second>
__global__ void loop_kernel(float* out) {
  BRAID_SHARED(float, tile, 64);
  float sum = 0;
  for (int turn = 0; turn < 3; ++turn) {
    tile[threadIdx.x] = static_cast<float>(turn);
    __syncthreads();
    sum += tile[63 - threadIdx.x];
    if (second) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

// A reduction whose result lies where the next one begins.
template <bool last>
__device__ float careless_sum(float value, float* partial) {
  value = warp_reduce<Sum>(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0] + partial[1];
  if (last) __syncthreads();
  return value;
}
template <bool last>
__global__ void two_reductions_kernel(float* out) {
  BRAID_SHARED(float, partial, 2);
  const float first = careless_sum<last>(1.0f, partial);
  out[threadIdx.x] = first + careless_sum<true>(2.0f, partial);
}

__global__ void all_write_one_kernel(float* out) {
  BRAID_SHARED(float, flag, 1);
  flag[0] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = flag[0];
}

template <bool barrier>
__global__ void through_global_kernel(float* out) {
  out[threadIdx.x] = 1.0f;
  if (barrier) __syncthreads();
  out[64 + threadIdx.x] = out[threadIdx.x ^ 32];
}

__global__ void in_place_shift_kernel(float* out) {
  const float next = out[threadIdx.x + 1];
  out[threadIdx.x] = next;
}

// A thread overwrites bytes of a word whose other half belongs to another thread; then both the same.
template <int stride>
__global__ void halves_of_words_kernel(float* out) {
  reinterpret_cast<short*>(out)[threadIdx.x * stride / 2] = 1;
}

// Lanes exchange through shared memory.
enum class Between { kNothing, kShuffle, kVote, kSyncwarp, kOtherLanes };
template <Between between>
__global__ void lanes_kernel(float* out) {
  BRAID_SHARED(float, tile, 32);
  tile[threadIdx.x] = 1.0f;
  float value = 0;
  if (between == Between::kShuffle) value = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
  if (between == Between::kVote) value = static_cast<float>(__any_sync(0xffffffffu, 1));
  if (between == Between::kSyncwarp) __syncwarp();
  // Halves of the warp: it orders the lanes of a half, and each reads from the other one.
  if (between == Between::kOtherLanes) __syncwarp(threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u);
  out[threadIdx.x] = tile[threadIdx.x ^ 16] + value;
}
// Each half of a warp reads after meeting, and overwrites in the next turn. With `meet` it meets between the
// two. The reads of the three turns are different events.
template <bool meet>
__global__ void half_warps_kernel(float* out) {
  BRAID_SHARED(float, tile, 32);
  const unsigned half = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
  for (int turn = 0; turn < 3; ++turn) {
    tile[threadIdx.x] = 1.0f;
    __syncwarp(half);
    out[threadIdx.x] = tile[threadIdx.x / 16 * 16] + tile[threadIdx.x ^ 8];
    if (meet || turn == 0) __syncwarp(half);
  }
}
__global__ void syncwarp_for_two_warps_kernel(float* out) {
  BRAID_SHARED(float, tile, 64);
  tile[threadIdx.x] = 1.0f;
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x ^ 32];
}

template <bool plain>
__global__ void count_kernel(float* out) {
  BRAID_SHARED(int, counter, 1);
  if (threadIdx.x == 0) counter[0] = 0;
  __syncthreads();
  atomicAdd(&counter[0], 1);
  if (plain && threadIdx.x == 40) out[1] = static_cast<float>(counter[0]);
  __syncthreads();
  if (threadIdx.x == 0) out[0] = static_cast<float>(counter[0]);
}

// ---- blocks

__global__ void blocks_write_one_kernel(float* out) {
  if (threadIdx.x == 0) out[0] = static_cast<float>(blockIdx.x);
}
__global__ void block_reads_anothers_kernel(float* out) {
  out[blockIdx.x] = 1.0f;
  if (blockIdx.x == 2) out[8] = out[0];
}
__global__ void block_overwrites_what_another_reads_kernel(float* out) {
  if (blockIdx.x < 2) out[8 + blockIdx.x] = out[3];
  if (blockIdx.x == 3) out[3] = 1.0f;
}
template <bool atomic>
__global__ void blocks_add_kernel(float* out) {
  if (threadIdx.x != 0) return;
  if (atomic)
    atomicAdd(out, 1.0f);
  else
    *out = *out + 1.0f;
}
__global__ void blocks_share_inputs_kernel(float* out) {
  out[256 + blockIdx.x * blockDim.x + threadIdx.x] = out[threadIdx.x] + out[0];
}

// ---- shared memory

__global__ void past_static_kernel(float* out) {
  BRAID_SHARED(float, first, 64);
  BRAID_SHARED(float, second, 64);
  first[threadIdx.x] = second[threadIdx.x] = 0.0f;
  __syncthreads();
  volatile int index = static_cast<int>(threadIdx.x) + 1;
  out[threadIdx.x] = first[index] + second[threadIdx.x];
}
__global__ void past_dynamic_kernel(float* out, int n) {
  BRAID_DYNAMIC_SHARED(float, rows);
  rows[static_cast<int>(threadIdx.x) + n] = 1.0f;
  out[threadIdx.x] = 1.0f;
}
__global__ void uninitialized_shared_kernel(float* out) {
  BRAID_SHARED(float, tile, 64);
  if (threadIdx.x < 63) tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}
// Only the first block writes: shared memory does not outlive it.
__global__ void left_by_another_block_kernel(float* out) {
  BRAID_DYNAMIC_SHARED(float, rows);
  if (blockIdx.x == 0) rows[threadIdx.x] = 1.0f;
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = rows[threadIdx.x];
}
__global__ void large_static_kernel(float* out) {
  BRAID_SHARED(float, rows, 2048);
  rows[threadIdx.x] = 1.0f;
  out[threadIdx.x] = rows[threadIdx.x];
}

// ---- barriers and warps

__global__ void barrier_in_branch_kernel(float* out) {
  if (threadIdx.x % 2 == 0) __syncthreads();
  out[threadIdx.x] = 1.0f;
}
__global__ void return_before_barrier_kernel(float* out, int n) {
  if (static_cast<int>(threadIdx.x) >= n) return;
  __syncthreads();
  out[threadIdx.x] = 1.0f;
}
__global__ void turns_differ_kernel(float* out) {
  for (unsigned turn = 0; turn <= threadIdx.x / 32; ++turn) __syncthreads();
  out[threadIdx.x] = 1.0f;
}
__global__ void two_barriers_kernel(float* out) {
  if (threadIdx.x < 32) {
    out[threadIdx.x] = static_cast<float>(__syncthreads_or(1));
  } else {
    __syncthreads();
  }
}
__global__ void lane_does_not_come_kernel(float* out) {
  float value = 1.0f;
  if (threadIdx.x != 7) value = __shfl_down_sync(0xffffffffu, value, 1);
  out[threadIdx.x] = value;
}
__global__ void lanes_reduce_two_types_kernel(float* out) {
  if (threadIdx.x < 16)
    out[threadIdx.x] = warp_reduce<Sum>(1.0f);
  else
    out[threadIdx.x] = static_cast<float>(warp_reduce<Sum>(1.0));
}
// A lane misses the first shuffle and takes the second for it.
__global__ void lanes_at_two_shuffles_kernel(float* out) {
  float value = 1.0f;
  if (threadIdx.x < 16) {
    value = __shfl_xor_sync(0xffffffffu, value, 1);
  } else {
    value = 2.0f;
    value = __shfl_xor_sync(0xffffffffu, value, 1);
  }
  out[threadIdx.x] = value;
}
__global__ void lanes_give_two_masks_kernel(float* out) {
  const unsigned mask = threadIdx.x < 16 ? 0xffffffffu : 0xffff0000u;
  out[threadIdx.x] = __shfl_sync(mask, 1.0f, 20);
}
__global__ void not_in_own_mask_kernel(float* out) { out[threadIdx.x] = __shfl_sync(0xfffffffeu, 1.0f, 3); }
__global__ void from_outside_the_mask_kernel(float* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_down_sync(0x0000ffffu, 1.0f, 1);
}
__global__ void active_mask_kernel(float* out) {
  float sum = 1.0f;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(__activemask(), sum, distance);
  out[threadIdx.x] = sum;
}
__global__ void odd_width_kernel(float* out) { out[threadIdx.x] = __shfl_up_sync(0xffffffffu, 1.0f, 1, 12); }
__global__ void warp_beyond_block_kernel(float* out) {
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
__global__ void syncwarp_without_a_lane_kernel(float* out) {
  if (threadIdx.x > 0) __syncwarp();
  out[threadIdx.x] = 1.0f;
}

// ---- alignment and indices

__global__ void vector_copy_kernel(const float* in, float* out) {
  reinterpret_cast<float4*>(out)[threadIdx.x] = reinterpret_cast<const float4*>(in)[threadIdx.x];
}
__global__ void member_of_misaligned_kernel(const float* in, float* out) {
  out[threadIdx.x] = reinterpret_cast<const float2*>(in)[threadIdx.x].y;
}
__global__ void misaligned_double_kernel(float* out) { *reinterpret_cast<double*>(out + 1) = 1.0; }
__global__ void misaligned_shared_kernel(float* out) {
  BRAID_SHARED(float, tile, 64);
  tile[threadIdx.x] = 1.0f;
  __syncthreads();
  if (threadIdx.x < 8) out[threadIdx.x] = reinterpret_cast<const float4*>(tile)[threadIdx.x].x;
}
__global__ void index_kernel(float* out, int rows, int columns) {
  const int index = rows * columns;
  out[threadIdx.x] = index > 0 ? 1.0f : 2.0f;
}
__global__ void wide_index_kernel(float* out, int64_t rows, int columns) {
  const int64_t index = rows * columns;
  out[threadIdx.x] = index > 0 ? 1.0f : 2.0f;
}
__global__ void running_index_kernel(float* out, int start, int step) {
  int index = start;
  for (int turn = 0; turn < 3; ++turn) index += step;
  out[threadIdx.x] = static_cast<float>(index);
}

struct FiveBytes {
  char bytes[5];
};
static_assert(braid::rt::cuda::parameter_bytes<>() == 0);
static_assert(braid::rt::cuda::parameter_bytes<FiveBytes, float*, char, int>() == 24);

struct Launch {
  dim3 grid = 1, block = 64;
  size_t shared = 0;
};
template <class... Parameters, class... Arguments>
const char* go(const char* name, void (*kernel)(Parameters...), Launch launch, void* stream,
               Arguments... arguments) {
  BRAID_LABEL("node");
  const cudaError_t error = braid::rt::cuda::launch(name, kernel, launch.grid, launch.block, launch.shared,
                                                    static_cast<cudaStream_t>(stream), arguments...);
  return error == cudaSuccess ? nullptr : cudaGetErrorName(error);
}

#define KERNEL(kernel, launch, ...)                                 \
  [](float* memory, void* stream) {                                 \
    (void)memory;                                                   \
    return go(#kernel, kernel, Launch launch, stream, __VA_ARGS__); \
  }

const char* kRace = "race";
const char* kUninitialized = "uninitialized read";
const char* kIllegal = "illegal access";
const char* kDivergent = "divergent barrier";
const char* kInvalid = "invalid use";
const char* kOverflow = "integer overflow";

}  // namespace

const std::vector<BlockFault>& block_faults() {
  static const std::vector<BlockFault> faults = {
      {"no barrier between a write and a read", KERNEL(neighbour_kernel<false>, {}, memory), kRace,
       "no barrier orders the read by thread (0,0,0) and the write by thread (1,0,0) of block (0,0,0); both "
       "touch "
       "byte 4 of shared array 'tile'"},
      {"a barrier between a write and a read", KERNEL(neighbour_kernel<true>, {}, memory), nullptr, ""},
      {"no barrier before the next turn writes", KERNEL(loop_kernel<false>, {}, memory), kRace,
       "shared array 'tile'"},
      {"a barrier before the next turn writes", KERNEL(loop_kernel<true>, {}, memory), nullptr, ""},
      {"a second reduction in the same memory", KERNEL(two_reductions_kernel<false>, {}, memory), kRace,
       "shared array 'partial'"},
      {"a second reduction after a barrier", KERNEL(two_reductions_kernel<true>, {}, memory), nullptr, ""},
      {"all threads write one place", KERNEL(all_write_one_kernel, {}, memory), kRace,
       "no barrier orders the write by thread (0,0,0) and the write by thread (1,0,0)"},
      {"no barrier in global memory", KERNEL(through_global_kernel<false>, {}, memory), kRace,
       "of cudaMalloc #0"},
      {"a barrier in global memory", KERNEL(through_global_kernel<true>, {}, memory), nullptr, ""},
      {"a shift in place", KERNEL(in_place_shift_kernel, {}, memory), kRace, "byte 4 of cudaMalloc #0"},
      {"halves of one word", KERNEL(halves_of_words_kernel<2>, {}, memory), nullptr, ""},
      {"one half of a word", KERNEL(halves_of_words_kernel<1>, {}, memory), kRace, "byte 0 of cudaMalloc #0"},
      {"lanes with nothing between", KERNEL(lanes_kernel<Between::kNothing>, ({1, 32}), memory), kRace,
       "'tile'"},
      {"lanes with a shuffle between", KERNEL(lanes_kernel<Between::kShuffle>, ({1, 32}), memory), kRace,
       "'tile'"},
      {"lanes with a vote between", KERNEL(lanes_kernel<Between::kVote>, ({1, 32}), memory), kRace, "'tile'"},
      {"lanes with __syncwarp between", KERNEL(lanes_kernel<Between::kSyncwarp>, ({1, 32}), memory), nullptr,
       ""},
      {"lanes of two masks", KERNEL(lanes_kernel<Between::kOtherLanes>, ({1, 32}), memory), kRace, "'tile'"},
      {"halves of a warp that meet", KERNEL(half_warps_kernel<true>, ({1, 32}), memory), nullptr, ""},
      {"halves of a warp that do not meet", KERNEL(half_warps_kernel<false>, ({1, 32}), memory), kRace,
       "'tile'"},
      {"__syncwarp between two warps", KERNEL(syncwarp_for_two_warps_kernel, {}, memory), kRace, "'tile'"},
      {"an atomic and a plain read", KERNEL(count_kernel<true>, {}, memory), kRace, "atomic access"},
      {"atomics", KERNEL(count_kernel<false>, {}, memory), nullptr, ""},

      {"blocks write one place", KERNEL(blocks_write_one_kernel, {4}, memory), kRace,
       "nothing orders the write by thread (0,0,0) of block (0,0,0) and the write by thread (0,0,0) of block "
       "(1,0,0)"},
      {"a block reads what another writes", KERNEL(block_reads_anothers_kernel, ({4, 1}), memory), kRace,
       "the read by thread (0,0,0) of block (2,0,0)"},
      {"a block overwrites what others read",
       KERNEL(block_overwrites_what_another_reads_kernel, ({4, 1}), memory), kRace, "block (3,0,0)"},
      {"blocks add without atomics", KERNEL(blocks_add_kernel<false>, {4}, memory), kRace,
       "byte 0 of cudaMalloc #0"},
      {"blocks add with atomics", KERNEL(blocks_add_kernel<true>, {4}, memory), nullptr, ""},
      {"blocks share inputs", KERNEL(blocks_share_inputs_kernel, {4}, memory), nullptr, ""},

      {"past a shared array", KERNEL(past_static_kernel, {}, memory), kIllegal,
       "read of 4 bytes out of bounds: shared array 'first' (256 bytes), offset 256"},
      {"past dynamic shared memory", KERNEL(past_dynamic_kernel, ({1, 64, 256}), memory, 1), kIllegal,
       "write of 4 bytes out of bounds: dynamic shared memory (256 bytes), offset 256"},
      {"before dynamic shared memory", KERNEL(past_dynamic_kernel, ({1, 64, 256}), memory, -1), kIllegal,
       "offset -4"},
      {"within dynamic shared memory", KERNEL(past_dynamic_kernel, ({1, 64, 256}), memory, 0), nullptr, ""},
      {"shared memory that nobody wrote", KERNEL(uninitialized_shared_kernel, {}, memory), kUninitialized,
       "thread (63,0,0) of block (0,0,0) reads byte 252 of shared array 'tile'"},
      {"shared memory of another block", KERNEL(left_by_another_block_kernel, ({2, 64, 256}), memory),
       kUninitialized, "thread (63,0,0) of block (1,0,0) reads byte 252 of dynamic shared memory"},
      {"static and dynamic shared memory above the limit",
       KERNEL(large_static_kernel, ({1, 64, 45056}), memory), kInvalid,
       "45056 bytes of dynamic and 8192 of static shared memory; the limit is 49152"},
      {"static and dynamic shared memory at the limit", KERNEL(large_static_kernel, ({1, 64, 40960}), memory),
       nullptr, ""},

      {"a barrier in a branch", KERNEL(barrier_in_branch_kernel, {}, memory), kDivergent, "have ended"},
      {"a return before a barrier", KERNEL(return_before_barrier_kernel, {}, memory, 40), kDivergent,
       "24 of the threads"},
      {"more turns in one warp", KERNEL(turns_differ_kernel, {}, memory), kDivergent, "32 of the threads"},
      {"barriers of two kinds", KERNEL(two_barriers_kernel, {}, memory), kDivergent, "__syncthreads_or"},
      {"a lane does not come", KERNEL(lane_does_not_come_kernel, ({1, 32}), memory), kDivergent,
       "1 of the threads"},
      {"lanes at two shuffles", KERNEL(lanes_at_two_shuffles_kernel, ({1, 32}), memory), kDivergent,
       "__shfl_xor_sync of line"},
      {"lanes reduce two types", KERNEL(lanes_reduce_two_types_kernel, ({1, 32}), memory), kDivergent,
       "warp_reduce"},
      {"lanes give two masks", KERNEL(lanes_give_two_masks_kernel, ({1, 32}), memory), kDivergent,
       "__shfl_sync"},
      {"a lane outside of its mask", KERNEL(not_in_own_mask_kernel, ({1, 32}), memory), kDivergent,
       "the lane is not in its own mask"},
      {"a value from outside of the mask", KERNEL(from_outside_the_mask_kernel, ({1, 32}), memory),
       kDivergent, "takes the value of lane 16, which is not in the mask"},
      {"__activemask as a mask", KERNEL(active_mask_kernel, ({1, 32}), memory), kDivergent,
       "which is not in the mask"},
      {"a width that is no power of two", KERNEL(odd_width_kernel, ({1, 32}), memory), kDivergent,
       "width 12"},
      {"a mask of lanes that there are not", KERNEL(warp_beyond_block_kernel, ({1, 48}), memory), kDivergent,
       "lanes beyond the block's 48 threads"},
      {"__syncwarp without a lane", KERNEL(syncwarp_without_a_lane_kernel, ({1, 32}), memory), kDivergent,
       "__syncwarp"},

      {"a vector load at byte 4", KERNEL(vector_copy_kernel, ({1, 8}), memory + 1, memory + 64), kIllegal,
       "misaligned access at byte 4 of cudaMalloc #0"},
      {"a vector store at byte 264", KERNEL(vector_copy_kernel, ({1, 8}), memory, memory + 66), kIllegal,
       "misaligned access at byte 264"},
      {"aligned vectors", KERNEL(vector_copy_kernel, ({1, 8}), memory, memory + 64), nullptr, ""},
      {"a member of a misaligned vector",
       KERNEL(member_of_misaligned_kernel, ({1, 8}), memory + 1, memory + 64), kIllegal,
       "it must be aligned to 8 bytes"},
      {"a misaligned double", KERNEL(misaligned_double_kernel, ({1, 1}), memory), kIllegal,
       "aligned to 8 bytes"},
      {"vectors of an array of floats", KERNEL(misaligned_shared_kernel, {}, memory), kIllegal,
       "misaligned access at byte 0 of shared array 'tile'"},
      {"a product of ints", KERNEL(index_kernel, {}, memory, 65536, 65536), kOverflow,
       "index_kernel [node] on rank 0 stream 0: a multiplication of 'int' overflows in line"},
      {"a product in 64 bits", KERNEL(wide_index_kernel, {}, memory, 65536, 65536), nullptr, ""},
      {"a sum of ints", KERNEL(running_index_kernel, {}, memory, 2147483000, 500), kOverflow,
       "an addition of 'int'"},
      {"sums in range", KERNEL(running_index_kernel, {}, memory, 2147480000, 500), nullptr, ""},

      {"an empty grid", KERNEL(blocks_write_one_kernel, ({0, 64}), memory), kInvalid,
       "a grid of (0,1,1) blocks"},
      {"an empty block", KERNEL(blocks_write_one_kernel, ({1, dim3(32, 0)}), memory), kInvalid,
       "a block of (32,0,1) threads"},
      {"too many threads", KERNEL(blocks_write_one_kernel, ({1, dim3(64, 17)}), memory), kInvalid,
       "a block of 1088 threads; at most 1024"},
      {"a block too deep", KERNEL(blocks_write_one_kernel, ({1, dim3(1, 1, 65)}), memory), kInvalid,
       "(1024,1024,64)"},
      {"a grid too high", KERNEL(blocks_write_one_kernel, ({dim3(1, 65536), 1}), memory), kInvalid,
       "(1,65536,1)"},
      {"a grid too deep", KERNEL(blocks_write_one_kernel, ({dim3(1, 1, 65536), 1}), memory), kInvalid,
       "(1,1,65536)"},
      {"a grid too wide", KERNEL(blocks_write_one_kernel, ({dim3(0x80000000u), 1}), memory), kInvalid,
       "(2147483648,1,1)"},
      {"dynamic shared memory above the default", KERNEL(blocks_write_one_kernel, ({1, 64, 49153}), memory),
       kInvalid,
       "49153 bytes of dynamic shared memory; the kernel may have 49152, or more after cudaFuncSetAttribute"},
  };
  return faults;
}

const char* run_block_fault(const BlockFault& fault) {
  cudaStream_t stream;
  float* memory = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMalloc(&memory, kBlockFaultBytes));
  CHECK_CUDA(cudaMemsetAsync(memory, 0, kBlockFaultBytes, stream));
  const char* launched = fault.run(memory, stream);
  const cudaError_t error = cudaStreamSynchronize(stream);
  CHECK_CUDA(cudaFree(memory));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return launched != nullptr ? launched : error == cudaSuccess ? nullptr : cudaGetErrorName(error);
}
