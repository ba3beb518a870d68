// The interpreter's kernels, as ir/graph.h defines them.
#pragma once

#include "ir/interpreter_memory.h"

namespace braid::ir {

void run_kernel(RankMemory& memory, const Operation& op, const Loops& loops);
void run_kernel(RankMemory& memory, const Operation& op, const Gemm& gemm);
void run_kernel(RankMemory& memory, const Operation& op, const Convolution& convolution);
void run_kernel(RankMemory& memory, const Operation& op, const Pooling& pooling);
void run_kernel(RankMemory& memory, const Operation& op, const Recurrence& recurrence);
void run_kernel(RankMemory& memory, const Operation& op, const Attention& attention);

}  // namespace braid::ir
