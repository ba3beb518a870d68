// Recognises activation functions of matrix libraries in loop bodies by their structure.
#pragma once

#include <cstddef>
#include <optional>

#include "ir/graph.h"

namespace braid::ir {

// Returns the function that maps the value of instruction `from` to that of instruction `to`, if it is the
// identity or an activation. It must have the activation's formula (ir/formula.h), however it is written. A
// clip at 10, a leaky ReLU or x*sigmoid(1.702*x) agree with an activation for many x but are none.
//
// Constants may be rounded to float32, or to the type of the value that is finally stored, `result`: then the
// computation differs from the activation only by roundings. For the same reason no instruction may round to
// less than `result`. Selections that turn NaN into a number are no activations either.
std::optional<PostOp::Kind> activation_between(const LoopBody& body, std::size_t from, std::size_t to,
                                               DType result);

// Whether intermediate values of `dtype` are rounded no further than the `result`.
bool holds(DType dtype, DType result);

}  // namespace braid::ir
