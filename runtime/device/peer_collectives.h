// Collectives whose kernels read peers' memory: one-shot and two-shot all-reduce, all-gather and
// reduce-scatter.
//
// Operands and results lie at equal offsets in all ranks' segments, which are a symmetric window. Every
// kernel begins with a barrier of all ranks, after which operands are written and results may be, and ends
// with another one, after which operands may be overwritten. Each block synchronises only with the block of
// the same index on the other ranks; a kernel is done when all its blocks are.
//
// Reductions apply the operation in rank order, in float for half types, so all ranks get the same bits.
#pragma once

#include <type_traits>

#include "runtime/device/convert.h"
#include "runtime/device/math.h"
#include "runtime/device/pack.h"
#include "runtime/device/peer.h"
#include "runtime/device/peer_group.h"
#include "runtime/device/reduce.h"

#ifdef BRAID_HAS_PEER_ACCESS

#ifdef BRAID_EMULATED_DEVICE
#define BRAID_UNROLL(n)
#else
#define BRAID_UNROLL(n) _Pragma("unroll n")
#endif

namespace braid::rt::device {

// The address of what lies at this offset in the segment of a rank of the group.
template <class T>
__device__ T* at_peer(const PeerGroup& group, uint64_t offset, int peer) {
  return reinterpret_cast<T*>(group.segments[peer] + offset);
}

// Waits for the block of this index on all ranks, after which their writes are visible. Returns false on all
// threads if the host has abandoned the step.
__device__ inline bool peer_barrier(const PeerGroup& group) {
  __syncthreads();
  const int peer = thread_in_block();
  bool good = true;
  if (peer < group.ranks && peer != group.rank) {
    const auto flag_of = [&](int from, int at) {
      const uint64_t index = static_cast<uint64_t>(blockIdx.x) * group.ranks + from;
      return at_peer<unsigned>(group, group.flags + index * sizeof(unsigned), at);
    };
    good = raise_flag(flag_of(group.rank, peer), group.abandoned) &&
           lower_flag(flag_of(peer, group.rank), group.abandoned);
  }
  return __syncthreads_and(good) != 0;
}

template <class T>
constexpr int kPack = 16 / sizeof(T);

// The type in which a reduction computes.
template <class T>
using PeerAccumulator = std::conditional_t<math::kIsHalf<T>, float, T>;

// The mean: a sum that is divided at the end.
struct Mean : Sum {};

template <class Op, class A>
__device__ A finished(A value, int ranks) {
  if constexpr (std::is_same_v<Op, Mean>) return value / static_cast<A>(ranks);
  return value;
}
template <class T>
__device__ PeerAccumulator<T> widened(T value) {
  if constexpr (math::kIsHalf<T>)
    return to_float(value);
  else
    return value;
}
template <class T>
__device__ T narrowed(PeerAccumulator<T> value) {
  if constexpr (math::kIsHalf<T>)
    return from_float<T>(value);
  else
    return value;
}

// Elements [index * n, index * n + n) of the operands at `offset`, reduced over all ranks.
template <class Op, class T, int n>
__device__ Pack<T, n> reduced(const PeerGroup& group, uint64_t offset, int64_t index) {
  using A = PeerAccumulator<T>;
  const auto load = [&](int peer) { return load_pack<n>(at_peer<const T>(group, offset, peer) + index * n); };
  A sums[n];
  const Pack<T, n> first = load(0);
  for (int k = 0; k < n; ++k) sums[k] = widened(first.values[k]);
  BRAID_UNROLL(4)
  for (int peer = 1; peer < group.ranks; ++peer) {
    const Pack<T, n> next = load(peer);
    for (int k = 0; k < n; ++k) sums[k] = Op::template apply<A>(sums[k], widened(next.values[k]));
  }
  Pack<T, n> out;
  for (int k = 0; k < n; ++k) out.values[k] = narrowed<T>(finished<Op>(sums[k], group.ranks));
  return out;
}
// The same for a pack that extends past element `count`: only the elements before it.
template <class Op, class T, int n>
__device__ Pack<T, n> reduced_up_to(const PeerGroup& group, uint64_t offset, int64_t index, int64_t count) {
  if ((index + 1) * n <= count) return reduced<Op, T, n>(group, offset, index);
  Pack<T, n> out = {};
  for (int64_t i = index * n; i < count; ++i)
    out.values[i - index * n] = reduced<Op, T, 1>(group, offset, i).values[0];
  return out;
}
template <class T, int n>
__device__ void store_up_to(T* output, const Pack<T, n>& pack, int64_t index, int64_t count) {
  if ((index + 1) * n <= count) {
    store_pack(output + index * n, pack);
  } else {
    for (int64_t i = index * n; i < count; ++i) output[i] = pack.values[i - index * n];
  }
}

// Whether operands that begin there can be moved in packs.
__device__ inline bool aligned(uint64_t offset, const void* pointer) {
  return (offset | reinterpret_cast<uintptr_t>(pointer)) % 16 == 0;
}

// Calls body(index) for the packs of this thread. The index of a pack alone determines its block.
template <int n, class Body>
__device__ void for_packs(int64_t count, const Body& body) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i * n < count; i += step) body(i);
}

// output[i] = reduction of all ranks' input[i].
template <class Op, class T, int n>
__device__ void reduce_packs(const PeerGroup& group, uint64_t input, T* output, int64_t count) {
  for_packs<n>(count, [&](int64_t i) {
    store_up_to<T, n>(output, reduced_up_to<Op, T, n>(group, input, i, count), i, count);
  });
}
template <class Op, class T>
__device__ void reduce_all(const PeerGroup& group, uint64_t input, T* output, int64_t count) {
  if (aligned(input, output)) {
    reduce_packs<Op, T, kPack<T>>(group, input, output, count);
  } else {
    reduce_packs<Op, T, 1>(group, input, output, count);
  }
}

// output[i] = the peer's value i at `input`.
template <class T, int n>
__device__ void copy_packs(const PeerGroup& group, int peer, uint64_t input, T* output, int64_t count) {
  const T* from = at_peer<const T>(group, input, peer);
  for_packs<n>(count, [&](int64_t i) {
    if ((i + 1) * n <= count) {
      store_pack(output + i * n, load_pack<n>(from + i * n));
    } else {
      for (int64_t k = i * n; k < count; ++k) output[k] = from[k];
    }
  });
}

// Every rank reads the inputs of all. `input` is the offset in the segment of `count` elements.
template <class Op, class T>
__global__ void one_shot_all_reduce(const __grid_constant__ PeerGroup group, uint64_t input, T* output,
                                    int64_t count) {
  if (!peer_barrier(group)) return;
  reduce_all<Op, T>(group, input, output, count);
  peer_barrier(group);
}

// The same if the output is the input: reads as much as the grid holds in registers before writing it.
template <class Op, class T, int n>
__device__ void one_shot_in_place(const PeerGroup& group, uint64_t input, T* output, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.x; first * n < count; first += step) {
    const int64_t i = first + threadIdx.x;
    Pack<T, n> sum = {};
    if (i * n < count) sum = reduced_up_to<Op, T, n>(group, input, i, count);
    if (!peer_barrier(group)) return;
    if (i * n < count) store_up_to<T, n>(output, sum, i, count);
  }
}
template <class Op, class T>
__global__ void one_shot_all_reduce_in_place(const __grid_constant__ PeerGroup group, uint64_t input,
                                             T* output, int64_t count) {
  if (!peer_barrier(group)) return;
  if (aligned(input, output)) {
    one_shot_in_place<Op, T, kPack<T>>(group, input, output, count);
  } else {
    one_shot_in_place<Op, T, 1>(group, input, output, count);
  }
}

// Every rank reduces one slab of the inputs and stores it to the outputs of all. `output` is an offset in the
// segment; it may be the input, as no other rank reads the slab.
template <class Op, class T, int n>
__device__ void two_shot(const PeerGroup& group, uint64_t input, uint64_t output, int64_t count) {
  const int64_t slab = ((count + group.ranks - 1) / group.ranks + n - 1) / n * n;
  const int64_t first = slab * group.rank;
  const int64_t size = first >= count ? 0 : count - first < slab ? count - first : slab;
  for_packs<n>(size, [&](int64_t i) {
    const Pack<T, n> sum = reduced_up_to<Op, T, n>(group, input + first * sizeof(T), i, size);
    for (int k = 0; k < group.ranks; ++k) {
      const int peer = (group.rank + k) % group.ranks;
      store_up_to<T, n>(at_peer<T>(group, output, peer) + first, sum, i, size);
    }
  });
}
template <class Op, class T>
__global__ void two_shot_all_reduce(const __grid_constant__ PeerGroup group, uint64_t input, uint64_t output,
                                    int64_t count) {
  if (!peer_barrier(group)) return;
  if ((input | output) % 16 == 0) {
    two_shot<Op, T, kPack<T>>(group, input, output, count);
  } else {
    two_shot<Op, T, 1>(group, input, output, count);
  }
  peer_barrier(group);
}

// output[p * count + i] = rank p's input[i].
template <class T>
__global__ void one_shot_all_gather(const __grid_constant__ PeerGroup group, uint64_t input, T* output,
                                    int64_t count) {
  if (!peer_barrier(group)) return;
  for (int k = 0; k < group.ranks; ++k) {
    const int peer = (group.rank + k) % group.ranks;
    T* to = output + peer * count;
    if (aligned(input, to)) {
      copy_packs<T, kPack<T>>(group, peer, input, to, count);
    } else {
      copy_packs<T, 1>(group, peer, input, to, count);
    }
  }
  peer_barrier(group);
}

// output[i] = reduction of all ranks' input[rank * count + i].
template <class Op, class T>
__global__ void one_shot_reduce_scatter(const __grid_constant__ PeerGroup group, uint64_t input, T* output,
                                        int64_t count) {
  if (!peer_barrier(group)) return;
  reduce_all<Op, T>(group, input + group.rank * count * sizeof(T), output, count);
  peer_barrier(group);
}

}  // namespace braid::rt::device

#endif
