// Products of random matrices of odd sizes through a kernel that uses tensor cores as programs do, against
// sums in double precision; then one fault at a time in it, each of which is found by name or by its result.
#include "tests/emulated/tile_product.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "runtime/emulated/half_types.h"
#include "runtime/emulated/kernel_counts.h"
#include "tests/emulated/support.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Random = std::mt19937_64;

struct Type {
  const char* name;
  ProductType type;
  int bytes, sum_bytes;
  uint32_t (*round)(float);
  double (*value)(uint32_t);  // of an operand's bits
  double (*sum)(uint32_t);    // of a result's
  double unit;                // half a unit in the last place of a result near 1
};
double half_in(uint32_t bits) { return static_cast<double>(__half::widen(static_cast<uint16_t>(bits))); }
double bfloat16_in(uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits << 16)); }
double float_in(uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); }
const Type kTypes[] = {
    {"f16", ProductType::kHalf, 2, 2, [](float x) -> uint32_t { return __half::round(x); }, half_in, half_in,
     0x1p-11},
    {"bf16", ProductType::kBfloat16, 2, 2, [](float x) -> uint32_t { return __nv_bfloat16::round(x); },
     bfloat16_in, bfloat16_in, 0x1p-8},
    {"tf32", ProductType::kTf32, 4, 4, [](float x) { return std::bit_cast<uint32_t>(x); },
     [](uint32_t bits) { return float_in(bits & 0xffffe000u); }, float_in, 0},
    {"s8", ProductType::kInt8, 1, 4,
     [](float x) { return static_cast<uint32_t>(std::lround(100 * x)) & 0xff; },
     [](uint32_t bits) { return bits < 128 ? double(bits) : double(bits) - 256; },
     [](uint32_t bits) { return double(static_cast<int32_t>(bits)); }, 0},
};

// Rows of elements in host memory; what lies between them is large.
struct Matrix {
  int rows, columns, stride, bytes;
  std::vector<unsigned char> memory;

  Matrix(const Type& type, int rows, int columns, int stride, bool whole_rows, Random& random)
      : rows(rows), columns(columns), stride(stride), bytes(type.bytes) {
    const int last = whole_rows ? stride : columns;
    memory.resize(static_cast<size_t>(((rows - 1) * stride + last) * bytes));
    for (size_t i = 0; i < memory.size() / static_cast<size_t>(bytes); ++i) {
      const bool inside = static_cast<int>(i) % stride < columns;
      const float drawn = std::uniform_real_distribution<float>(-1, 1)(random);
      const uint32_t bits = type.round(inside ? drawn : type.bytes == 1 ? 1.0f : 300.0f);
      std::memcpy(memory.data() + i * static_cast<size_t>(bytes), &bits, static_cast<size_t>(bytes));
    }
  }
  uint32_t at(int row, int column) const {
    uint32_t bits = 0;
    std::memcpy(&bits, memory.data() + static_cast<size_t>((row * stride + column) * bytes),
                static_cast<size_t>(bytes));
    return bits;
  }
};

struct Shape {
  int m, n, k, a_stride, b_stride;
  bool b_by_rows = false;
  int copy_bytes = 16;
  bool whole_rows = false;  // the last row ends where the next one would begin
};

// Runs the product; "" if it is right, else an element and what it should be, or the error of a call.
std::string wrong_element(const Type& type, const Shape& s, Mutation mutation, Random& random) {
  const Matrix a(type, s.m, s.k, s.a_stride, s.whole_rows, random);
  const Matrix b(type, s.b_by_rows ? s.k : s.n, s.b_by_rows ? s.n : s.k, s.b_stride, s.whole_rows, random);
  std::vector<unsigned char> c(static_cast<size_t>(s.m * s.n * type.sum_bytes));
  const TileProduct p{.type = type.type,
                      .b_by_rows = s.b_by_rows,
                      .copy_bytes = s.copy_bytes,
                      .m = s.m,
                      .n = s.n,
                      .k = s.k,
                      .a_stride = s.a_stride,
                      .b_stride = s.b_stride,
                      .a = a.memory.data(),
                      .b = b.memory.data(),
                      .a_bytes = a.memory.size(),
                      .b_bytes = b.memory.size(),
                      .c = c.data(),
                      .c_bytes = c.size()};
  const char* error =
      mutation == Mutation::kNone ? run_tile_product(p) : run_tile_product_mutant(p, mutation);
  if (error != nullptr) return error;
  for (int row = 0; row < s.m; ++row) {
    for (int column = 0; column < s.n; ++column) {
      double want = 0, magnitude = 0;
      for (int k = 0; k < s.k; ++k) {
        const double product =
            type.value(a.at(row, k)) * type.value(s.b_by_rows ? b.at(k, column) : b.at(column, k));
        want += product, magnitude += std::fabs(product);
      }
      uint32_t bits = 0;
      const size_t bytes = static_cast<size_t>(type.sum_bytes);
      std::memcpy(&bits, c.data() + static_cast<size_t>(row * s.n + column) * bytes, bytes);
      const double got = type.sum(bits);
      // The bound of runtime/device/mma.h, and the rounding of the result.
      const double most = type.type == ProductType::kInt8
                              ? 0
                              : s.k * 0x1p-23 * magnitude + type.unit * 1.01 * std::fabs(want);
      if (!(std::fabs(got - want) <= most))
        return "element (" + std::to_string(row) + "," + std::to_string(column) + ") is " +
               std::to_string(got) + ", not " + std::to_string(want);
    }
  }
  return "";
}

class TileProductTest : public EmulatedTest {};

TEST_F(TileProductTest, ProductsOfOddSizesAreRight) {
  const int cases = random_cases(10);
  for (const Type& type : kTypes) {
    for (int i = 0; i < cases; ++i) {
      const uint64_t seed = first_seed() + static_cast<uint64_t>(i);
      Random random(seed);
      const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
      Shape s{draw(1, 70), draw(1, 70), draw(1, 400 / type.bytes), 0, 0};
      s.b_by_rows = type.bytes == 2 && draw(0, 1) == 1;
      s.copy_bytes = draw(0, 2) == 0 ? 4 : 16;
      const int unit = std::max(1, s.copy_bytes / type.bytes);
      const auto stride = [&](int columns) { return (columns + unit - 1) / unit * unit + draw(0, 2) * unit; };
      s.a_stride = stride(s.k), s.b_stride = stride(s.b_by_rows ? s.n : s.k);
      SCOPED_TRACE(std::string(type.name) + ", seed " + std::to_string(seed) + ": " + std::to_string(s.m) +
                   " x " + std::to_string(s.n) + " x " + std::to_string(s.k) +
                   (s.b_by_rows ? ", b by rows" : ""));
      EXPECT_EQ(wrong_element(type, s, Mutation::kNone, random), "");
      EXPECT_THAT(found(), IsEmpty());
    }
  }
}

struct Expected {
  Mutation mutation;
  const char* kind;  // of all findings; null: there is none, and the result is wrong unless `text` is "right"
  const char* text;
};
const Expected kExpected[] = {
    {Mutation::kNone, nullptr, "right"},
    {Mutation::kNoWait, "uninitialized read", "before cp.async was waited for: thread"},
    {Mutation::kWaitForTooFew, "uninitialized read", "has issued the copy and not waited for its group"},
    {Mutation::kNoCommit, "uninitialized read", "has issued the copy and not committed it to a group"},
    {Mutation::kNoBarrierAfterWait, "race", "both touch byte"},
    {Mutation::kNoBarrierAfterUse, "race", "both touch byte"},
    {Mutation::kNoSwizzle, nullptr, "right"},
    {Mutation::kNoSwizzleInReader, nullptr, "wrong"},
    {Mutation::kRegistersExchanged, nullptr, "wrong"},
    {Mutation::kLaneExchanged, nullptr, "wrong"},
    {Mutation::kNoRowGuard, "illegal access", "bytes out of bounds"},
    {Mutation::kNoColumnGuard, nullptr, "wrong"},
    {Mutation::kMisalignedRow, "illegal access", "it must be aligned to 16 bytes"},
    {Mutation::kSourceOverwritten, "asynchronous copy", "the source of a cp.async in flight"},
    {Mutation::kTargetOverwritten, "asynchronous copy", "the target of a cp.async in flight"},
    {Mutation::kLaneMissing, "divergent barrier", "mma.m16n8k"},
    {Mutation::kOneTileTooMany, "asynchronous copy", "ends without having waited for its cp.async"},
};
static_assert(std::size(kExpected) == kMutations);

// The sum over all kinds of accesses of shared memory: wavefronts, and how many there are without conflicts.
std::pair<uint64_t, uint64_t> wavefronts(const Type& type, Mutation mutation) {
  emulated::take_kernel_counts();
  Random random(first_seed());
  const Shape s{32, 32, 256 / type.bytes, 256 / type.bytes, 256 / type.bytes};
  EXPECT_EQ(wrong_element(type, s, mutation, random), "");
  std::pair<uint64_t, uint64_t> sum;
  for (const emulated::KernelCounts& counts : emulated::take_kernel_counts())
    for (const emulated::SiteCounts& site : counts.sites)
      if (site.shared) sum.first += site.units, sum.second += site.least;
  return sum;
}

TEST_F(TileProductTest, SwizzledRowsHaveNoBankConflicts) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  emulated::options().count_accesses = true;
  for (const Type& type : kTypes) {
    // 4 tiles of a and b: 16 wavefronts of copies each, and 4 wavefronts for each of 2 steps of 4 warps.
    const auto [swizzled, least] = wavefronts(type, Mutation::kNone);
    const auto [plain, least_of_plain] = wavefronts(type, Mutation::kNoSwizzle);
    constexpr uint64_t kTiles = 4, kCopies = kTiles * 2 * 16, kLoads = kTiles * 2 * 2 * 4 * 4;
    if (type.bytes != 2) {  // those results go through shared memory as well
      EXPECT_EQ(swizzled, kCopies + kLoads) << type.name;
      EXPECT_EQ(swizzled, least) << type.name;
    }
    EXPECT_EQ(plain - swizzled, 3 * kLoads)
        << type.name << ": 8 rows of 64 bytes meet in 2 of 8 groups of banks";
    EXPECT_EQ(least_of_plain, least) << type.name;
  }
}

TEST_F(TileProductTest, EachFaultIsFoundByNameOrByTheResult) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const Type& type : kTypes) {
    for (const Expected& e : kExpected) {
      SCOPED_TRACE(std::string(type.name) + ", mutation " + std::to_string(static_cast<int>(e.mutation)));
      // One block, four tiles and a part of the last: each mutation meets what it breaks.
      const int depth = 64 / type.bytes, k = 3 * depth + depth / 2 + 1;
      const Shape s{29, 27, k, 4 * depth, 4 * depth, false, 16, true};
      emulated::reset_devices();
      Random random(first_seed());
      const std::string wrong = wrong_element(type, s, e.mutation, random);
      const std::vector<std::string> texts = found();
      if (e.kind != nullptr) {
        EXPECT_THAT(texts, Not(IsEmpty()));
        EXPECT_THAT(texts,
                    Each(AllOf(StartsWith(e.kind), HasSubstr(e.text), HasSubstr("product_kernel [node]"))));
        continue;
      }
      EXPECT_THAT(texts, IsEmpty());
      if (e.text == std::string("right")) {
        EXPECT_EQ(wrong, "");
      } else {
        EXPECT_THAT(wrong, StartsWith("element ("));
      }
    }
  }
}

}  // namespace
}  // namespace braid::test
