// Lists the inputs and outputs of a program, for the comments at its head.
#pragma once

#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::codegen {

// Returns a line per input, then per output, safe in any comment: "input x: f32 [batch, 64]", "output y: f32
// [batch, 32], the part S(1) of [batch, 64]".
std::vector<std::string> interface_lines(const ir::Schedule& schedule);

// "/Concat: n == m + 1", without the origin if there is none: part of an error of both targets' programs.
std::string guard_text(const ir::Guard& guard);

}  // namespace braid::codegen
