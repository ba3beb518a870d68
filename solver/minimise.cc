#include "solver/minimise.h"

#include <algorithm>

// The loops are compiled for several processors; a sanitizer's start-up cannot choose between them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define BRAID_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define BRAID_CLONES
#endif

namespace braid::solver {

namespace {

// Costs with the strides of a Term.
struct View {
  const Cost* costs = nullptr;
  std::size_t cells = 0;
  std::vector<std::size_t> strides;
};

// Calls `run` with the offset in each view of every run of the last of these sizes.
template <class Run>
void each_run(std::span<const std::size_t> sizes, const std::vector<const View*>& views, const Run& run) {
  const std::size_t outer = sizes.empty() ? 0 : sizes.size() - 1;
  std::size_t rows = 1;
  for (std::size_t i = 0; i < outer; ++i) rows *= sizes[i];
  std::vector<std::size_t> at(outer, 0);
  std::vector<std::size_t> offset(views.size(), 0);
  for (std::size_t row = 0; row < rows; ++row) {
    run(row, offset);
    for (std::size_t i = outer; i-- > 0;) {
      for (std::size_t f = 0; f < views.size(); ++f) offset[f] += views[f]->strides[i];
      if (++at[i] < sizes[i]) break;
      for (std::size_t f = 0; f < views.size(); ++f) offset[f] -= views[f]->strides[i] * sizes[i];
      at[i] = 0;
    }
  }
}

// Adds each view to one that depends on all of its variables, if there is one: that is smaller than the sum
// of all views. New costs are put into `made`.
std::vector<View> combined(std::vector<View> views, const std::vector<std::size_t>& sizes,
                           std::vector<std::vector<Cost>>& made) {
  std::stable_sort(views.begin(), views.end(),
                   [](const View& a, const View& b) { return a.cells < b.cells; });
  std::vector<View> all;
  std::vector<std::vector<const View*>> added(views.size());
  made.reserve(views.size());
  const auto within = [&](const View& a, const View& b) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (a.strides[i] != 0 && b.strides[i] == 0) return false;
    return true;
  };
  std::vector<char> gone(views.size(), 0);
  std::vector<View> sums = views;
  for (std::size_t k = 0; k < views.size(); ++k) {
    // The view with those that have been added to it.
    if (!added[k].empty()) {
      std::vector<Cost>& costs = made.emplace_back(views[k].costs, views[k].costs + views[k].cells);
      for (const View* more : added[k]) {
        // The variables of the sum, in the order of its own cells.
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < sizes.size(); ++i)
          if (views[k].strides[i] != 0) order.push_back(i);
        std::sort(order.begin(), order.end(),
                  [&](std::size_t a, std::size_t b) { return views[k].strides[a] > views[k].strides[b]; });
        std::vector<std::size_t> own_sizes;
        View of_more{more->costs, more->cells, {}};
        for (const std::size_t i : order) {
          own_sizes.push_back(sizes[i]);
          of_more.strides.push_back(more->strides[i]);
        }
        const std::size_t columns = own_sizes.empty() ? 1 : own_sizes.back();
        const std::size_t step = own_sizes.empty() ? 0 : of_more.strides.back();
        Cost* next = costs.data();
        each_run(own_sizes, {&of_more}, [&](std::size_t /*row*/, const std::vector<std::size_t>& offset) {
          const Cost* from = of_more.costs + offset[0];
          for (std::size_t j = 0; j < columns; ++j, ++next) *next = std::min(*next + from[j * step], kOut);
        });
      }
      sums[k].costs = costs.data();
    }
    for (std::size_t g = k + 1; g < views.size() && gone[k] == 0; ++g) {
      if (!within(views[k], views[g])) continue;
      added[g].push_back(&sums[k]);
      gone[k] = 1;
    }
    if (gone[k] == 0) all.push_back(sums[k]);
  }
  return all;
}

// An addend of a row of a table: one cost for the whole row, or consecutive costs.
struct Input {
  const Cost* costs = nullptr;
  std::size_t next = 0;  // from one choice to the next
};

// least[j] = min(least[j], the least sum of all inputs over the choices). `rows` begin with cost j = 0;
// `same` have one cost for all j.
BRAID_CLONES void minimise_rows(Cost* __restrict least, Cost* __restrict sum, std::size_t columns,
                                std::size_t choices, const Input* rows, std::size_t row_count,
                                const Input* same, std::size_t same_count) {
  for (std::size_t c = 0; c < choices; ++c) {
    Cost base = 0;
    for (std::size_t k = 0; k < same_count; ++k)
      base = std::min(base + same[k].costs[c * same[k].next], kOut);
    if (base >= kOut) continue;
    if (row_count == 0) {
      for (std::size_t j = 0; j < columns; ++j) least[j] = std::min(least[j], base);
    } else if (row_count == 1) {
      const Cost* __restrict a = rows[0].costs + c * rows[0].next;
      for (std::size_t j = 0; j < columns; ++j) least[j] = std::min(least[j], base + a[j]);
    } else if (row_count == 2) {
      const Cost* __restrict a = rows[0].costs + c * rows[0].next, * __restrict b =
                                                                       rows[1].costs + c * rows[1].next;
      for (std::size_t j = 0; j < columns; ++j) least[j] = std::min(least[j], base + a[j] + b[j]);
    } else {
      const Cost* __restrict a = rows[0].costs + c * rows[0].next;
      for (std::size_t j = 0; j < columns; ++j) sum[j] = base + a[j];
      for (std::size_t k = 1; k + 1 < row_count; ++k) {
        const Cost* __restrict b = rows[k].costs + c * rows[k].next;
        for (std::size_t j = 0; j < columns; ++j) sum[j] = std::min(sum[j] + b[j], kOut);
      }
      const Cost* __restrict b = rows[row_count - 1].costs + c * rows[row_count - 1].next;
      for (std::size_t j = 0; j < columns; ++j) least[j] = std::min(least[j], sum[j] + b[j]);
    }
  }
}

// The least over consecutive choices of the sum of all rows.
BRAID_CLONES Cost minimise_run(Cost* __restrict sum, std::size_t choices, const Input* rows,
                               std::size_t row_count) {
  Cost least = kOut;
  const Cost* __restrict a = rows[0].costs;
  if (row_count == 1) {
    for (std::size_t c = 0; c < choices; ++c) least = std::min(least, a[c]);
    return least;
  }
  const Cost* __restrict b = rows[row_count - 1].costs;
  if (row_count == 2) {
    for (std::size_t c = 0; c < choices; ++c) least = std::min(least, a[c] + b[c]);
    return least;
  }
  for (std::size_t c = 0; c < choices; ++c) sum[c] = a[c];
  for (std::size_t k = 1; k + 1 < row_count; ++k) {
    const Cost* __restrict more = rows[k].costs;
    for (std::size_t c = 0; c < choices; ++c) sum[c] = std::min(sum[c] + more[c], kOut);
  }
  for (std::size_t c = 0; c < choices; ++c) least = std::min(least, sum[c] + b[c]);
  return least;
}

}  // namespace

std::vector<Cost> minimise(const TableSum& sum) {
  const std::size_t others = sum.sizes.size() - 1;
  const std::size_t choices = sum.sizes[others];
  std::size_t cells = 1;
  for (std::size_t i = 0; i < others; ++i) cells *= sum.sizes[i];
  std::vector<View> views;
  for (const Term& term : sum.terms) views.push_back({term.costs->data(), term.costs->size(), term.strides});
  std::vector<std::vector<Cost>> made;
  const std::vector<View> parts = combined(std::move(views), sum.sizes, made);
  std::vector<const View*> pointers;
  for (const View& part : parts) pointers.push_back(&part);
  std::vector<Cost> costs(cells, kOut);
  std::vector<Input> rows(parts.size()), same(parts.size());
  if (others == 0 || sum.own_last) {
    std::vector<Cost> buffer(choices);
    each_run(sum.sizes, pointers, [&](std::size_t row, const std::vector<std::size_t>& offset) {
      std::size_t count = 0;
      Cost base = 0;
      for (std::size_t f = 0; f < parts.size(); ++f) {
        const Cost* const from = parts[f].costs + offset[f];
        if (parts[f].strides[others] == 0) {
          base = std::min(base + *from, kOut);
        } else {
          rows[count++].costs = from;
        }
      }
      if (base >= kOut) return;
      costs[row] =
          std::min(kOut, base + (count == 0 ? 0 : minimise_run(buffer.data(), choices, rows.data(), count)));
    });
    return costs;
  }
  const std::span<const std::size_t> shape(sum.sizes.data(), others);
  const std::size_t columns = shape.back();
  std::vector<Cost> buffer(columns);
  each_run(shape, pointers, [&](std::size_t row, const std::vector<std::size_t>& offset) {
    std::size_t row_count = 0, same_count = 0;
    for (std::size_t f = 0; f < parts.size(); ++f) {
      Input& input = parts[f].strides[others - 1] == 0 ? same[same_count++] : rows[row_count++];
      input = {parts[f].costs + offset[f], parts[f].strides[others]};
    }
    minimise_rows(&costs[row * columns], buffer.data(), columns, choices, rows.data(), row_count, same.data(),
                  same_count);
  });
  return costs;
}

int best_choice(const TableSum& sum, std::span<const std::size_t> others) {
  int best = -1;
  Cost least = kOut;
  for (std::size_t c = 0; c < sum.sizes.back(); ++c) {
    Cost cost = 0;
    for (const Term& term : sum.terms) {
      std::size_t cell = c * term.strides.back();
      for (std::size_t i = 0; i < others.size(); ++i) cell += others[i] * term.strides[i];
      cost = std::min(cost + (*term.costs)[cell], kOut);
    }
    if (cost < least) least = cost, best = c;
  }
  return best;
}

BRAID_CLONES void least_of_rows(Cost* __restrict least, const Cost* __restrict costs, std::size_t rows,
                                std::size_t columns) {
  for (std::size_t i = 0; i < rows; ++i) {
    Cost own = costs[i * columns];
    for (std::size_t j = 1; j < columns; ++j) own = std::min(own, costs[i * columns + j]);
    least[i] = own;
  }
}

BRAID_CLONES void least_of_columns(Cost* __restrict least, const Cost* __restrict costs, std::size_t rows,
                                   std::size_t columns) {
  for (std::size_t j = 0; j < columns; ++j) least[j] = costs[j];
  for (std::size_t i = 1; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) least[j] = std::min(least[j], costs[i * columns + j]);
  }
}

BRAID_CLONES Cost largest_allowed(const Cost* costs, std::size_t count) {
  Cost most = 0;
  for (std::size_t k = 0; k < count; ++k) most = std::max(most, costs[k] == kForbidden ? 0 : costs[k]);
  return most;
}

namespace {

// Hashes costs: each one is mixed with its place, and the product of its 32-bit halves, one multiplication of
// a vector, is added.
BRAID_CLONES std::uint64_t sum_of_products(const Cost* __restrict costs, std::size_t count) {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;
  std::uint64_t sum = count, place = 0;
  for (std::size_t k = 0; k < count; ++k) {
    place += kStep;
    const std::uint64_t mixed = static_cast<std::uint64_t>(costs[k]) ^ place;
    sum += std::uint64_t{static_cast<std::uint32_t>(mixed)} * (mixed >> 32) + mixed;
  }
  return (sum ^ (sum >> 29)) * kStep;
}

}  // namespace

std::uint64_t hash_of(const std::vector<Cost>& costs) { return sum_of_products(costs.data(), costs.size()); }

BRAID_CLONES void take_cheaper(Cost* __restrict least, int* __restrict best, const Cost* __restrict costs,
                               Cost more, int choice, std::size_t count) {
  for (std::size_t j = 0; j < count; ++j) {
    const Cost cost = more + costs[j];
    best[j] = cost < least[j] ? choice : best[j];
    least[j] = std::min(least[j], cost);
  }
}

}  // namespace braid::solver
