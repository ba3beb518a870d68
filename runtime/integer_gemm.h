// Products of 8-bit integers with sums in int32 that wrap, exact on every processor. Private to the runtime
// library.
//
// The kernels multiply unsigned rows by signed columns, because processors have instructions for these. With
// x' the stored form of an element (signed rows plus 128, unsigned columns minus 128):
//
//   sum a*b = sum a'*b' - [a is signed] 128 * sum_k b'[k, n] + [b is unsigned] 128 * sum_k a[m, k]
//
// The sums of columns are made once for a constant b, those of rows while the rows are brought into their
// stored form.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/aligned_bytes.h"
#include "runtime/gemm.h"
#include "runtime/gemm_library.h"
#include "runtime/tile_kernels.h"

namespace braid::rt {

inline constexpr int64_t kBytePanel = 64;  // columns of a panel
inline constexpr int64_t kByteGroup = 4;   // rows of b whose products one instruction adds
inline constexpr int kMostByteRows = 96;   // rows of a tile

inline constexpr int64_t byte_depth(int64_t k) { return (k + kByteGroup - 1) / kByteGroup * kByteGroup; }
inline constexpr int64_t byte_panels(int64_t n) { return (n + kBytePanel - 1) / kBytePanel; }

// b in its stored form, in panels of 64 columns, padded with zeros: element (k, n) at
// (n / 64 * depth + k / 4 * 4) * 64 + n % 64 * 4 + k % 4.
struct BytePanels {
  const int8_t* data = nullptr;
  const int32_t* column_sums = nullptr;  // of the stored form, one per padded column
  int64_t depth = 0;                     // byte_depth(k)
  bool from_unsigned = false;
};

inline size_t panel_bytes(int64_t k, int64_t n) {
  return static_cast<size_t>(byte_depth(k) * byte_panels(n) * kBytePanel);
}
// Packs panels [begin, end) of b and their sums into memory of panel_bytes(k, n) bytes and of byte_panels(n)
// * 64 numbers.
void pack_panels(DType type, int64_t k, int64_t n, const void* b, int64_t b_row, int64_t b_col, int64_t begin,
                 int64_t end, int8_t* data, int32_t* column_sums);

// A constant matrix, packed.
struct ByteMatrix final : PackedMatrix::Impl {
  DType type = DType::i8;
  int64_t k = 0, n = 0;
  AlignedBytes sums;
  BytePanels byte_panels() const {
    return {reinterpret_cast<const int8_t*>(bytes.get()), reinterpret_cast<const int32_t*>(sums.get()),
            byte_depth(k), type == DType::u8};
  }
};
ByteMatrix* pack_bytes(DType type, int64_t k, int64_t n, const void* b, int64_t b_row, int64_t b_col);

// One tile: sums[r][n] = columns[n] + rows[r] + sum_k a[r, k] * b[k, n].
struct ByteTile {
  const uint8_t* a = nullptr;
  int64_t a_row = 0;
  int64_t groups = 0;                // depth / 4
  const int8_t* b = nullptr;         // one panel
  const int32_t* columns = nullptr;  // 64
  const int32_t* rows = nullptr;
  int32_t* sums = nullptr;  // rows of 64
  // Weights that are needed next, to be fetched into the second-level cache meanwhile; may be nothing.
  const int8_t* ahead = nullptr;
  int64_t ahead_bytes = 0;
};
// Positions of a depthwise convolution: sums[r * sums_row + c] = sum over taps k of a[r * taps + k][first +
// c] * weights[k, c], for at most 64 channels.
struct ByteTaps {
  const uint8_t* const* a = nullptr;  // per position and tap; zeros for what is outside
  int64_t positions = 0, first = 0, taps = 0, channels = 0;
  bool signed_a = false;
  // Numbers of 16 bits with 16 zeros above them: instructions that multiply pairs of such numbers take two.
  const int32_t* weights = nullptr;
  int64_t weights_row = 0;
  int32_t* sums = nullptr;
  int64_t sums_row = 0;
};
struct ByteKernels {
  int64_t tile_rows;      // that suit a tile best
  int64_t rows_together;  // that are finished together: a multiple of a tile's
  // Up to tile_rows rows, 1 to 4 vectors of 16 columns.
  void (*tile)(const ByteTile& tile, int rows, int vectors);
  void (*depthwise)(const ByteTaps& taps);
  // Packs whole groups of rows of 64 adjacent columns, `b_row` apart, into a panel, each byte changed by
  // `flip`, and adds their sums to `sums`.
  void (*pack)(const uint8_t* rows, int64_t b_row, int64_t groups, uint8_t flip, int8_t* to, uint32_t* sums);
};
namespace baseline {
extern const ByteKernels kByteKernels;
}
#ifdef __x86_64__
namespace avx2 {
extern const ByteKernels kByteKernels;
}
namespace avx512 {
extern const ByteKernels kByteKernels;  // with VNNI
}
namespace amx {
extern const ByteKernels kByteKernels;  // if has_amx_int8()
}
#endif
// The kernels of this processor. BRAID_BYTE_KERNELS=baseline|avx2|avx512 asks for narrower ones, to test
// them.
const ByteKernels& byte_kernels();

// Gives the rows of a product.
class ByteRows {
 public:
  virtual ~ByteRows() = default;
  // Row `row` in its stored form, followed by zeros up to the depth; null if it must be copied.
  virtual const uint8_t* direct(int64_t /*row*/) const { return nullptr; }
  virtual int64_t direct_stride() const { return 0; }
  virtual void copy(int64_t row, uint8_t* to) const = 0;
};
// The consumer of finished tiles.
class ByteSums {
 public:
  virtual ~ByteSums() = default;
  virtual void put(const GemmTile& tile) const = 0;
};

struct ByteProduct {
  int64_t n = 0, k = 0;
  bool signed_rows = false;
  BytePanels b;
};
// The work memory of one thread.
size_t byte_scratch(int64_t k);
// The part of the product, by the calling thread.
void multiply_bytes(const ByteProduct& product, const ByteRows& rows, const ByteSums& sums,
                    const TilePart& part, std::byte* scratch);

// The kernel for a shape of 8-bit operands; `packed` may be null.
std::unique_ptr<GemmKernel> make_byte_gemm(const GemmShape& shape, const ByteMatrix* packed, int threads);

}  // namespace braid::rt
