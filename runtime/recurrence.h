// Recurrent layers of generated CPU programs, in one direction; ir::Recurrence (ir/graph.h) has their meaning. Only generated
// source includes it: activations are functors that the compiler inlines.
//
// The recurrent products are matrix products of the program (RecurrentProducts). A thread computes the same columns of the state
// in every step, with those of the products that they need: half of the weights stay in its cache, and there is one barrier
// for the products and one for the state.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/kernel_support.h"

namespace braid::rt {

// What a layer has, known when the program is compiled: a test of it within the loop over the columns of the state would
// keep that loop from being vectorised.
struct RecurrenceForm {
  bool reverse = false;
  bool linear_before_reset = false;  // gru
  bool coupled = false;              // lstm
  bool clip = false;
  bool initial_c = false;
  bool bias = false;
  bool peepholes = false;
  bool lengths = false;
};

// All operands are row-major. Those that the form lacks are not read.
template <class T, class Sum, RecurrenceForm form>
struct RecurrenceArgs {
  using Storage = T;
  using Value = Sum;
  static constexpr RecurrenceForm kForm = form;

  int64_t steps = 0, batch = 0, hidden = 0;
  Sum clip = 0;
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
    if constexpr (!form.lengths) return true;
    return t < check_index(lengths[row], steps + 1, error, site);
  }
  template <class F>
  Sum apply(const F& f, Sum x) const {
    if constexpr (form.clip) x = vmin<Sum>(vmax<Sum>(x, -clip), clip);
    return f(x);
  }
  Sum bias_of(int64_t column) const {
    if constexpr (form.bias) return load(bias[column]);
    return 0;
  }
  // The part of gate k = 0 to 2 that comes from column j of the cell's state.
  Sum peephole(int64_t k, int64_t j, Sum cell) const {
    if constexpr (form.peepholes) return load(peepholes[k * hidden + j]) * cell;
    return 0;
  }
};

// run(part, rows, begin, end): rows [batch, hidden] times columns [begin, end) of the weights of a part of the gates, into the columns
// of `work` that belong to them; `end` 0: all columns, by as many threads as are useful.
template <class Run>
struct RecurrentProducts {
  int64_t block;  // parts begin at multiples of it; 0: there are none
  Run run;
};
template <class Run>
RecurrentProducts(int64_t, Run) -> RecurrentProducts<Run>;

// Of the state, for one thread.
struct Columns {
  int64_t begin = 0, end = 0;
  bool all = true;
};

// Multiplications in a step below which a second thread costs more than it saves.
inline constexpr int64_t kParallelProducts = 100000;
// Of the team. Without one there must be none: the caller's threads may be a team of their own.
inline void wait_for_team(const Columns& columns) {
  if (columns.all) return;
#pragma omp barrier
}

// Elements below which a second thread costs more than it saves.
inline constexpr int64_t kParallelCells = 8192;

// Calls step(t, columns) for every step, on all threads of a team at once: a step contains its barriers.
template <class Args, class Products, class Step>
void for_each_step(const Args& args, const Products& products, int64_t gates, const Step& step) {
  const int64_t cells = args.batch * args.hidden;
  for (int64_t k = 0; k < cells; ++k) {
    args.h[k] = args.initial_h[k];
    if (args.c == nullptr) continue;
    if constexpr (Args::kForm.initial_c) {
      args.c[k] = args.initial_c[k];
    } else {
      store(args.c[k], typename Args::Value{0});
    }
  }
  const auto all_steps = [&](const Columns& columns) {
    for (int64_t s = 0; s < args.steps; ++s) step(Args::kForm.reverse ? args.steps - 1 - s : s, columns);
  };
  const int64_t block = products.block;
  const bool parts =
      block > 0 && args.hidden % block == 0 && cells * args.hidden * gates >= kParallelProducts;
  const int64_t blocks = parts ? args.hidden / block : 1;
  const auto threads = static_cast<int>(smaller(omp_get_max_threads(), blocks));
  if (threads == 1) return all_steps({0, args.hidden, true});
#pragma omp parallel num_threads(threads)
  {
    const int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    all_steps({blocks * me / team * block, blocks * (me + 1) / team * block, false});
  }
}

// The columns of the first `gates` gates of a part that belong to `columns` of the state.
template <class Products, class T>
void multiply(const Products& products, int part, int64_t gates, int64_t hidden, const T* rows,
              const Columns& columns) {
  if (columns.all) return products.run(part, rows, 0, 0);
  for (int64_t g = 0; g < gates; ++g)
    products.run(part, rows, g * hidden + columns.begin, g * hidden + columns.end);
}

// Calls cell(row, column, before) for every element of the columns of the state of active rows and stores y; rows that are not
// active keep their state. `cell` returns the new h. What was computed from the old state must be complete on all threads;
// the new state is on return.
template <class Args, class Cell>
void update_state(const Args& args, int64_t t, const Columns& columns, const Cell& cell) {
  using T = typename Args::Storage;
  using Sum = typename Args::Value;
  T* const y = args.y + t * args.batch * args.hidden;
  wait_for_team(columns);
#pragma omp parallel for schedule(static) if (columns.all && args.batch > 1 && \
                                              args.batch * args.hidden >= kParallelCells)
  for (int64_t row = 0; row < args.batch; ++row) {
    T* const out = y + row * args.hidden;
    T* const h = args.h + row * args.hidden;
    if (!args.active(t, row)) {
      for (int64_t j = columns.begin; j < columns.end; ++j) store(out[j], Sum{0});
      continue;
    }
#pragma omp simd
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      const Sum next = cell(row, j, load(h[j]));
      store(h[j], next);
      store(out[j], next);
    }
  }
  wait_for_team(columns);
}

template <class Args, class Products, class F>
void run_rnn(const Args& args, const Products& products, const F& f) {
  using Sum = typename Args::Value;
  const int64_t hidden = args.hidden;
  for_each_step(args, products, 1, [&](int64_t t, const Columns& columns) {
    multiply(products, 0, 1, hidden, args.h, columns);
    const auto* const gates = args.gates + t * args.batch * hidden;
    update_state(args, t, columns, [&](int64_t row, int64_t j, Sum) {
      const int64_t at = row * hidden + j;
      return args.apply(f, load(gates[at]) + args.work[at] + args.bias_of(j));
    });
  });
}

template <class Args, class Products, class F, class G>
void run_gru(const Args& args, const Products& products, const F& f, const G& g) {
  using Sum = typename Args::Value;
  constexpr bool kLinearBeforeReset = Args::kForm.linear_before_reset;
  const int64_t hidden = args.hidden, width = 3 * hidden;
  for_each_step(args, products, 3, [&](int64_t t, const Columns& columns) {
    const auto* const gates = args.gates + t * args.batch * width;
    multiply(products, 0, kLinearBeforeReset ? 3 : 2, hidden, args.h, columns);
    const auto gate = [&](int64_t row, int64_t column) {
      const int64_t at = row * width + column;
      return load(gates[at]) + args.work[at] + args.bias_of(column);
    };
    if constexpr (!kLinearBeforeReset) {
      // The product for the candidate is of r * h, for which y of this step has memory.
      auto* const reset = args.y + t * args.batch * hidden;
      for (int64_t row = 0; row < args.batch; ++row) {
#pragma omp simd
        for (int64_t j = columns.begin; j < columns.end; ++j) {
          const int64_t at = row * hidden + j;
          store(reset[at], args.apply(f, gate(row, hidden + j)) * load(args.h[at]));
        }
      }
      wait_for_team(columns);
      multiply(products, 1, 1, hidden, reset, columns);
    }
    update_state(args, t, columns, [&](int64_t row, int64_t j, Sum before) {
      const int64_t candidate_at = row * width + 2 * hidden + j;
      const Sum update = args.apply(f, gate(row, j));
      Sum recurrent = args.work[candidate_at] + args.bias_of(2 * hidden + j);
      if constexpr (kLinearBeforeReset) recurrent *= args.apply(f, gate(row, hidden + j));
      const Sum candidate = args.apply(g, load(gates[candidate_at]) + recurrent);
      return (1 - update) * candidate + update * before;
    });
  });
}

template <class Args, class Products, class F, class G, class H>
void run_lstm(const Args& args, const Products& products, const F& f, const G& g, const H& h) {
  using Sum = typename Args::Value;
  const int64_t hidden = args.hidden, width = 4 * hidden;
  for_each_step(args, products, 4, [&](int64_t t, const Columns& columns) {
    const auto* const gates = args.gates + t * args.batch * width;
    multiply(products, 0, 4, hidden, args.h, columns);
    update_state(args, t, columns, [&](int64_t row, int64_t j, Sum) {
      const auto gate = [&](int64_t k) {
        const int64_t column = k * hidden + j, at = row * width + column;
        return load(gates[at]) + args.work[at] + args.bias_of(column);
      };
      auto& state = args.c[row * hidden + j];
      const Sum before = load(state);
      const Sum in = args.apply(f, gate(0) + args.peephole(0, j, before));
      Sum forget = 1 - in;
      if constexpr (!Args::kForm.coupled) forget = args.apply(f, gate(2) + args.peephole(2, j, before));
      const Sum cell = forget * before + in * args.apply(g, gate(3));
      const Sum out = args.apply(f, gate(1) + args.peephole(1, j, cell));
      store(state, cell);
      return out * args.apply(h, cell);
    });
  });
}

}  // namespace braid::rt
