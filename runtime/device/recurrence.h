// Recurrent layers in one direction, one block per row of the batch; ir::Recurrence (ir/graph.h) defines
// their meaning. Not fast: every block reads all weights in every step.
//
// The threads of a block share the columns of the state, and each thread always has the same ones. The old h
// is the y of the step before, which no later step overwrites. So a step needs one barrier, and one more if a
// gate of all columns is needed (gru).
#pragma once

#include "runtime/device/math.h"
#include "runtime/device/reduce.h"

namespace braid::rt::device {

// Operands are row-major except the weights; null: there is none. Sum is the type of sums and gates.
template <class T, class Sum>
struct RecurrentLayer {
  int64_t steps = 0, batch = 0, hidden = 0;
  bool reverse = false;
  bool linear_before_reset = false;    // gru
  bool coupled = false;                // lstm
  Sum clip = 0;                        // 0: none
  const T* gates = nullptr;            // [steps, batch, g * hidden]
  const T* weights = nullptr;          // [hidden, g * hidden]
  int64_t weight_strides[2] = {0, 0};  // of its rows and columns
  const T* initial_h = nullptr;        // [batch, hidden]
  const T* initial_c = nullptr;        // [batch, hidden]
  const T* bias = nullptr;             // [g * hidden]
  const T* peepholes = nullptr;        // [3, hidden]
  const int32_t* lengths = nullptr;    // [batch]
  T* y = nullptr;                      // [steps, batch, hidden]
  T* h = nullptr;                      // [batch, hidden]
  T* c = nullptr;                      // [batch, hidden]
  Sum* work = nullptr;                 // [batch, g * hidden]
  int* error = nullptr;                // of a length that is out of range
  int site = 0;

  static __device__ Sum load(T x) { return math::convert<Sum>(x); }

  // A row of the state times a column of the weights.
  template <class State>
  __device__ Sum product(const State* row, int64_t column) const {
    const T* w = weights + column * weight_strides[1];
    Sum sum = 0;
    for (int64_t i = 0; i < hidden; ++i) sum += math::convert<Sum>(row[i]) * load(w[i * weight_strides[0]]);
    return sum;
  }
  __device__ Sum bias_of(int64_t column) const { return bias == nullptr ? Sum(0) : load(bias[column]); }
  // The part of gate k = 0 to 2 that comes from column j of the cell's state.
  __device__ Sum peephole(int64_t k, int64_t j, Sum cell) const {
    return peepholes == nullptr ? Sum(0) : load(peepholes[k * hidden + j]) * cell;
  }
  template <class F>
  __device__ Sum apply(const F& f, Sum x) const {
    if (clip > Sum(0)) x = math::min(math::max(x, -clip), clip);
    return f(x);
  }
};

// The operands of one step of one row.
template <class T, class Sum>
struct RecurrentStep {
  const RecurrentLayer<T, Sum>& layer;
  const T* gates;   // [g * hidden]
  const T* before;  // the old h
  T* after;         // the new h, in y
  T* cell;          // lstm
  Sum* work;

  __device__ Sum gate(int64_t column) const {
    return layer.load(gates[column]) + layer.product(before, column) + layer.bias_of(column);
  }
  // Calls f(j) for this thread's columns of the state.
  template <class F>
  __device__ void for_each_column(const F& f) const {
    for (int64_t j = thread_in_block(); j < layer.hidden; j += threads_per_block()) f(j);
  }
};

// Calls step(RecurrentStep) for each step of this block's rows. `step` computes this thread's columns of
// `after`; those of other threads are valid after the barrier that follows.
template <class T, class Sum, class Step>
__device__ void for_each_step(const RecurrentLayer<T, Sum>& l, int64_t gates, const Step& step) {
  const int64_t width = gates * l.hidden;
  for (int64_t row = blockIdx.x; row < l.batch; row += gridDim.x) {
    RecurrentStep<T, Sum> at = {
        l, nullptr, l.initial_h + row * l.hidden, nullptr, l.c + row * l.hidden, l.work + row * width};
    if (l.c != nullptr) {
      at.for_each_column([&](int64_t j) {
        at.cell[j] = l.initial_c == nullptr ? math::convert<T>(Sum(0)) : l.initial_c[row * l.hidden + j];
      });
    }
    const int64_t length =
        l.lengths == nullptr ? l.steps : math::checked_index(l.lengths[row], l.steps + 1, l.error, l.site);
    for (int64_t s = 0; s < l.steps; ++s) {
      const int64_t t = l.reverse ? l.steps - 1 - s : s;
      at.gates = l.gates + (t * l.batch + row) * width;
      at.after = l.y + (t * l.batch + row) * l.hidden;
      if (t >= length) {  // the same for all threads of the block
        at.for_each_column([&](int64_t j) { at.after[j] = math::convert<T>(Sum(0)); });
        continue;
      }
      step(at);
      __syncthreads();
      at.before = at.after;
    }
    at.for_each_column([&](int64_t j) { l.h[row * l.hidden + j] = at.before[j]; });
  }
}

template <class T, class Sum, class F>
__device__ void run_rnn(const RecurrentLayer<T, Sum>& l, const F& f) {
  for_each_step(l, 1, [&](const RecurrentStep<T, Sum>& at) {
    at.for_each_column([&](int64_t j) { at.after[j] = math::convert<T>(l.apply(f, at.gate(j))); });
  });
}

template <class T, class Sum, class F, class G>
__device__ void run_gru(const RecurrentLayer<T, Sum>& l, const F& f, const G& g) {
  for_each_step(l, 3, [&](const RecurrentStep<T, Sum>& at) {
    // The update gate, and the reset gate or, where the product for the candidate is of it, reset gate * h.
    Sum *update = at.work, *reset = at.work + l.hidden;
    at.for_each_column([&](int64_t j) {
      update[j] = l.apply(f, at.gate(j));
      reset[j] = l.apply(f, at.gate(l.hidden + j));
      if (!l.linear_before_reset) reset[j] *= l.load(at.before[j]);
    });
    __syncthreads();
    at.for_each_column([&](int64_t j) {
      const int64_t column = 2 * l.hidden + j;
      const Sum recurrent = l.linear_before_reset
                                ? reset[j] * (l.product(at.before, column) + l.bias_of(column))
                                : l.product(reset, column) + l.bias_of(column);
      const Sum candidate = l.apply(g, l.load(at.gates[column]) + recurrent);
      at.after[j] = math::convert<T>((Sum(1) - update[j]) * candidate + update[j] * l.load(at.before[j]));
    });
  });
}

template <class T, class Sum, class F, class G, class H>
__device__ void run_lstm(const RecurrentLayer<T, Sum>& l, const F& f, const G& g, const H& h) {
  for_each_step(l, 4, [&](const RecurrentStep<T, Sum>& at) {
    at.for_each_column([&](int64_t j) {
      const Sum before = l.load(at.cell[j]);
      const Sum in = l.apply(f, at.gate(j) + l.peephole(0, j, before));
      const Sum forget =
          l.coupled ? Sum(1) - in : l.apply(f, at.gate(2 * l.hidden + j) + l.peephole(2, j, before));
      const Sum cell = forget * before + in * l.apply(g, at.gate(3 * l.hidden + j));
      const Sum out = l.apply(f, at.gate(l.hidden + j) + l.peephole(1, j, cell));
      at.cell[j] = math::convert<T>(cell);
      at.after[j] = math::convert<T>(out * l.apply(h, cell));
    });
  });
}

}  // namespace braid::rt::device
