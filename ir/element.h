// Single elements of tensors: half-precision conversions, reading, writing, and their exact text.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/dtype.h"
#include "ir/loop_body.h"

namespace braid::ir {

// IEEE binary16 and bfloat16. Conversions to them round to nearest even.
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
float bfloat_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat(float value);

// The nearest value of a floating-point type.
double round_to(DType dtype, double value);

// Floats as double, integers as int64 (u64 by bit pattern), bool as 0 or 1. `at` may be unaligned.
Literal read_element(DType dtype, const std::byte* at);
// Rounds floats, keeps the low bits of integers, stores bool as `value != 0`.
void write_element(DType dtype, std::byte* at, Literal value);

// Text that parses back to the same bits: shortest decimals, nan, inf, -0, bits(hex) for other NaNs, true,
// false.
std::string element_text(DType dtype, const std::byte* at);
// Literals of f32 and narrower are rounded to f32.
std::string literal_text(DType dtype, Literal value);

// FNV-1a, 64 bits.
std::uint64_t fnv1a(const std::byte* data, std::size_t size);

}  // namespace braid::ir
