// Activation functions that matrix libraries have, recognised in loop bodies by their structure.
#pragma once

#include <cstddef>
#include <optional>

#include "ir/graph.h"

namespace braid::ir {

// What instruction `to` is as a function of instruction `from`, if that is the identity or an activation. It
// is one only if it has the activation's formula (ir/formula.h), however that is written: a clip at 10, a leaky
// ReLU or x*sigmoid(1.702*x) agree with one for many x and are none.
//
// Constants may be rounded to float32, or to the type of the value that is stored at last, `result`: what is
// computed otherwise differs from the activation by roundings only. For the same reason no instruction may
// round to less than `result`. Selections that turn NaN into a number are no activations either.
std::optional<PostOp::Kind> activation_between(const LoopBody& body, std::size_t from, std::size_t to,
                                               DType result);

// Whether values of `dtype` on the way to a `result` are rounded no further than the result itself.
bool holds(DType dtype, DType result);

}  // namespace braid::ir
