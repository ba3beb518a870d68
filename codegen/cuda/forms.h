// Which operations of a plan take a form that is cheaper than IEEE's, with the errors of runtime/device/cheap_math.h:
//
//   y / s, s the same for several y      y * (1 / s), where 1 / s is computed once    product, scaled_product
//   y / 768                              y * 0.0013020834                             literal_product
//   sqrt, rsqrt, reciprocal, sigmoid     no call                                      refined
//   f16(exp(x)), f16(y * (erf(x) + 1))   fewer terms                                  for_half
//
// Types and levels decide: f64 and integers keep their operations, and so do values whose integer part is taken, as by quantisation. `braid compile --precise` leaves all as they are. The IR's text and
// the interpreter know nothing of this.
#pragma once

#include <string>

#include "codegen/cuda/loop_plan.h"

namespace braid::codegen::cuda {

// Fills in Value::form.
void choose_forms(const ir::Graph& graph, LoopPlan& plan);

// 1 / divisor as f32, if products with it can stand for quotients: neither is denormal, so that the product errs by 1.5 ulp, and by
// nothing if the divisor is a power of two. Otherwise 0.
float literal_reciprocal(double divisor);

// The text of value k of a body, which has a form other than IEEE's. That of a product names the reciprocal of its divisor %7, which
// `reciprocal_text` defines behind it: "const math::cheap::Reciprocal r7(v7);".
std::string form_text(const ir::LoopBody& body, std::size_t k, LoopPlan::Form form);
// Empty if no product has this divisor.
std::string reciprocal_text(const LoopPlan::Member& member, std::size_t divisor);

// "y %8 div scaled_product": a line for each value that is not computed as IEEE says.
std::string forms_text(const ir::Graph& graph, const LoopPlan& plan);

}  // namespace braid::codegen::cuda
