// Activation functions that matrix libraries have, recognised in loop bodies by their structure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/loop_body.h"

namespace braid::codegen {

enum class Activation : std::uint8_t { identity, relu, gelu_tanh, gelu_erf, tanh, sigmoid };
std::string_view to_string(Activation activation);

// What instruction `to` is as a function of instruction `from`, if that is an activation. It is one only if
// it has the activation's formula (codegen/formula.h), however that is written: a clip at 10, a leaky ReLU or
// x*sigmoid(1.702*x) agree with one for many x and are none.
//
// Constants may be rounded to float32, or to the type of the value that is stored at last, `result`: what is
// computed otherwise differs from the activation by roundings only. For the same reason no instruction may
// round to less than `result`. Selections that turn NaN into a number are no activations either.
std::optional<Activation> activation_between(const ir::LoopBody& body, std::size_t from, std::size_t to,
                                             ir::DType result);

// Whether values of `dtype` on the way to a `result` are rounded no further than the result itself.
bool holds(ir::DType dtype, ir::DType result);

}  // namespace braid::codegen
