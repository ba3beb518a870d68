// Linear quantisation, as all quantised operators share it: number = scale * (stored - zero point).
//
// Integers less their zero points are i32 values, whose products accumulate in i32. A number becomes an
// integer by rounding, adding the zero point, both in f32, and a cast that saturates. Passes that choose
// integer kernels look for these forms.
#pragma once

#include <optional>

#include "frontend/ops/common.h"

namespace braid::frontend {

// Inputs that belong together; an index may name an absent input.
struct QuantisedInput {
  int tensor, scale, zero;
};

// BR0130: a constant element of the scale in input k is not a positive finite number.
void check_scale(OpContext& c, int k);
// Whether input k is absent, or a constant of zeros.
bool is_absent_or_zero(OpContext& c, int k);
// Input k, which has one element, as a scalar: a scale, checked and as f32 unless `keep_type`.
TensorBox one_scale(OpContext& c, int k, bool keep_type = false);
// The zero point of a whole tensor as i32; nullopt if it is zero. BR0113: its type differs from `type`.
std::optional<TensorBox> one_zero(OpContext& c, int k, DType type);
// BR0113: zero point k has another type.
void require_zero_type(OpContext& c, int k, DType type);

// Elements of an integer type as i32, less their zero point.
TensorBox centred(ir::Lowering& l, const TensorBox& x, const std::optional<TensorBox>& zero);
// Numbers, already divided by the scale, as integers: of `to`, whose range they are clipped to.
TensorBox rounded_to(ir::Lowering& l, const TensorBox& x, const std::optional<TensorBox>& zero, DType to);
// i32 or f32 times a scale, in f32.
TensorBox scaled(ir::Lowering& l, const TensorBox& x, const TensorBox& scale);

// A whole tensor with one scale: as f32.
TensorBox dequantised(OpContext& c, const QuantisedInput& in);
// Quantises x, of type f32, with one scale. `out` has the scale and the zero point of the result, whose type
// is that of the zero point or `type`.
TensorBox quantised(OpContext& c, const TensorBox& x, const QuantisedInput& out, DType type);

// x as DynamicQuantizeLinear quantises it.
struct DynamicallyQuantised {
  TensorBox values;  // u8
  TensorBox scale;   // f32, rank 0
  TensorBox zero;    // u8, rank 0
};
DynamicallyQuantised dynamically_quantised(ir::Lowering& l, const TensorBox& x);

inline constexpr TypeSet kQuantisedBytes = {DType::i8, DType::u8};

}  // namespace braid::frontend
