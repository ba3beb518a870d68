// Tiles of products of 8-bit integers with AMX: one instruction multiplies 16 rows of 64 bytes by 16 columns.
// The rest of the depth, up to 60 bytes, is added with VNNI.
#include "runtime/integer_gemm.h"

#ifdef __x86_64__
#include <immintrin.h>

#include <algorithm>
#include <cstring>
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,amx-tile,amx-int8,fma")

namespace braid::rt::amx {
namespace {
#include "runtime/amx_tiles.inc"

constexpr int kMostRows = 32;
constexpr int64_t kStep = 16;   // groups of 4 bytes of the depth that one instruction takes
constexpr int kFewestRows = 3;  // below, the units of vectors read b as fast
constexpr int64_t kLine = 64;
constexpr int64_t kMostLines = 16;                      // that are fetched while one instruction runs
constexpr int64_t kPanelRow = kByteGroup * kBytePanel;  // bytes of a group of b

// 32 columns, or 16, from `column` on.
template <bool kTwoRows, bool kTwoColumns>
void multiply(const ByteTile& t, int64_t blocks, int64_t column) {
  const int8_t* ahead = t.ahead;
  const int64_t lines = t.ahead_bytes / (blocks * kLine);
  const uint8_t* a = t.a;
  const int8_t* b = t.b + column * kByteGroup;
  _tile_zero(BRAID_SUMS_00);
  if constexpr (kTwoColumns) _tile_zero(BRAID_SUMS_01);
  if constexpr (kTwoRows) _tile_zero(BRAID_SUMS_10);
  if constexpr (kTwoRows && kTwoColumns) _tile_zero(BRAID_SUMS_11);
  for (int64_t k = 0; k < blocks; ++k, a += kStep * kByteGroup, b += kStep * kPanelRow) {
    for (int64_t l = 0; l < lines; ++l, ahead += kLine) _mm_prefetch(ahead, _MM_HINT_T1);
    _tile_loadd(BRAID_ROWS_0, a, t.a_row);
    _tile_loadd(BRAID_COLUMNS_0, b, kPanelRow);
    _tile_dpbusd(BRAID_SUMS_00, BRAID_ROWS_0, BRAID_COLUMNS_0);
    if constexpr (kTwoColumns) {
      _tile_loadd(BRAID_COLUMNS_1, b + 16 * kByteGroup, kPanelRow);
      _tile_dpbusd(BRAID_SUMS_01, BRAID_ROWS_0, BRAID_COLUMNS_1);
    }
    if constexpr (kTwoRows) {
      _tile_loadd(BRAID_ROWS_1, a + 16 * t.a_row, t.a_row);
      _tile_dpbusd(BRAID_SUMS_10, BRAID_ROWS_1, BRAID_COLUMNS_0);
    }
    if constexpr (kTwoRows && kTwoColumns) _tile_dpbusd(BRAID_SUMS_11, BRAID_ROWS_1, BRAID_COLUMNS_1);
  }
  constexpr int64_t kSumsRow = kBytePanel * static_cast<int64_t>(sizeof(int32_t));
  int32_t* const sums = t.sums + column;
  _tile_stored(BRAID_SUMS_00, sums, kSumsRow);
  if constexpr (kTwoColumns) _tile_stored(BRAID_SUMS_01, sums + 16, kSumsRow);
  if constexpr (kTwoRows) _tile_stored(BRAID_SUMS_10, sums + 16 * kBytePanel, kSumsRow);
  if constexpr (kTwoRows && kTwoColumns) _tile_stored(BRAID_SUMS_11, sums + 16 * kBytePanel + 16, kSumsRow);
}

// Adds what the sums begin with, and the rest of the depth.
template <int kVectors>
void complete(const ByteTile& t, int rows, int64_t done) {
  __m512i columns[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(t.columns + v * 16);
  for (int r = 0; r < rows; ++r) {
    int32_t* const sums = t.sums + r * kBytePanel;
    const __m512i row = _mm512_set1_epi32(t.rows[r]);
    __m512i sum[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sum[v] = _mm512_add_epi32(_mm512_loadu_si512(sums + v * 16), _mm512_add_epi32(columns[v], row));
    for (int64_t g = done; g < t.groups; ++g) {
      int32_t four;
      std::memcpy(&four, t.a + r * t.a_row + g * kByteGroup, sizeof four);
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sum[v] = _mm512_dpbusd_epi32(sum[v], x, _mm512_loadu_si512(t.b + g * kPanelRow + v * 64));
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(sums + v * 16, sum[v]);
  }
}

void tile(const ByteTile& given, Tiles& tiles, int rows, int vectors) {
  ByteTile t = given;
  const int64_t blocks = t.groups / kStep;
  tiles.shape(rows);
  // Each pass fetches as many lines with every block of k.
  const int64_t passes = (vectors + 1) / 2, lines = (t.ahead_bytes / (passes * blocks) + kLine - 1) / kLine;
  t.ahead_bytes = std::min(lines, kMostLines) * blocks * kLine;
  for (int v = 0; v < vectors; v += 2, t.ahead += t.ahead_bytes) {
    const bool two = v + 1 < vectors;
    if (rows > 16)
      (two ? multiply<true, true> : multiply<true, false>)(t, blocks, v * 16);
    else
      (two ? multiply<false, true> : multiply<false, false>)(t, blocks, v * 16);
  }
  constexpr void (*kComplete[])(const ByteTile&, int, int64_t) = {complete<1>, complete<2>, complete<3>,
                                                                  complete<4>};
  kComplete[vectors - 1](t, rows, blocks * kStep);
}

void tiles(const ByteTile& given, int rows, int vectors) {
  const ByteKernels& narrow = avx512::kByteKernels;
  Tiles units;
  ByteTile t = given;
  for (int from = 0; from < rows;) {
    const int left = rows - from;
    const bool wide = left >= kFewestRows && t.groups >= kStep;
    const int count = std::min(left, wide ? kMostRows : static_cast<int>(narrow.tile_rows));
    t.ahead_bytes = given.ahead_bytes * count / rows;
    if (t.ahead_bytes > 0) t.ahead = given.ahead + given.ahead_bytes * from / rows;
    if (wide)
      tile(t, units, count, vectors);
    else
      narrow.tile(t, count, vectors);
    from += count;
    t.a += count * t.a_row;
    t.rows += count;
    t.sums += count * kBytePanel;
  }
}

}  // namespace

const ByteKernels kByteKernels = {96, 96, tiles, avx512::kByteKernels.depthwise, avx512::kByteKernels.pack};

}  // namespace braid::rt::amx
#endif
