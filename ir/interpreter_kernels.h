// Convolutions, pooling and recurrent layers of the interpreter, as their definitions in ir/graph.h say.
#pragma once

#include "ir/interpreter_memory.h"

namespace braid::ir {

void run_convolution(RankMemory& memory, const Operation& op, const Convolution& convolution);
void run_pooling(RankMemory& memory, const Operation& op, const Pooling& pooling);
void run_recurrence(RankMemory& memory, const Operation& op, const Recurrence& recurrence);

}  // namespace braid::ir
