// Recurrent layers of generated CPU programs, in one direction; ir::Recurrence (ir/graph.h) has their meaning. Only generated
// source includes it: activations are functors that the compiler inlines.
//
// The recurrent products are matrix products of the program, which `product(part, rows)` computes: rows [batch, hidden]
// times the weights of a part of the gates, into the columns of `work` that belong to it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/kernel_support.h"

namespace braid::rt {

// All operands are row-major. Absent ones are null.
template <class T, class Sum>
struct RecurrenceArgs {
  int64_t steps = 0, batch = 0, hidden = 0;
  bool reverse = false;
  bool linear_before_reset = false;  // gru
  bool coupled = false;              // lstm
  Sum clip = 0;                      // 0: none
  const T* gates = nullptr;          // [steps, batch, g * hidden]
  const T* initial_h = nullptr;      // [batch, hidden]
  const T* initial_c = nullptr;      // [batch, hidden]
  const T* bias = nullptr;           // [g * hidden]
  const T* peepholes = nullptr;      // [3, hidden]
  const int32_t* lengths = nullptr;  // [batch]
  T* y = nullptr;                    // [steps, batch, hidden]
  T* h = nullptr;                    // [batch, hidden]
  T* c = nullptr;                    // [batch, hidden]
  Sum* work = nullptr;               // [batch, g * hidden]
  IndexError* error = nullptr;       // of a length that is out of range
  int32_t site = 0;

  bool active(int64_t t, int64_t row) const {
    return lengths == nullptr || t < check_index(lengths[row], steps + 1, error, site);
  }
  template <class F>
  Sum apply(const F& f, Sum x) const {
    if (clip > 0) x = vmin<Sum>(vmax<Sum>(x, -clip), clip);
    return f(x);
  }
};

// Elements below which a second thread costs more than it saves.
inline constexpr int64_t kParallelCells = 8192;

template <class T, class Sum, class Step>
void for_each_step(const RecurrenceArgs<T, Sum>& args, const Step& step) {
  const int64_t cells = args.batch * args.hidden;
  for (int64_t k = 0; k < cells; ++k) {
    args.h[k] = args.initial_h[k];
    if (args.c != nullptr) store(args.c[k], args.initial_c != nullptr ? load(args.initial_c[k]) : Sum{0});
  }
  for (int64_t s = 0; s < args.steps; ++s) step(args.reverse ? args.steps - 1 - s : s);
}

// Calls cell(row, column, before) for every element of the state of active rows and stores y; rows that are not active
// keep their state. `cell` returns the new h.
template <class T, class Sum, class Cell>
void update_state(const RecurrenceArgs<T, Sum>& args, int64_t t, const Cell& cell) {
  T* const y = args.y + t * args.batch * args.hidden;
#pragma omp parallel for schedule(static) if (args.batch > 1 && args.batch * args.hidden >= kParallelCells)
  for (int64_t row = 0; row < args.batch; ++row) {
    T* const out = y + row * args.hidden;
    T* const h = args.h + row * args.hidden;
    if (!args.active(t, row)) {
      for (int64_t j = 0; j < args.hidden; ++j) store(out[j], Sum{0});
      continue;
    }
#pragma omp simd
    for (int64_t j = 0; j < args.hidden; ++j) {
      const Sum next = cell(row, j, load(h[j]));
      store(h[j], next);
      store(out[j], next);
    }
  }
}

template <class T, class Sum, class Product, class F>
void run_rnn(const RecurrenceArgs<T, Sum>& args, const Product& product, const F& f) {
  const int64_t hidden = args.hidden;
  for_each_step(args, [&](int64_t t) {
    product(0, args.h);
    const T* const gates = args.gates + t * args.batch * hidden;
    update_state(args, t, [&](int64_t row, int64_t j, Sum) {
      const int64_t at = row * hidden + j;
      return args.apply(
          f, load(gates[at]) + args.work[at] + (args.bias != nullptr ? load(args.bias[j]) : Sum{0}));
    });
  });
}

template <class T, class Sum, class Product, class F, class G>
void run_gru(const RecurrenceArgs<T, Sum>& args, const Product& product, const F& f, const G& g) {
  const int64_t hidden = args.hidden, width = 3 * hidden;
  const auto bias = [&](int64_t column) { return args.bias != nullptr ? load(args.bias[column]) : Sum{0}; };
  for_each_step(args, [&](int64_t t) {
    const T* const gates = args.gates + t * args.batch * width;
    product(0, args.h);
    const auto gate = [&](int64_t row, int64_t column) {
      const int64_t at = row * width + column;
      return load(gates[at]) + args.work[at] + bias(column);
    };
    if (!args.linear_before_reset) {
      // The product for the candidate is of r * h, for which y of this step has memory.
      T* const reset = args.y + t * args.batch * hidden;
      for (int64_t row = 0; row < args.batch; ++row) {
#pragma omp simd
        for (int64_t j = 0; j < hidden; ++j) {
          const int64_t at = row * hidden + j;
          store(reset[at], args.apply(f, gate(row, hidden + j)) * load(args.h[at]));
        }
      }
      product(1, reset);
    }
    update_state(args, t, [&](int64_t row, int64_t j, Sum before) {
      const int64_t candidate_at = row * width + 2 * hidden + j;
      const Sum update = args.apply(f, gate(row, j));
      Sum recurrent = args.work[candidate_at] + bias(2 * hidden + j);
      if (args.linear_before_reset) recurrent *= args.apply(f, gate(row, hidden + j));
      const Sum candidate = args.apply(g, load(gates[candidate_at]) + recurrent);
      return (1 - update) * candidate + update * before;
    });
  });
}

template <class T, class Sum, class Product, class F, class G, class H>
void run_lstm(const RecurrenceArgs<T, Sum>& args, const Product& product, const F& f, const G& g,
              const H& h) {
  const int64_t hidden = args.hidden, width = 4 * hidden;
  for_each_step(args, [&](int64_t t) {
    const T* const gates = args.gates + t * args.batch * width;
    product(0, args.h);
    update_state(args, t, [&](int64_t row, int64_t j, Sum) {
      const auto gate = [&](int64_t k) {
        const int64_t column = k * hidden + j, at = row * width + column;
        return load(gates[at]) + args.work[at] + (args.bias != nullptr ? load(args.bias[column]) : Sum{0});
      };
      const auto peephole = [&](int64_t k, Sum cell) {
        return args.peepholes != nullptr ? load(args.peepholes[k * hidden + j]) * cell : Sum{0};
      };
      T& state = args.c[row * hidden + j];
      const Sum before = load(state);
      const Sum in = args.apply(f, gate(0) + peephole(0, before));
      const Sum forget = args.coupled ? 1 - in : args.apply(f, gate(2) + peephole(2, before));
      const Sum cell = forget * before + in * args.apply(g, gate(3));
      const Sum out = args.apply(f, gate(1) + peephole(1, cell));
      store(state, cell);
      return out * args.apply(h, cell);
    });
  });
}

}  // namespace braid::rt
