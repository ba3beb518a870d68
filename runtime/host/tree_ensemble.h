// The extern kernel `tree_ensemble` on the host (runtime/tree_ensemble.h). Operands: keys [rows, columns] of
// int32 or int64, nodes (int32) [words], trees (int32) [trees, 4], weights of float32 or float64 [weights];
// result: y [rows, targets] of the type of the weights. Attribute `aggregate`: sum, min or max.
#pragma once

#include "runtime/extern_kernel.h"
#include "runtime/tree_ensemble.h"

namespace braid::rt {

template <class Key, class Weight>
TreeEnsemble<Key, Weight> tree_ensemble_operands(const BraidExternCall* call) {
  const BraidTensorView &keys = call->reads[0], &trees = call->reads[2];
  const char* aggregate = braid_find_attribute(call, "aggregate", BRAID_TEXT)->text;
  TreeEnsemble<Key, Weight> e;
  e.rows = keys.sizes[0];
  e.columns = keys.sizes[1];
  e.trees = trees.sizes[0];
  e.targets = call->writes[0].sizes[1];
  e.aggregate = aggregate[0] == 's'   ? TreeAggregate::sum
                : aggregate[1] == 'i' ? TreeAggregate::min
                                      : TreeAggregate::max;
  e.keys = static_cast<const Key*>(keys.data);
  e.nodes = static_cast<const int32_t*>(call->reads[1].data);
  e.tree = static_cast<const int32_t*>(trees.data);
  e.weights = static_cast<const Weight*>(call->reads[3].data);
  e.y = static_cast<Weight*>(call->writes[0].data);
  return e;
}

template <class Key, class Weight>
const char* tree_ensemble_of(const BraidExternCall* call) {
  run_tree_ensemble(tree_ensemble_operands<Key, Weight>(call));
  return nullptr;
}

inline const char* tree_ensemble(const BraidExternCall* call) {
  const bool wide_keys = call->reads[0].dtype == BRAID_I64, wide = call->reads[3].dtype == BRAID_F64;
  if (wide_keys)
    return wide ? tree_ensemble_of<int64_t, double>(call) : tree_ensemble_of<int64_t, float>(call);
  return wide ? tree_ensemble_of<int32_t, double>(call) : tree_ensemble_of<int32_t, float>(call);
}

}  // namespace braid::rt
