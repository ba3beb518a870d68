// One instruction of tensor cores at a time, on random operands, against slow oracles: fragments by the
// tables of the PTX ISA, one formula for each index, and products of whole matrices.
#include "tests/emulated/tensor_cores.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "runtime/emulated/half_types.h"
#include "tests/emulated/support.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using Random = std::mt19937_64;
struct At {
  int row, column;
};

// "Matrix Fragments for mma.m16n8k16 with floating point type", "... m16n8k8" (.tf32) and "... m16n8k32" of
// the PTX ISA: where element i of a lane's fragment lies. `bits`: of an element.
At a_at(int bits, int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  if (bits == 16)
    return {i < 2 || (4 <= i && i < 6) ? group : group + 8,
            i < 4 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8};
  if (bits == 32) return {i == 0 || i == 2 ? group : group + 8, i < 2 ? thread : thread + 4};
  return {i < 4 || (8 <= i && i < 12) ? group : group + 8,
          i < 8 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16};
}
At b_at(int bits, int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  if (bits == 16) return {i < 2 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8, group};
  if (bits == 32) return {i == 0 ? thread : thread + 4, group};
  return {i < 4 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16, group};
}
At sum_at(int lane, int i) { return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)}; }

struct Form {
  const char* name;
  MmaCase which;
  int bits;
  double (*a_value)(uint32_t), (*b_value)(uint32_t);
  enum { kFloat, kHalf, kInt } sums = kFloat;
};
double half_of(uint32_t bits) { return static_cast<double>(__half::widen(static_cast<uint16_t>(bits))); }
double bfloat16_of(uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits << 16)); }
double tf32_of(uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits >> 13 << 13)); }
double int8_of(uint32_t bits) { return bits < 128 ? bits : static_cast<double>(bits) - 256; }
double uint8_of(uint32_t bits) { return bits; }
const Form kForms[] = {
    {"f16", MmaCase::kHalf, 16, half_of, half_of},
    {"f16 in f16", MmaCase::kHalfSums, 16, half_of, half_of, Form::kHalf},
    {"bf16", MmaCase::kBfloat16, 16, bfloat16_of, bfloat16_of},
    {"tf32", MmaCase::kTf32, 32, tf32_of, tf32_of},
    {"s8", MmaCase::kInt8, 8, int8_of, int8_of, Form::kInt},
    {"s8 u8", MmaCase::kInt8Uint8, 8, int8_of, uint8_of, Form::kInt},
    {"u8 s8", MmaCase::kUint8Int8, 8, uint8_of, int8_of, Form::kInt},
    {"u8", MmaCase::kUint8, 8, uint8_of, uint8_of, Form::kInt},
};

// Random elements of any sign and, for floats, of several magnitudes; all bits of a tf32 operand.
uint32_t random_element(const Form& form, Random& random) {
  if (form.sums == Form::kInt) return static_cast<uint32_t>(random() & 0xff);
  const float value = std::uniform_real_distribution<float>(-1, 1)(random) *
                      std::ldexp(1.0f, std::uniform_int_distribution(-4, 4)(random));
  if (form.bits == 32) return std::bit_cast<uint32_t>(value);
  return form.which == MmaCase::kBfloat16 ? __nv_bfloat16::round(value) : __half::round(value);
}

// The matrices of one product, as bits of elements, and the registers of all lanes.
struct MmaProblem {
  std::vector<std::vector<uint32_t>> a, b;
  std::vector<std::vector<double>> before;
  std::vector<uint32_t> a_registers, b_registers, sums;
};

MmaProblem random_problem(const Form& form, Random& random) {
  const int depth = 256 / form.bits, in_register = 32 / form.bits;
  MmaProblem p;
  p.a.assign(16, std::vector<uint32_t>(depth)), p.b.assign(depth, std::vector<uint32_t>(8));
  p.before.assign(16, std::vector<double>(8));
  for (auto& row : p.a)
    for (auto& element : row) element = random_element(form, random);
  for (auto& row : p.b)
    for (auto& element : row) element = random_element(form, random);
  p.a_registers.assign(128, 0), p.b_registers.assign(64, 0);
  p.sums.assign(form.sums == Form::kHalf ? 64 : 128, 0);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4 * in_register; ++i) {
      const At at = a_at(form.bits, lane, i);
      p.a_registers[4 * lane + i / in_register] |= p.a[at.row][at.column] << i % in_register * form.bits;
    }
    for (int i = 0; i < 2 * in_register; ++i) {
      const At at = b_at(form.bits, lane, i);
      p.b_registers[2 * lane + i / in_register] |= p.b[at.row][at.column] << i % in_register * form.bits;
    }
    for (int i = 0; i < 4; ++i) {
      double& sum = p.before[sum_at(lane, i).row][sum_at(lane, i).column];
      const float drawn = std::uniform_real_distribution<float>(-3, 3)(random);
      if (form.sums == Form::kInt) {
        p.sums[4 * lane + i] = static_cast<uint32_t>(random());
        sum = static_cast<int32_t>(p.sums[4 * lane + i]);
      } else if (form.sums == Form::kHalf) {
        p.sums[2 * lane + i / 2] |= static_cast<uint32_t>(__half::round(drawn)) << i % 2 * 16;
        sum = half_of(__half::round(drawn));
      } else {
        p.sums[4 * lane + i] = std::bit_cast<uint32_t>(drawn);
        sum = static_cast<double>(drawn);
      }
    }
  }
  return p;
}

// Holds the sums in the registers against the matrices.
void expect_product(const Form& form, const MmaProblem& p, const std::vector<uint32_t>& sums) {
  const int depth = 256 / form.bits;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const At at = sum_at(lane, i);
      double want = p.before[at.row][at.column], magnitude = std::fabs(want);
      for (int k = 0; k < depth; ++k) {
        const double product = form.a_value(p.a[at.row][k]) * form.b_value(p.b[k][at.column]);
        want += product, magnitude += std::fabs(product);
      }
      SCOPED_TRACE("lane " + std::to_string(lane) + " sum " + std::to_string(i));
      if (form.sums == Form::kInt) {
        ASSERT_EQ(sums[4 * lane + i], static_cast<uint32_t>(static_cast<int64_t>(want))) << "wraps";
      } else if (form.sums == Form::kHalf) {
        const double got = half_of(sums[2 * lane + i / 2] >> i % 2 * 16 & 0xffff);
        ASSERT_NEAR(got, want, magnitude * 0x1p-11);
      } else {
        const double got = static_cast<double>(std::bit_cast<float>(sums[4 * lane + i]));
        ASSERT_NEAR(got, want, depth * 0x1p-23 * magnitude);
        ASSERT_LE(std::fabs(got), std::fabs(want) * (1 + 0x1p-50)) << "rounds towards zero";
      }
    }
  }
}

class TensorCoresTest : public EmulatedTest {};

TEST_F(TensorCoresTest, ProductsOfRandomMatricesByTheTablesOfFragments) {
  const int cases = random_cases(12);
  for (const Form& form : kForms) {
    for (int k = 0; k < cases; ++k) {
      const uint64_t seed = first_seed() + static_cast<uint64_t>(k);
      SCOPED_TRACE(std::string(form.name) + ", seed " + std::to_string(seed));
      Random random(seed);
      const MmaProblem p = random_problem(form, random);
      std::vector<uint32_t> sums = p.sums;
      ASSERT_EQ(run_mma(form.which, p.a_registers.data(), p.b_registers.data(), sums.data()), nullptr);
      expect_product(form, p, sums);
      if (HasFatalFailure()) return;
    }
  }
}

// A single element of a and one of b: the product is at the place that their rows and columns say.
TEST_F(TensorCoresTest, EachElementHasItsPlace) {
  for (const Form& form : kForms) {
    const int depth = 256 / form.bits, in_register = 32 / form.bits;
    const uint32_t one = form.sums == Form::kInt            ? 1
                         : form.bits == 32                  ? 0x3f800000u
                         : form.which == MmaCase::kBfloat16 ? 0x3f80u
                                                            : 0x3c00u;
    const uint32_t one_as_sum = form.sums == Form::kInt    ? 1
                                : form.sums == Form::kHalf ? 0x3c00u
                                                           : 0x3f800000u;
    for (int k = 0; k < depth; k += 3) {
      const int row = 7 * k % 16, column = 5 * k % 8;
      std::vector<uint32_t> a(128), b(64), sums(form.sums == Form::kHalf ? 64 : 128), want(sums.size());
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4 * in_register; ++i)
          if (a_at(form.bits, lane, i).row == row && a_at(form.bits, lane, i).column == k)
            a[4 * lane + i / in_register] = one << i % in_register * form.bits;
        for (int i = 0; i < 2 * in_register; ++i)
          if (b_at(form.bits, lane, i).row == k && b_at(form.bits, lane, i).column == column)
            b[2 * lane + i / in_register] = one << i % in_register * form.bits;
        for (int i = 0; i < 4; ++i) {
          if (sum_at(lane, i).row != row || sum_at(lane, i).column != column) continue;
          if (form.sums == Form::kHalf)
            want[2 * lane + i / 2] = one_as_sum << i % 2 * 16;
          else
            want[4 * lane + i] = one_as_sum;
        }
      }
      ASSERT_EQ(run_mma(form.which, a.data(), b.data(), sums.data()), nullptr);
      ASSERT_EQ(sums, want) << form.name << ", k " << k;
    }
  }
}

TEST_F(TensorCoresTest, SpecialNumbers) {
  const auto sum_of = [](MmaCase which, uint32_t a, uint32_t b, uint32_t before) {
    std::vector<uint32_t> all_a(128), all_b(64), sums(128);
    all_a[0] = a, all_b[0] = b, sums[0] = before;
    EXPECT_EQ(run_mma(which, all_a.data(), all_b.data(), sums.data()), nullptr);
    return sums[0];
  };
  EXPECT_EQ(sum_of(MmaCase::kHalf, 0x7c00, 0, 0), 0x7fffffffu) << "inf * 0";
  EXPECT_EQ(sum_of(MmaCase::kHalf, 0x7c00, 0x3c00, 0), 0x7f800000u) << "inf * 1";
  EXPECT_EQ(sum_of(MmaCase::kHalf, 1, 0x3c00, 0), std::bit_cast<uint32_t>(0x1p-24f)) << "a subnormal number";
  EXPECT_EQ(sum_of(MmaCase::kHalfSums, 0x7c00, 0, 0) & 0xffff, 0x7fffu);
  EXPECT_EQ(sum_of(MmaCase::kHalfSums, 0x7bff, 0x7bff, 0) & 0xffff, 0x7c00u) << "65504 * 65504";
  EXPECT_EQ(sum_of(MmaCase::kHalfSums, 0x00802800, 0x00802400, 0x3c00) & 0xffff, 0x3c01u)
      << "1 + 2^-11 + 2^-34 is rounded once";
  EXPECT_EQ(sum_of(MmaCase::kTf32, 0x3f801fff, 0x3f800000, 0), 0x3f800000u) << "the low 13 bits are ignored";
  EXPECT_EQ(sum_of(MmaCase::kTf32, 0x3f802000, 0x3f800000, 0), 0x3f802000u);
  EXPECT_EQ(sum_of(MmaCase::kInt8, 0x7f, 0x7f, 0x7fffffff), 0x7fffffffu + 127 * 127) << "wraps";
}

TEST_F(TensorCoresTest, FloatsRoundToTf32) {
  const int n = 4096;
  std::vector<float> x(n);
  std::vector<uint32_t> got(n);
  Random random(first_seed());
  for (float& value : x)
    value = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(random),
                       static_cast<int>(random() % 200) - 100);
  for (uint32_t k = 0; k < 64; ++k) x[k] = std::bit_cast<float>(0x3f800000u + (k << 12));  // halfway cases
  x[64] = HUGE_VALF;
  ASSERT_EQ(run_to_tf32(x.data(), got.data(), n), nullptr);
  for (int i = 0; i < n; ++i) {
    const double exact = std::fabs(static_cast<double>(x[i]));
    const double below = tf32_of(std::bit_cast<uint32_t>(std::fabs(x[i])));
    const double above = tf32_of(std::bit_cast<uint32_t>(std::fabs(x[i])) + 0x2000);
    const double want = std::isinf(x[i]) || exact - below < above - exact ? below : above;
    ASSERT_EQ(static_cast<double>(std::bit_cast<float>(got[i])),
              std::copysign(want, static_cast<double>(x[i])))
        << std::hexfloat << x[i];
  }
}

// ---- matrices in shared memory

struct DrawnMatrices {
  std::vector<uint16_t> rows;       // 32 of 8, by place
  std::vector<uint32_t> registers;  // of lanes
  std::vector<int> place;
};
DrawnMatrices drawn_matrices(Random& random) {
  DrawnMatrices d{std::vector<uint16_t>(256), std::vector<uint32_t>(128), std::vector<int>(32)};
  for (auto& element : d.rows) element = static_cast<uint16_t>(random());
  for (auto& element : d.registers) element = static_cast<uint32_t>(random());
  std::iota(d.place.begin(), d.place.end(), 0);
  std::shuffle(d.place.begin(), d.place.end(), random);
  return d;
}

// Each register's low and high element by the pictures of "ldmatrix" in the PTX ISA: thread 4 * row + pair
// holds elements 2 * pair and 2 * pair + 1 of the row, and with .trans those of the column.
void for_each_pair(int matrices, bool transposed, const auto& f) {
  for (int matrix = 0; matrix < matrices; ++matrix)
    for (int line = 0; line < 8; ++line)
      for (int pair = 0; pair < 4; ++pair)
        for (int high = 0; high < 2; ++high) {
          const int along = 2 * pair + high;
          f(4 * line + pair, matrix, high, 8 * matrix + (transposed ? along : line),
            transposed ? line : along);
        }
}

TEST_F(TensorCoresTest, MatricesAreLoadedAndStoredByTheirRows) {
  const int cases = random_cases(6);
  for (int k = 0; k < cases; ++k) {
    for (const int matrices : {1, 2, 4}) {
      for (const bool transposed : {false, true}) {
        const uint64_t seed = first_seed() + static_cast<uint64_t>(k);
        SCOPED_TRACE("seed " + std::to_string(seed) + ", x" + std::to_string(matrices) +
                     (transposed ? ".trans" : ""));
        Random random(seed);
        const DrawnMatrices d = drawn_matrices(random);
        std::vector<uint32_t> loaded = d.registers, want_loaded = d.registers;
        std::vector<uint16_t> stored = d.rows, want_stored = d.rows;
        const MatrixCase c{matrices, transposed, d.place.data()};
        ASSERT_EQ(run_ldmatrix(c, d.rows.data(), loaded.data()), nullptr);
        ASSERT_EQ(run_stmatrix(c, d.registers.data(), stored.data()), nullptr);
        for_each_pair(matrices, transposed, [&](int lane, int matrix, int high, int row, int column) {
          uint32_t& word = want_loaded[4 * lane + matrix];
          const uint32_t element = d.rows[8 * d.place[row] + column];
          word = high != 0 ? (word & 0xffffu) | element << 16 : (word & 0xffff0000u) | element;
          want_stored[8 * d.place[row] + column] =
              static_cast<uint16_t>(d.registers[4 * lane + matrix] >> 16 * high);
        });
        EXPECT_EQ(loaded, want_loaded);
        EXPECT_EQ(stored, want_stored);
      }
    }
  }
}

// The target holds neither what was there nor what comes, so that a result shows a missing wait where
// accesses are not checked.
TEST_F(TensorCoresTest, ATargetInFlightHoldsPoison) {
  emulated::options().check_accesses = false;
  Random random(first_seed());
  std::vector<uint32_t> source(128), seen(256);
  for (uint32_t& word : source) word = static_cast<uint32_t>(random());
  ASSERT_EQ(run_copy_in_flight(source.data(), seen.data()), nullptr);
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(seen[i], 0xcbcbcbcbu) << i;
    EXPECT_EQ(seen[128 + i], source[i]) << i;
  }
}

}  // namespace
}  // namespace braid::test
