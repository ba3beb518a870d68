// Recurrent layers of generated CPU programs, in one direction; ir::Recurrence (ir/graph.h) defines their
// meaning. Only generated source includes this file: activations are functors that the compiler inlines.
//
// The recurrent products are matrix products of the program (RecurrentProducts). A thread computes the same
// columns of the state in every step, and the columns of the products that these need. So its part of the
// weights stays in its cache, and there is one barrier per step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "runtime/kernel_support.h"
#include "runtime/team.h"

#ifdef __AVX512DQ__
#include <immintrin.h>
#endif

namespace braid::rt {

#ifdef __AVX512DQ__
namespace vec16 {
#include "runtime/vector_math_avx512.inc"
}  // namespace vec16
using Vector = __m512;
inline constexpr int64_t kVectorElements = 16;
#else
using Vector = float;  // there are none
inline constexpr int64_t kVectorElements = 1;
#endif

// The usual activations, of a value and of a vector of values. Others are functors of the program, without
// kVectors.
struct Sigmoid {
  static constexpr bool kVectors = kVectorElements > 1;
  template <class T>
  T operator()(T x) const {
    return vsigmoid(x);
  }
#ifdef __AVX512DQ__
  Vector operator()(Vector x) const { return vec16::times_sigmoid(vec16::all(1.0f), x); }
#endif
};
struct Tanh {
  static constexpr bool kVectors = kVectorElements > 1;
  template <class T>
  T operator()(T x) const {
    return vtanh(x);
  }
#ifdef __AVX512DQ__
  Vector operator()(Vector x) const { return vec16::tanh16(x); }
#endif
};
template <class F>
concept OfVectors = requires {
  requires F::kVectors;
};

// One value, or a vector of adjacent ones.
template <class V, class T>
V read(const T* p) {
#ifdef __AVX512DQ__
  if constexpr (std::is_same_v<V, Vector>) return _mm512_loadu_ps(p);
#endif
  if constexpr (!std::is_same_v<V, Vector> || kVectorElements == 1) return load(*p);
}
template <class V, class T>
void write(T* p, V value) {
#ifdef __AVX512DQ__
  if constexpr (std::is_same_v<V, Vector>) return _mm512_storeu_ps(p, value);
#endif
  if constexpr (!std::is_same_v<V, Vector> || kVectorElements == 1) store(*p, value);
}

// The variants of a layer, known when the program is compiled: testing them within the loop over the columns
// of the state would keep that loop from being vectorised.
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
  // V: Sum, or a vector of them.
  template <class F, class V>
  V apply(const F& f, V x) const {
    if constexpr (form.clip) x = vmin<V>(vmax<V>(x, -clip), clip);
    return f(x);
  }
  template <class V>
  V bias_of(int64_t column) const {
    if constexpr (form.bias) return read<V>(bias + column);
    return V{};
  }
  // The part of gate k that comes from column j of the cell's state; the candidate, gate 3, has none.
  template <class V>
  V peephole(int64_t k, int64_t j, V cell) const {
    if constexpr (form.peepholes) {
      if (k < 3) return read<V>(peepholes + k * hidden + j) * cell;
    }
    return V{};
  }
};

// run(part, rows, work, begin, end) multiplies rows [batch, hidden] by columns [begin, end) of the weights of
// a part of the gates, and writes the same columns of `work`. `end` 0: all columns, by as many threads as are
// useful.
template <class Run>
struct RecurrentProducts {
  int64_t block;  // parts begin at multiples of it; 0: there are none
  Run run;
};
template <class Run>
RecurrentProducts(int64_t, Run) -> RecurrentProducts<Run>;

// The columns of the state that one thread computes.
struct Columns {
  int64_t begin = 0, end = 0;
  bool all = true;
  Team* team = nullptr;  // whose gang shares the columns, unless all are here
  int64_t members = 1;
};

// Multiplications in a step below which a second thread costs more than it saves.
inline constexpr int64_t kParallelProducts = 50000;
inline void wait_for_team(const Columns& columns) {
  if (!columns.all) columns.team->wait_for_all(columns.members);
}

// Elements below which a second thread costs more than it saves.
inline constexpr int64_t kParallelCells = 8192;

// Calls step(t, columns) for every step, on the threads of a team that come at once: a step contains its
// barriers.
template <class Args, class Products, class Step>
void for_each_step(const Args& args, const Products& products, int64_t gates, const Step& step) {
  const int64_t cells = args.batch * args.hidden;
  for (int64_t k = 0; k < cells; ++k) {
    if (Args::kForm.lengths || args.steps == 0) args.h[k] = args.initial_h[k];
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
  Team* const team = blocks > 1 ? Team::current() : nullptr;
  if (team == nullptr) {
    all_steps({0, args.hidden});
  } else {
    const auto member = [&](int64_t me, int64_t members) {
      if (members == 1) return all_steps({0, args.hidden});
      all_steps({blocks * me / members * block, blocks * (me + 1) / members * block, false, team, members});
    };
    using Member = decltype(member);
    team->gang(
        static_cast<int>(smaller(team->threads(), blocks)),
        [](const void* context, int64_t me, int64_t members, int) {
          (*static_cast<const Member*>(context))(me, members);
        },
        &member);
  }
  if (Args::kForm.lengths || args.steps == 0) return;
  const auto* const last = args.y + (Args::kForm.reverse ? 0 : args.steps - 1) * cells;
  for (int64_t k = 0; k < cells; ++k) args.h[k] = last[k];
}

// The state before step t. It is the y of the step before, which no other step writes: one barrier per step
// is enough. With lengths, y is 0 after the end of a row, and h keeps the state.
template <class Args>
const typename Args::Storage* state_before(const Args& args, int64_t t) {
  if constexpr (Args::kForm.lengths) return args.h;
  const int64_t before = Args::kForm.reverse ? t + 1 : t - 1;
  const bool first = before < 0 || before == args.steps;
  return first ? args.initial_h : args.y + before * args.batch * args.hidden;
}

// Prefetches elements that lie in another thread's cache: fetching all lines together takes about the time of
// one.
template <class T>
void prefetch(const T* first, int64_t elements) {
  constexpr int64_t kLine = 64;
  const auto* const bytes = reinterpret_cast<const char*>(first);
  for (int64_t k = 0; k < elements * static_cast<int64_t>(sizeof(T)); k += kLine)
    __builtin_prefetch(bytes + k);
}
inline constexpr int64_t kMostPrefetched = 8192;  // elements

// The position in `work` of column j of gate k of `gates`: one thread's columns are adjacent within a row.
// Between columns of other threads, their prefetches would take its lines, which would then be lost again.
struct WorkColumns {
  int64_t gates;
  Columns columns;
  int64_t operator()(int64_t k, int64_t j) const {
    const int64_t width = columns.end - columns.begin;
    return gates * columns.begin + k * width + j - columns.begin;
  }
};

// Gates [first, first + count) of `gates`, which are a part of the products, in the columns of the state.
template <class Args, class Products, class T>
void multiply(const Args& args, const Products& products, int part, int64_t gates, int64_t first,
              int64_t count, const T* rows, const Columns& columns) {
  if (columns.all) return products.run(part, rows, args.work + first * args.hidden, 0, 0);
  if (args.batch * args.hidden <= kMostPrefetched) prefetch(rows, args.batch * args.hidden);
  const WorkColumns at = {gates, columns};
  for (int64_t g = 0; g < count; ++g) {
    const int64_t begin = g * args.hidden + columns.begin, end = g * args.hidden + columns.end;
    // Column `begin` of the part is written where the work has it.
    auto* const work = args.work + at(first + g, columns.begin) - begin;
    products.run(part, rows, work, begin, end);
  }
}

// Calls f(row) for all rows, by as many threads as are useful.
template <class Args, class F>
void for_each_row(const Args& args, const Columns& columns, const F& f) {
  const bool parallel = columns.all && args.batch * args.hidden >= kParallelCells;
  parallel_for(args.batch, parallel, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) f(row);
  });
}

// Calls cell(row, column, before) for each of `columns` of the state of active rows, or for vectors of them
// if kVectors. Stores the new state, which `cell` returns, in y; rows that are not active keep their state.
// On return all threads may read the new state.
template <bool kVectors, class Args, class Cell>
void update_state(const Args& args, int64_t t, const Columns& columns, const Cell& cell) {
  using T = typename Args::Storage;
  using Sum = typename Args::Value;
  T* const y = args.y + t * args.batch * args.hidden;
  const T* const old = state_before(args, t);
  constexpr bool kInPlace = Args::kForm.lengths;
  if constexpr (kInPlace) wait_for_team(columns);  // others may still read h
  for_each_row(args, columns, [&](int64_t row) {
    T* const out = y + row * args.hidden;
    T* const h = args.h + row * args.hidden;
    const T* const before = old + row * args.hidden;
    if (!args.active(t, row)) {
      for (int64_t j = columns.begin; j < columns.end; ++j) store(out[j], Sum{0});
      return;
    }
    int64_t first = columns.begin;
    if constexpr (kVectors) {
      for (; first + kVectorElements <= columns.end; first += kVectorElements) {
        const Vector next = cell(row, first, read<Vector>(before + first));
        if constexpr (kInPlace) write(h + first, next);
        write(out + first, next);
      }
    }
#pragma omp simd
    for (int64_t j = first; j < columns.end; ++j) {
      const Sum next = cell(row, j, load(before[j]));
      if constexpr (kInPlace) store(h[j], next);
      store(out[j], next);
    }
  });
  wait_for_team(columns);
}

// Returns whether the loop over the columns of the state uses explicit vectors. Compilers vectorise the other
// loop too, with twice as many instructions for these activations.
template <class Args, class... F>
constexpr bool vectors() {
  return std::is_same_v<typename Args::Storage, float> && !Args::kForm.clip && (OfVectors<F> && ...);
}

// Replaces the sums of gate k of `gates` by their activation, peephole included. Each gate has a loop of its
// own: a cell's whole chain of dependent instructions is longer than the processor's instruction window.
template <class Args, class F>
void activate(const Args& args, int64_t t, const Columns& columns, int64_t gates, int64_t k, const F& f) {
  using Sum = typename Args::Value;
  const int64_t hidden = args.hidden, width = gates * hidden;
  const WorkColumns work_column = {gates, columns};
  for_each_row(args, columns, [&](int64_t row) {
    const auto one = [&]<class V>(V, int64_t j) {
      const int64_t column = k * hidden + j;
      auto* const work = args.work + row * width + work_column(k, j);
      V sum = read<V>(args.gates + (t * args.batch + row) * width + column) + read<V>(work) +
              args.template bias_of<V>(column);
      if constexpr (Args::kForm.peepholes) sum += args.peephole(k, j, read<V>(args.c + row * hidden + j));
      write(work, args.apply(f, sum));
    };
    int64_t j = columns.begin;
    for (; j + kVectorElements <= columns.end; j += kVectorElements) one(Vector{}, j);
    for (; j < columns.end; ++j) one(Sum{}, j);
  });
}

template <class Args, class Products, class F>
void run_rnn(const Args& args, const Products& products, const F& f) {
  using Sum = typename Args::Value;
  const int64_t hidden = args.hidden;
  for_each_step(args, products, 1, [&](int64_t t, const Columns& columns) {
    multiply(args, products, 0, 1, 0, 1, state_before(args, t), columns);
    const auto* const gates = args.gates + t * args.batch * hidden;
    update_state<vectors<Args, F>()>(args, t, columns, [&]<class V>(int64_t row, int64_t j, V) {
      const int64_t at = row * hidden + j;
      return args.apply(f, read<V>(gates + at) + read<V>(args.work + at) + args.template bias_of<V>(j));
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
    const auto* const old = state_before(args, t);
    multiply(args, products, 0, 3, 0, kLinearBeforeReset ? 3 : 2, old, columns);
    const WorkColumns work_column = {3, columns};
    const auto gate = [&]<class V>(V, int64_t row, int64_t k, int64_t j) {
      const int64_t column = k * hidden + j;
      return read<V>(gates + row * width + column) + read<V>(args.work + row * width + work_column(k, j)) +
             args.template bias_of<V>(column);
    };
    if constexpr (!kLinearBeforeReset) {
      // The product for the candidate is of r * h, for which y of this step has memory.
      auto* const reset = args.y + t * args.batch * hidden;
      for (int64_t row = 0; row < args.batch; ++row) {
#pragma omp simd
        for (int64_t j = columns.begin; j < columns.end; ++j) {
          const int64_t at = row * hidden + j;
          store(reset[at], args.apply(f, gate(Sum{}, row, 1, j)) * load(old[at]));
        }
      }
      wait_for_team(columns);
      multiply(args, products, 1, 3, 2, 1, reset, columns);
      wait_for_team(columns);  // the new state takes the place of what was multiplied
    }
    update_state<vectors<Args, F, G>()>(args, t, columns, [&]<class V>(int64_t row, int64_t j, V before) {
      const int64_t candidate_at = row * width + 2 * hidden + j;
      const V update = args.apply(f, gate(before, row, 0, j));
      V recurrent =
          read<V>(args.work + row * width + work_column(2, j)) + args.template bias_of<V>(2 * hidden + j);
      if constexpr (kLinearBeforeReset) recurrent *= args.apply(f, gate(before, row, 1, j));
      const V candidate = args.apply(g, read<V>(gates + candidate_at) + recurrent);
      return V((Sum{1} - update) * candidate + update * before);
    });
  });
}

template <class Args, class Products, class F, class G, class H>
void run_lstm(const Args& args, const Products& products, const F& f, const G& g, const H& h) {
  using Sum = typename Args::Value;
  const int64_t hidden = args.hidden, width = 4 * hidden;
  for_each_step(args, products, 4, [&](int64_t t, const Columns& columns) {
    const auto* const gates = args.gates + t * args.batch * width;
    const WorkColumns work_column = {4, columns};
    multiply(args, products, 0, 4, 0, 4, state_before(args, t), columns);
    // The output gate's peephole looks at the new cell.
    constexpr bool kVectors = vectors<Args, F, G, H>(), kOutputApart = Args::kForm.peepholes;
    if constexpr (kVectors) {
      activate(args, t, columns, 4, 0, f);
      if constexpr (!kOutputApart) activate(args, t, columns, 4, 1, f);
      if constexpr (!Args::kForm.coupled) activate(args, t, columns, 4, 2, f);
      activate(args, t, columns, 4, 3, g);
    }
    update_state<kVectors>(args, t, columns, [&]<class V>(int64_t row, int64_t j, V) {
      const auto gate = [&](int64_t k, const auto& activation, V cell) {
        const int64_t column = k * hidden + j;
        const V product = read<V>(args.work + row * width + work_column(k, j));
        if constexpr (kVectors) {
          if (!kOutputApart || k != 1) return product;
        }
        return args.apply(activation, V(read<V>(gates + row * width + column) + product +
                                        args.template bias_of<V>(column) + args.peephole(k, j, cell)));
      };
      auto* const state = args.c + row * hidden + j;
      const V before = read<V>(state);
      const V in = gate(0, f, before);
      V forget = Sum{1} - in;
      if constexpr (!Args::kForm.coupled) forget = gate(2, f, before);
      const V cell = forget * before + in * gate(3, g, V{});
      const V out = gate(1, f, cell);
      write(state, cell);
      return V(out * args.apply(h, cell));
    });
  });
}

}  // namespace braid::rt
