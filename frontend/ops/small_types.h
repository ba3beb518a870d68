// Conversions of storage types: types below one byte and 8-bit floats (ir/dtype.h). They are written out as
// arithmetic on bytes, so that the interpreter and all targets compute the same bits. Tables: ONNX's Cast.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// How a number that f8e8m0 does not have becomes one that it has.
enum class PowerRounding { up, down, nearest };

struct CastOptions {
  bool saturate = true;  // of 8-bit floats: the largest number instead of inf or NaN
  PowerRounding rounding = PowerRounding::up;
};

// The type in which elements of a storage type become numbers: f32, or i32. Other types as they are.
DType number_type(DType dtype);
// An element of any type as a number of this type.
ValueId to_number(BodyBuilder& b, ValueId v);
// ONNX Cast between any types. Integers keep their low bits. Floats are truncated to integers, and rounded to
// nearest even to floats; doubles go by way of f32 as in other implementations. f4e2m1 always saturates.
ValueId cast_element(BodyBuilder& b, ValueId v, DType to, const CastOptions& options = {});
TensorBox cast_tensor(ir::Lowering& l, TensorBox x, DType to, const CastOptions& options = {});

// Returns a constant of a type below one byte that stays packed in memory, as ONNX packs it. Readers extract
// the elements from its bytes.
TensorBox packed_constant(ir::Lowering& l, const std::string& name, const Tensor& tensor);

}  // namespace braid::frontend
