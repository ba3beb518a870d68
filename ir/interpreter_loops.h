// Loops and GEMMs of the interpreter.
#pragma once

#include <string>

#include "ir/interpreter_memory.h"

namespace braid::ir {

void run_loops(RankMemory& memory, const Operation& op, const Loops& loops);
void run_gemm(RankMemory& memory, const Operation& op, const Gemm& gemm);

}  // namespace braid::ir
