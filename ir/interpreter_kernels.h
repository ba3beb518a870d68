// Convolutions, pooling, recurrent layers and attention of the interpreter, as their definitions in ir/graph.h say.
#pragma once

#include "ir/interpreter_memory.h"

namespace braid::ir {

void run_convolution(RankMemory& memory, const Operation& op, const Convolution& convolution);
void run_pooling(RankMemory& memory, const Operation& op, const Pooling& pooling);
void run_recurrence(RankMemory& memory, const Operation& op, const Recurrence& recurrence);

void run_attention(RankMemory& memory, const Operation& op, const Attention& attention);

}  // namespace braid::ir
