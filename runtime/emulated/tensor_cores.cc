// mma.sync, ldmatrix and stmatrix, lane by lane: runtime/device/{mma,ldmatrix}.h state what they do.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/emulated/block.h"
#include "runtime/emulated/hooks.h"
#include "runtime/emulated/kernel.h"
#include "runtime/emulated/shared_memory.h"

namespace braid::emulated {
namespace {

// ---- products

double half_value(uint32_t bits) { return __half::widen(static_cast<uint16_t>(bits)); }
double bfloat16_value(uint32_t bits) { return std::bit_cast<float>(bits << 16); }
double tf32_value(uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000u); }
double int8_value(uint32_t bits) { return static_cast<int8_t>(bits); }
double uint8_value(uint32_t bits) { return bits; }

enum class Sums { kFloat, kHalf, kInt };

struct Mma {
  const char* name;
  int bits;                                           // of an element
  double (*a_value)(uint32_t), (*b_value)(uint32_t);  // of an element's bits
  Sums sums;
};

const Mma& mma_of(MmaKind kind) {
  static const Mma table[] = {
      {"mma.m16n8k16.f32.f16", 16, half_value, half_value, Sums::kFloat},
      {"mma.m16n8k16.f16.f16", 16, half_value, half_value, Sums::kHalf},
      {"mma.m16n8k16.f32.bf16", 16, bfloat16_value, bfloat16_value, Sums::kFloat},
      {"mma.m16n8k8.f32.tf32", 32, tf32_value, tf32_value, Sums::kFloat},
      {"mma.m16n8k32.s32.s8.s8", 8, int8_value, int8_value, Sums::kInt},
      {"mma.m16n8k32.s32.s8.u8", 8, int8_value, uint8_value, Sums::kInt},
      {"mma.m16n8k32.s32.u8.s8", 8, uint8_value, int8_value, Sums::kInt},
      {"mma.m16n8k32.s32.u8.u8", 8, uint8_value, uint8_value, Sums::kInt},
  };
  return table[static_cast<int>(kind)];
}

struct MmaLane {
  uint32_t a[4], b[2], sums[4];
  const Mma* mma;
};

// Element e of a register.
uint32_t part(uint32_t bits, int e, int width) {
  return width == 32 ? bits : bits >> e * width & ((uint32_t{1} << width) - 1);
}

uint32_t truncated(double sum) {
  if (std::isnan(sum)) return 0x7fffffffu;
  const float nearest = static_cast<float>(sum);
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  return std::isfinite(nearest) && std::fabs(static_cast<double>(nearest)) > std::fabs(sum) ? bits - 1 : bits;
}

// Value i of a lane's sums, with `more` added.
void add_to(uint32_t* sums, int i, double more, Sums kind) {
  switch (kind) {
    case Sums::kFloat:
      sums[i] = truncated(static_cast<double>(std::bit_cast<float>(sums[i])) + more);
      break;
    case Sums::kHalf: {
      const double sum = half_value(part(sums[i / 2], i % 2, 16)) + more;
      const uint32_t rounded = __half::round(round_to_odd(sum));
      sums[i / 2] =
          i % 2 == 0 ? (sums[i / 2] & 0xffff0000u) | rounded : (sums[i / 2] & 0x0000ffffu) | rounded << 16;
      break;
    }
    case Sums::kInt:
      sums[i] += static_cast<uint32_t>(static_cast<int64_t>(more));
      break;
  }
}

void multiply(MmaLane* lanes) {
  constexpr size_t kMostDeep = 32;
  const Mma& mma = *lanes[0].mma;
  const int in_register = 32 / mma.bits, depth = 8 * in_register;
  std::array<std::array<double, kMostDeep>, 16> a{};  // rows
  std::array<std::array<double, kMostDeep>, 8> b{};   // columns
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int e = 0; e < in_register; ++e) {
      for (int r = 0; r < 4; ++r)
        a[g + 8 * (r % 2)][in_register * (t + 4 * (r / 2)) + e] =
            mma.a_value(part(lanes[lane].a[r], e, mma.bits));
      for (int r = 0; r < 2; ++r)
        b[g][in_register * (t + 4 * r) + e] = mma.b_value(part(lanes[lane].b[r], e, mma.bits));
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const auto& row = a[lane / 4 + 8 * (i / 2)];
      const auto& column = b[2 * (lane % 4) + i % 2];
      double sum = 0;
      for (int k = 0; k < depth; ++k) sum += row[k] * column[k];
      add_to(lanes[lane].sums, i, sum, mma.sums);
    }
  }
}

// ---- matrices in shared memory

// As a row, and as registers, of which each has two elements.
struct MatrixLane {
  uint16_t elements[8];
};

// Calls move(register element, row element), each as a lane and one of its elements.
template <bool transposed, class Move>
void for_each_element(const Move& move) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      for (int half = 0; half < 2; ++half) {
        const int along = 2 * (lane % 4) + half, across = lane / 4;
        const int row = transposed ? along : across, column = transposed ? across : along;
        move(lane, 2 * matrix + half, 8 * matrix + row, column);
      }
    }
  }
}

template <bool transposed, bool load>
void rearrange(MatrixLane* lanes) {
  std::array<MatrixLane, kLanes> from;
  std::memcpy(from.data(), lanes, sizeof from);
  for_each_element<transposed>([&](int lane, int element, int row, int column) {
    if (load)
      lanes[lane].elements[element] = from[row].elements[column];
    else
      lanes[row].elements[column] = from[lane].elements[element];
  });
}

// Each name tells a form from the others: lanes that call different ones do not meet.
const char* matrix_name(bool load, int matrices, bool transposed) {
  static const char* const names[2][2][3] = {
      {{"stmatrix.x1", "stmatrix.x2", "stmatrix.x4"},
       {"stmatrix.x1.trans", "stmatrix.x2.trans", "stmatrix.x4.trans"}},
      {{"ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4"},
       {"ldmatrix.x1.trans", "ldmatrix.x2.trans", "ldmatrix.x4.trans"}}};
  return names[load][transposed][matrices / 2];
}

constexpr size_t kRowBytes = 16;

void check_row(const char* what, const void* row) {
  require_shared(what, row);
  check_alignment(row, kRowBytes);
}

}  // namespace

void mma(Place place, MmaKind kind, const uint32_t* a, const uint32_t* b, void* sums) {
  const size_t sum_bytes = kind == MmaKind::kHalfSums ? 8 : 16;
  MmaLane lane{.a = {}, .b = {}, .sums = {}, .mma = &mma_of(kind)};
  std::memcpy(lane.a, a, sizeof lane.a);
  std::memcpy(lane.b, b, sizeof lane.b);
  std::memcpy(lane.sums, sums, sum_bytes);
  lane = warp_combine<MmaLane, multiply>(lane.mma->name, place, lane);
  std::memcpy(sums, lane.sums, sum_bytes);
}

void load_matrices(Place place, int matrices, bool transposed, const void* row, uint32_t* registers) {
  const uintptr_t code = BRAID_CALLER;
  const char* what = matrix_name(true, matrices, transposed);
  MatrixLane lane{};
  if (lane_of_warp() < 8 * matrices) {
    check_row(what, row);
    observe_access(code, row, kRowBytes, AccessKind::kRead);
    std::memcpy(&lane, row, kRowBytes);
  }
  lane = transposed ? warp_combine<MatrixLane, rearrange<true, true>>(what, place, lane)
                    : warp_combine<MatrixLane, rearrange<false, true>>(what, place, lane);
  std::memcpy(registers, &lane, 4 * static_cast<size_t>(matrices));
}

void store_matrices(Place place, int matrices, bool transposed, void* row, const uint32_t* registers) {
  const uintptr_t code = BRAID_CALLER;
  const char* what = matrix_name(false, matrices, transposed);
  MatrixLane lane{};
  std::memcpy(&lane, registers, 4 * static_cast<size_t>(matrices));
  lane = transposed ? warp_combine<MatrixLane, rearrange<true, false>>(what, place, lane)
                    : warp_combine<MatrixLane, rearrange<false, false>>(what, place, lane);
  if (lane_of_warp() >= 8 * matrices) return;
  check_row(what, row);
  observe_access(code, row, kRowBytes, AccessKind::kWrite);
  std::memcpy(row, &lane, kRowBytes);
}

}  // namespace braid::emulated
