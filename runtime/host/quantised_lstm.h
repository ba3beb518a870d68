// The extern kernel `quantised_lstm` on the host: the recurrent part of a layer with 8-bit weights
// (com.microsoft's DynamicQuantizeLSTM). At each step the states of all sequences are quantised together, as
// DynamicQuantizeLinear does, and multiplied by the weights as integers. A loop of the IR cannot do that: it
// would need the extremes of a step before its product.
//
// Operands: gates (f32) [steps, batch, 4 hidden]: products of the inputs, and biases, in the order input,
// output, forget, cell; weights (i8 or u8) [hidden, 4 hidden], their scales (f32) and zero points (i32), [4
// hidden] or [1]; initial h and c (f32) [batch, hidden]; lengths (i32) [batch]. Results: y (f32) [steps,
// batch, hidden], zeros beyond the lengths; the last h and c (f32) [batch, hidden]; and the work memory of
// LstmProduct. Attribute: reverse.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/extern_kernel.h"
#include "runtime/quantised_lstm.h"
#include "runtime/team.h"
#include "runtime/vec_math.h"

namespace braid::rt {

struct QuantisedLstm {
  int64_t steps, batch, hidden;
  bool reverse, each_column;
  const float *gates, *scale;
  const int32_t* zero;
  const float *first_h, *first_c;
  const int32_t* lengths;
  float *y, *h, *c;
  LstmProduct product;

  struct StateScale {
    float scale, zero;
  };
  StateScale state_scale() const {
    const int64_t count = batch * hidden;
    const float* const states = h;
    float least = 0, most = 0;
#pragma omp simd reduction(min : least) reduction(max : most)
    for (int64_t k = 0; k < count; ++k) {
      least = states[k] < least ? states[k] : least;
      most = states[k] > most ? states[k] : most;
    }
    const float scale = (least == most ? 1.0f : most - least) / 255.0f;
    return {scale, clipped(__builtin_rintf(0.0f - least / scale))};
  }
  // 0 for NaN.
  static float clipped(float v) { return v > 0.0f ? (v < 255.0f ? v : 255.0f) : 0.0f; }

  // Quantises units [begin, end).
  void quantise(const StateScale& state, int64_t begin, int64_t end) const {
    const float state_scale = state.scale, state_zero = state.zero;
    for (int64_t b = 0; b < batch; ++b) {
      const float* const from = h + b * hidden;
      uint8_t* const to = product.codes + b * lstm_depth(hidden);
#pragma omp simd
      for (int64_t k = begin; k < end; ++k)
        to[k] = static_cast<uint8_t>(
            static_cast<int32_t>(clipped(__builtin_rintf(from[k] / state_scale) + state_zero)));
    }
  }

  // Units [unit, unit + count) of a sequence at position `at`. `kColumns`: a scale and a zero point per
  // column.
  template <bool kColumns>
  void cells(const int32_t* sums, int32_t total, int64_t b, int64_t at, int64_t unit, int64_t count,
             const StateScale& state) const {
    const int64_t gate_row = hidden;
    const float* const from = gates + (at * batch + b) * 4 * gate_row + unit;
    const float* const scales = kColumns ? scale + unit : scale;
    const int32_t* const zeros = kColumns ? zero + unit : zero;
    const float of_state = state.scale;
    float* const own_c = c + b * gate_row + unit;
    float* const own_h = h + b * gate_row + unit;
    float* const own_y = y + (at * batch + b) * gate_row + unit;
    const auto gate = [=](int64_t g, int64_t k) {
      const int64_t p = kColumns ? g * gate_row + k : 0;
      return from[g * gate_row + k] +
             static_cast<float>(sums[g * kLstmUnits + k] - total * zeros[p]) * (of_state * scales[p]);
    };
    const auto cell = [=](int64_t k) {
      const float input = vsigmoid(gate(0, k)), output = vsigmoid(gate(1, k)), forget = vsigmoid(gate(2, k));
      const float next = forget * own_c[k] + input * vtanh(gate(3, k));
      own_c[k] = next;
      own_h[k] = own_y[k] = output * vtanh(next);
    };
    if (count == kLstmUnits) {
#pragma omp simd
      for (int64_t k = 0; k < kLstmUnits; ++k) cell(k);
    } else {
#pragma omp simd
      for (int64_t k = 0; k < count; ++k) cell(k);
    }
  }

  // A step of the units of panels [begin, end).
  void step_panels(int64_t step, const StateScale& state, int64_t begin, int64_t end) const {
    constexpr int64_t kSums = 4 * kLstmUnits, kTogether = 8;
    alignas(64) int32_t sums[kTogether * kMostLstmRows * kSums];
    int32_t totals[kMostLstmRows];
    const int64_t most = lstm_rows();
    for (int64_t first = 0; first < batch; first += most) {
      const int64_t rows = std::min(most, batch - first);
      lstm_totals(product, static_cast<int32_t>(state.zero), first, rows, totals);
      // Cells of several panels follow one another, so that the processor computes them at once.
      for (int64_t from = begin; from < end; from += kTogether) {
        const int64_t panels = std::min(kTogether, end - from);
        for (int64_t p = 0; p < panels; ++p)
          multiply_lstm_panel(product, static_cast<int32_t>(state.zero), from + p, first, rows, totals,
                              sums + p * rows * kSums);
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t b = first + r, length = std::min<int64_t>(lengths[b], steps);
          if (step >= length) continue;
          const int64_t at = reverse ? length - 1 - step : step;
          for (int64_t p = 0; p < panels; ++p) {
            const int64_t unit = (from + p) * kLstmUnits, units = std::min(kLstmUnits, hidden - unit);
            const int32_t* const own = sums + (p * rows + r) * kSums;
            if (each_column)
              cells<true>(own, totals[r], b, at, unit, units, state);
            else
              cells<false>(own, totals[r], b, at, unit, units, state);
          }
        }
      }
    }
  }

  // All steps of the units of panels [begin, end); `wait` returns when the others have called it.
  template <class Wait>
  void run_panels(const void* weights, int64_t begin, int64_t end, const Wait& wait) const {
    const int64_t first = begin * kLstmUnits, last = std::min(end * kLstmUnits, hidden);
    pack_lstm_weights(product, weights, begin, end);
    for (int64_t step = 0; step < steps; ++step) {
      const StateScale state = state_scale();
      quantise(state, first, last);
      wait();
      step_panels(step, state, begin, end);
      wait();
    }
  }

  void run(const void* weights) const {
    constexpr int64_t kParallelWork = 1 << 17;  // multiplications of a step below which threads cost more
    std::copy_n(first_h, batch * hidden, h);
    std::copy_n(first_c, batch * hidden, c);
    std::fill_n(y, steps * batch * hidden, 0.0f);
    std::fill_n(product.codes, batch * lstm_depth(hidden), uint8_t{0});
    const int64_t panels = lstm_panels(hidden);
    Team* const team = batch * hidden * hidden * 4 >= kParallelWork ? Team::current() : nullptr;
    if (team == nullptr || panels < 2) return run_panels(weights, 0, panels, [] {});
    const auto member = [&](int64_t me, int64_t members) {
      run_panels(weights, panels * me / members, panels * (me + 1) / members,
                 [&] { team->wait_for_all(members); });
    };
    team->gang(
        static_cast<int>(std::min<int64_t>(team->threads(), panels)),
        [](const void* context, int64_t me, int64_t members, int) {
          (*static_cast<const decltype(member)*>(context))(me, members);
        },
        &member);
  }
};

inline const char* quantised_lstm(const BraidExternCall* call) {
  const auto f32 = [&](int k) { return static_cast<const float*>(call->reads[k].data); };
  const auto i32 = [&](int k) { return static_cast<const int32_t*>(call->reads[k].data); };
  const auto result = [&](int k) { return static_cast<float*>(call->writes[k].data); };
  const int64_t* const sizes = call->writes[0].sizes;
  QuantisedLstm layer;
  layer.steps = sizes[0];
  layer.batch = sizes[1];
  layer.hidden = sizes[2];
  layer.reverse = braid_find_attribute(call, "reverse", BRAID_INTEGER)->integer != 0;
  layer.each_column = call->reads[2].sizes[0] > 1;
  layer.gates = f32(0);
  layer.scale = f32(2);
  layer.zero = i32(3);
  layer.first_h = f32(4);
  layer.first_c = f32(5);
  layer.lengths = i32(6);
  layer.y = result(0);
  layer.h = result(1);
  layer.c = result(2);
  layer.product = {layer.batch,
                   layer.hidden,
                   call->reads[1].dtype == BRAID_U8,
                   static_cast<int8_t*>(call->writes[3].data),
                   static_cast<int32_t*>(call->writes[4].data),
                   static_cast<uint8_t*>(call->writes[5].data)};
  layer.run(call->reads[1].data);
  return nullptr;
}

}  // namespace braid::rt
