// The recurrent product of a layer with 8-bit weights (com.microsoft's DynamicQuantizeLSTM), for the extern
// kernel `quantised_lstm` on the host (runtime/host/quantised_lstm.h):
//
//   sums[b, g, u] = sum over k of (codes[b, k] - zero) * weights[k, g * hidden + u]
//
// for gates g < 4, units u < hidden and states k < hidden, in int32 that wraps. Weights are packed once per
// call of the layer, because every step reads them again. A panel has 16 units, all gates of a unit, so the
// thread that multiplies it can compute the next states of these units.
#pragma once

#include <cstdint>

namespace braid::rt {

inline constexpr int64_t kLstmUnits = 16;  // of a panel
inline constexpr int64_t lstm_panels(int64_t hidden) { return (hidden + kLstmUnits - 1) / kLstmUnits; }
// Rows of packed weights, and bytes of a row of codes, of which the last ones are 0.
inline constexpr int64_t lstm_depth(int64_t hidden) { return (hidden + 3) / 4 * 4; }

struct LstmProduct {
  int64_t batch = 0, hidden = 0;
  bool from_unsigned = false;      // the type of the weights
  int8_t* packed = nullptr;        // [lstm_depth, 64 * lstm_panels]
  int32_t* column_sums = nullptr;  // [64 * lstm_panels], of the packed weights
  uint8_t* codes = nullptr;        // [batch, lstm_depth]
};

// Packs panels [begin, end) of weights, i8 or u8 [hidden, 4 hidden].
void pack_lstm_weights(const LstmProduct& product, const void* weights, int64_t begin, int64_t end);
// Computes sum over k of (codes[b, k] - zero) for `rows` sequences from `first` on.
void lstm_totals(const LstmProduct& product, int32_t zero, int64_t first, int64_t rows, int32_t* totals);
// Computes the sums of a panel for up to lstm_rows() sequences: [rows, 4, 16].
void multiply_lstm_panel(const LstmProduct& product, int32_t zero, int64_t panel, int64_t first, int64_t rows,
                         const int32_t* totals, int32_t* sums);
int64_t lstm_rows();
inline constexpr int64_t kMostLstmRows = 96;

}  // namespace braid::rt
