// The extern kernel `tree_ensemble` on the device (runtime/host/tree_ensemble.h defines its operands): a
// thread per row, which passes through the trees in their order. Results have the bits of those on the host.
#pragma once

#include "runtime/extern_kernel.h"
#include "runtime/host/tree_ensemble.h"

namespace braid::rt::cuda {

// The cut of a node, which lies at a multiple of 4 bytes.
__device__ inline int32_t tree_cut(const int32_t* node, int32_t) { return node[0]; }
__device__ inline int64_t tree_cut(const int32_t* node, int64_t) {
  return static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(node[1])) << 32 |
                              static_cast<uint32_t>(node[0]));
}

template <class Key, class Weight>
__global__ void tree_ensemble_kernel(TreeEnsemble<Key, Weight> e, Weight identity) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= e.rows) return;
  const Key* const keys = e.keys + row * e.columns;
  Weight* const y = e.y + row * e.targets;
  for (int64_t k = 0; k < e.targets; ++k) y[k] = identity;
  for (int64_t t = 0; t < e.trees; ++t) {
    const int32_t* const tree = e.tree + t * kTreeWords;
    const int32_t* node = e.nodes + tree[0];
    for (int32_t step = 0; step < tree[3]; ++step) {
      const int32_t* const members = node + kCutWords<Key>;
      const bool right = keys[members[0]] > tree_cut(node, Key{});
      node = e.nodes + members[1] + (right ? kNodeWords<Key> : 0);
    }
    const Weight* const weights = e.weights + node[kCutWords<Key> + 2];
    for (int32_t k = 0; k < tree[2]; ++k) {
      const Weight sum = y[tree[1] + k], weight = weights[k];
      const bool replaces = e.aggregate == TreeAggregate::min ? weight < sum : weight > sum;
      y[tree[1] + k] = e.aggregate == TreeAggregate::sum ? sum + weight : replaces ? weight : sum;
    }
  }
}

template <class Key, class Weight>
const char* tree_ensemble_of(const BraidExternCall* call) {
  const TreeEnsemble<Key, Weight> e = rt::tree_ensemble_operands<Key, Weight>(call);
  if (e.rows == 0 || e.targets == 0) return nullptr;
  constexpr int64_t kThreads = 128;
  const cudaError_t error = BRAID_LAUNCH(
      (tree_ensemble_kernel<Key, Weight>), dim3(static_cast<unsigned>((e.rows + kThreads - 1) / kThreads)),
      dim3(kThreads), 0, static_cast<cudaStream_t>(call->stream), e, tree_identity<Weight>(e.aggregate));
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

inline const char* tree_ensemble(const BraidExternCall* call) {
  const bool wide_keys = call->reads[0].dtype == BRAID_I64, wide = call->reads[3].dtype == BRAID_F64;
  if (wide_keys)
    return wide ? tree_ensemble_of<int64_t, double>(call) : tree_ensemble_of<int64_t, float>(call);
  return wide ? tree_ensemble_of<int32_t, double>(call) : tree_ensemble_of<int32_t, float>(call);
}

}  // namespace braid::rt::cuda
