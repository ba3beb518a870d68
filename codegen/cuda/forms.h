// Chooses the operations of a plan that take a form cheaper than IEEE's, with the errors of
// runtime/device/cheap_math.h:
//
//   y / s, s the same for several y      y * (1 / s), where 1 / s is computed once    product, scaled_product
//   y / 768                              y * 0.0013020834                             literal_product
//   sqrt, rsqrt, reciprocal, sigmoid     no call                                      refined
//   f16(exp(x)), f16(y * (erf(x) + 1))   fewer terms                                  for_half
//
// Types and levels decide. f64 and integers keep their operations, and so do values whose integer part is
// taken, as in quantisation. `braid compile --precise` keeps IEEE forms everywhere. These forms appear
// neither in the IR's text nor in the interpreter.
#pragma once

#include <string>

#include "codegen/cuda/loop_plan.h"

namespace braid::codegen::cuda {

// Fills in Value::form.
void choose_forms(const ir::Graph& graph, LoopPlan& plan);

// Returns 1 / divisor as f32 if products with it can replace quotients: neither number is denormal. The
// product then errs by 1.5 ulp, or by nothing if the divisor is a power of two. Returns 0 otherwise.
float literal_reciprocal(double divisor);

// Returns the text of value k of a body, which has a form other than IEEE's. A product names the reciprocal
// of its divisor %7, which `reciprocal_text` defines after it: "const math::cheap::Reciprocal r7(v7);".
std::string form_text(const ir::LoopBody& body, std::size_t k, LoopPlan::Form form);
// Empty if no product has this divisor.
std::string reciprocal_text(const LoopPlan::Member& member, std::size_t divisor);

// "y %8 div scaled_product": a line for each value that is not computed as IEEE says.
std::string forms_text(const ir::Graph& graph, const LoopPlan& plan);

}  // namespace braid::codegen::cuda
