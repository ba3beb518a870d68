// Collectives of a model in the operator set of another reader.
//
//   ai.braid          this project's: everything
//   com.microsoft     ONNX Runtime's AllReduce (sums), AllGather and AllToAll, over all ranks, of the types
//                     that its kernels take
//   DistCollective    TensorRT's, in ONNX's own domain: along the first axis, in groups of equal size
//
// docs/collectives.md lists what each can express. Moves along other axes become Split and Concat around the
// collective.
#pragma once

#include "frontend/emit_onnx.h"
#include "frontend/load.h"
#include "frontend/rank_model.h"

namespace braid::frontend {

// Rewrites the collectives of the model's own graph; those that have the form stay as they are. In other
// forms than ai.braid, the entry that OfRank takes from its table becomes an initializer with one entry per
// rank. Throws kCollectiveForm with the first node that the form cannot express. The model's operator sets
// are those of the result.
void rewrite_collectives(Model& model, const Opsets& opsets, const ElementTypes& types, int ranks,
                         CollectiveForm form);

}  // namespace braid::frontend
