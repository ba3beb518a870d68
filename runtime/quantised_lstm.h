// The recurrent part of a layer with 8-bit weights (com.microsoft's DynamicQuantizeLSTM), for the extern
// kernel `quantised_lstm` and the interpreter. At each step the states of all sequences are quantised
// together, as DynamicQuantizeLinear does, and multiplied by the weights as integers. A loop of the IR cannot
// do that: it would need the extremes of a step before its product. Sizes are in elements; tensors are
// row-major.
#pragma once

#include <cmath>
#include <cstdint>

namespace braid::rt {

struct QuantisedLstm {
  int64_t steps, batch, hidden;
  bool reverse;
  bool each_column;  // scales and zero points: one per column of the weights, or one
  const float*
      gates;  // [steps, batch, 4 hidden]: products of the inputs, and biases; input, output, forget, cell
  const float* scale;    // [4 hidden] or [1]
  const int32_t* zero;   // the same
  const float* first_h;  // [batch, hidden]
  const float* first_c;
  const int32_t* lengths;  // [batch]
  float* y;                // [steps, batch, hidden]; zeros beyond the lengths
  float* h;                // [batch, hidden]: the last states
  float* c;
  int32_t* codes;  // [batch, hidden]: the states as integers less their zero point
  int32_t* sums;   // [batch, 4 hidden]
};

inline float lstm_sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Quantises the states and returns their scale.
inline float quantise_states(const QuantisedLstm& l) {
  const int64_t count = l.batch * l.hidden;
  float least = 0, most = 0;
  for (int64_t k = 0; k < count; ++k) {
    least = l.h[k] < least ? l.h[k] : least;
    most = l.h[k] > most ? l.h[k] : most;
  }
  const float scale = (least == most ? 1.0f : most - least) / 255.0f;
  const auto clipped = [](float v) { return v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v; };
  const float zero = clipped(std::nearbyint(0.0f - least / scale));
  for (int64_t k = 0; k < count; ++k)
    l.codes[k] = static_cast<int32_t>(clipped(std::nearbyint(l.h[k] / scale) + zero) - zero);
  return scale;
}

template <class Weight>
void quantised_lstm_run(const QuantisedLstm& l, const Weight* weights) {
  const int64_t hidden = l.hidden, columns = 4 * hidden;
  for (int64_t k = 0; k < l.batch * hidden; ++k) {
    l.h[k] = l.first_h[k];
    l.c[k] = l.first_c[k];
  }
  for (int64_t k = 0; k < l.steps * l.batch * hidden; ++k) l.y[k] = 0;
  for (int64_t k = 0; k < l.batch * hidden; ++k) l.codes[k] = 0;
  for (int64_t k = 0; k < l.batch * columns; ++k) l.sums[k] = 0;
  for (int64_t step = 0; step < l.steps; ++step) {
    const float state_scale = quantise_states(l);
    for (int64_t b = 0; b < l.batch; ++b) {
      const int64_t length = l.lengths[b] < l.steps ? l.lengths[b] : l.steps;
      if (step >= length) continue;
      const int64_t at = l.reverse ? length - 1 - step : step;
      int32_t* const sums = l.sums + b * columns;
      for (int64_t j = 0; j < columns; ++j) sums[j] = 0;
      int32_t total = 0;
      for (int64_t k = 0; k < hidden; ++k) {
        const int32_t code = l.codes[b * hidden + k];
        const Weight* const row = weights + k * columns;
        total += code;
#pragma omp simd
        for (int64_t j = 0; j < columns; ++j) sums[j] += code * static_cast<int32_t>(row[j]);
      }
      const float* const gates = l.gates + (at * l.batch + b) * columns;
      const auto gate = [&](int64_t j) {
        const int64_t p = l.each_column ? j : 0;
        return gates[j] + static_cast<float>(sums[j] - total * l.zero[p]) * (state_scale * l.scale[p]);
      };
      for (int64_t k = 0; k < hidden; ++k) {
        const float input = lstm_sigmoid(gate(k)), output = lstm_sigmoid(gate(hidden + k)),
                    forget = lstm_sigmoid(gate(2 * hidden + k)), cell = std::tanh(gate(3 * hidden + k));
        float& c = l.c[b * hidden + k];
        c = forget * c + input * cell;
        l.h[b * hidden + k] = l.y[(at * l.batch + b) * hidden + k] = output * std::tanh(c);
      }
    }
  }
}

}  // namespace braid::rt
