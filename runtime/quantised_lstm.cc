#include "runtime/quantised_lstm.h"

#include <algorithm>
#include <cstring>

#include "runtime/integer_gemm.h"

namespace braid::rt {

static_assert(4 * kLstmUnits == kBytePanel && lstm_depth(5) == byte_depth(5) &&
              kMostLstmRows >= kMostByteRows);

int64_t lstm_rows() { return byte_kernels().tile_rows; }

void pack_lstm_weights(const LstmProduct& p, const void* weights, int64_t begin, int64_t end) {
  constexpr int64_t kRows = 64;  // gathered at once; a multiple of a group's
  alignas(64) uint8_t gathered[kRows * kBytePanel];
  const auto* const from = static_cast<const uint8_t*>(weights);
  const uint8_t flip = p.from_unsigned ? 0x80 : 0;  // minus 128
  const int64_t depth = lstm_depth(p.hidden);
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t unit = panel * kLstmUnits, units = std::min(kLstmUnits, p.hidden - unit);
    uint32_t sums[kBytePanel] = {};
    for (int64_t k = 0; k < depth; k += kRows) {
      const int64_t rows = std::min(kRows, depth - k);
      const int64_t given = std::clamp<int64_t>(p.hidden - k, 0, rows);
      if (units < kLstmUnits || given < rows) std::memset(gathered, flip, sizeof gathered);  // packed zeros
      for (int64_t r = 0; r < given; ++r) {
        for (int64_t gate = 0; gate < 4; ++gate) {
          uint8_t* const to = gathered + r * kBytePanel + gate * kLstmUnits;
          const uint8_t* const own = from + ((k + r) * 4 + gate) * p.hidden + unit;
          if (units == kLstmUnits)
            std::memcpy(to, own, kLstmUnits);
          else
            std::copy_n(own, units, to);
        }
      }
      byte_kernels().pack(gathered, kBytePanel, rows / kByteGroup, flip,
                          p.packed + (panel * depth + k) * kBytePanel, sums);
    }
    std::memcpy(p.column_sums + panel * kBytePanel, sums, sizeof sums);
  }
}

void lstm_totals(const LstmProduct& p, int32_t zero, int64_t first, int64_t rows, int32_t* totals) {
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* const codes = p.codes + (first + r) * lstm_depth(p.hidden);
    int32_t total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t k = 0; k < p.hidden; ++k) total += codes[k];
    totals[r] = total - static_cast<int32_t>(p.hidden) * zero;
  }
}

void multiply_lstm_panel(const LstmProduct& p, int32_t zero, int64_t panel, int64_t first, int64_t rows,
                         const int32_t* totals, int32_t* sums) {
  const int64_t depth = lstm_depth(p.hidden);
  alignas(64) int32_t columns[kBytePanel];
  int32_t starts[kMostByteRows];
  for (int64_t j = 0; j < kBytePanel; ++j)
    columns[j] = static_cast<int32_t>(0u - static_cast<uint32_t>(zero) *
                                               static_cast<uint32_t>(p.column_sums[panel * kBytePanel + j]));
  // Packed weights are less by 128.
  for (int64_t r = 0; r < rows; ++r)
    starts[r] = p.from_unsigned ? static_cast<int32_t>(128u * static_cast<uint32_t>(totals[r])) : 0;
  ByteTile tile;
  tile.a = p.codes + first * depth;
  tile.a_row = depth;
  tile.groups = depth / kByteGroup;
  tile.b = p.packed + panel * depth * kBytePanel;
  tile.columns = columns;
  tile.rows = starts;
  tile.sums = sums;
  byte_kernels().tile(tile, static_cast<int>(rows), kBytePanel / 16);
}

}  // namespace braid::rt
