// Inputs whose values decide what is computed and must therefore be known at compile time.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// Refuses the node: input k, which `what` names in the message, is known only at run time.
[[noreturn]] void fail_unknown_value(OpContext& c, int k, const char* what);

// The elements of a constant of any type, row-major. BR0116 if input k is known only at run time.
std::vector<double> constant_numbers(OpContext& c, int k, const char* what);

// The value of an input with one element.
double constant_number(OpContext& c, int k, const char* what);

// Whether input k is there and has elements: older models pass an empty tensor for an absent input.
bool has_elements(OpContext& c, int k);

// A tensor of the program with these values, rounded to `dtype`.
TensorBox constant_table(OpContext& c, const std::string& name, DType dtype, std::vector<std::int64_t> sizes,
                         const std::vector<double>& values);

// A tensor known at compile time with these values, rounded to `dtype`.
Tensor rounded_tensor(DType dtype, std::vector<std::int64_t> sizes, const std::vector<double>& values);

}  // namespace braid::frontend
