// Products on tensor cores by whole warps: mma.sync of PTX, for sm_80 and later.
//
//   MmaSums<float> sums = {};              16 x 8
//   mma_sync<__half>(sums, a, b);          sums += a * b, with a of 16 x k and b of k x 8
//
// | element         | k  | elements of a register | sums          |
// |-----------------|----|------------------------|---------------|
// | __half          | 16 | 2                      | float, __half |
// | __nv_bfloat16   | 16 | 2                      | float         |
// | Tf32            | 8  | 1                      | float         |
// | int8_t, uint8_t | 32 | 4                      | int           |
//
// All 32 lanes of a warp call it together. Let g = lane / 4, t = lane % 4, and let n elements fill a
// register, the first in the low bits. Then a lane holds
//
//   a    register r: row g + 8 * (r % 2), columns n * (t + 4 * (r / 2)) and the next n - 1
//   b    register r: column g, rows n * (t + 4 * r) and the next n - 1
//   sums value i:    row g + 8 * (i / 2), column 2 * t + i % 2; of __half two in a register
//
// (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and those of m16n8k8 and m16n8k32).
// ldmatrix loads a and b so (runtime/device/ldmatrix.h).
//
// Products are exact. PTX gives float sums "at least single precision" and leaves their order and rounding
// open, so a caller must accept an error of k * 2^-23 * (|sum before| + the sum of all |a * b|). The emulated
// device adds in double precision and then rounds towards zero, as tensor cores do (Fasi et al., 2021,
// "Numerical behavior of NVIDIA tensor cores"), or to the nearest __half. Sums of integers wrap. A NaN is
// 0x7fffffff, of __half 0x7fff. Subnormal numbers keep their values. mma_sync ignores the low 13 bits of a
// Tf32 operand, which may be any float; to_tf32 rounds to the nearest instead.
#pragma once

#include <cstdint>
#include <type_traits>

namespace braid::rt::device {

struct Tf32 {
  uint32_t bits;
};

template <class T>
constexpr int kMmaDepth = 32 / static_cast<int>(sizeof(T));  // k

struct MmaA {
  uint32_t registers[4];
};
struct MmaB {
  uint32_t registers[2];
};
template <class Sum>
struct MmaSums {
  Sum values[4];
};
template <>
struct MmaSums<__half> {
  uint32_t values[2];
};

// Rounds to 10 bits of mantissa, halfway cases away from zero (cvt.rna.tf32.f32).
__device__ inline Tf32 to_tf32(float value) {
#ifdef BRAID_EMULATED_DEVICE
  return {emulated::tf32_bits(value)};
#else
  Tf32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded.bits) : "f"(value));
  return rounded;
#endif
}

#ifdef BRAID_EMULATED_DEVICE

template <class A, class B, class Sum>
constexpr emulated::MmaKind mma_kind() {
  using Kind = emulated::MmaKind;
  if constexpr (std::is_same_v<A, __half>)
    return std::is_same_v<Sum, float> ? Kind::kHalf : Kind::kHalfSums;
  else if constexpr (std::is_same_v<A, __nv_bfloat16>)
    return Kind::kBfloat16;
  else if constexpr (std::is_same_v<A, Tf32>)
    return Kind::kTf32;
  else if constexpr (std::is_same_v<A, int8_t>)
    return std::is_same_v<B, int8_t> ? Kind::kInt8 : Kind::kInt8Uint8;
  else
    return std::is_same_v<B, int8_t> ? Kind::kUint8Int8 : Kind::kUint8;
}

#else

// d += a * b for four sums of the letter's registers.
#define BRAID_MMA(shape, letter)                                                                            \
  asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+" letter(d[0]), "+" letter(d[1]), "+" letter(d[2]), "+" letter(d[3])                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <class A, class B, class Sum>
__device__ void mma_instruction(Sum* d, const uint32_t* a, const uint32_t* b) {
  constexpr bool a_signed = std::is_same_v<A, int8_t>, b_signed = std::is_same_v<B, int8_t>;
  if constexpr (std::is_same_v<A, __half>)
    BRAID_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f");
  else if constexpr (std::is_same_v<A, __nv_bfloat16>)
    BRAID_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
  else if constexpr (std::is_same_v<A, Tf32>)
    BRAID_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
  else if constexpr (a_signed && b_signed)
    BRAID_MMA("m16n8k32.row.col.s32.s8.s8.s32", "r");
  else if constexpr (a_signed)
    BRAID_MMA("m16n8k32.row.col.s32.s8.u8.s32", "r");
  else if constexpr (b_signed)
    BRAID_MMA("m16n8k32.row.col.s32.u8.s8.s32", "r");
  else
    BRAID_MMA("m16n8k32.row.col.s32.u8.u8.s32", "r");
}
#undef BRAID_MMA

__device__ inline void mma_half_sums(uint32_t* d, const uint32_t* a, const uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif

// Whether the table has it.
template <class T, class... Types>
constexpr bool kIsOneOf = (std::is_same_v<T, Types> || ...);
template <class A, class B, class Sum>
constexpr bool kHasMma = kIsOneOf<A, int8_t, uint8_t>
                             ? kIsOneOf<B, int8_t, uint8_t>&& std::is_same_v<Sum, int>
                             : std::is_same_v<A, B>&& kIsOneOf<A, __half, __nv_bfloat16, Tf32> &&
                                   (std::is_same_v<Sum, float> ||
                                    (kIsOneOf<A, __half> && kIsOneOf<Sum, __half>));

#ifdef BRAID_EMULATED_DEVICE
template <class A, class B = A, class Sum>
void mma_sync(MmaSums<Sum>& sums, const MmaA& a, const MmaB& b, emulated::Place place = emulated::here()) {
  static_assert(kHasMma<A, B, Sum>, "the table above lists the element types and their sums");
  emulated::mma(place, mma_kind<A, B, Sum>(), a.registers, b.registers, sums.values);
}
#else
template <class A, class B = A, class Sum>
__device__ void mma_sync(MmaSums<Sum>& sums, const MmaA& a, const MmaB& b) {
  static_assert(kHasMma<A, B, Sum>, "the table above lists the element types and their sums");
  if constexpr (std::is_same_v<Sum, __half>)
    mma_half_sums(sums.values, a.registers, b.registers);
  else
    mma_instruction<A, B>(sums.values, a.registers, b.registers);
}
#endif

}  // namespace braid::rt::device
