// Sums of tables, minimised over one of their variables. Elimination spends its time here.
//
// Tables have their variables in one order, by sizes, so that the innermost loop runs over consecutive cells:
// those of the largest variable that is left, or of the variable that is minimised over if it is larger.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "solver/cost_table.h"

namespace braid::solver {

// The entry for what is forbidden in these tables. So many of them fit into a sum that sums are capped only
// now and then.
inline constexpr Cost kOut = Cost{1} << 59;

// A table, with its stride for each variable of a scope (0: it does not depend on that variable).
struct Term {
  std::shared_ptr<const std::vector<Cost>> costs;  // from 0 to kOut
  std::vector<std::size_t> strides;
};

// A scope of variables: those that are left, in the order of all tables, then the one that is minimised over.
struct TableSum {
  std::vector<std::size_t> sizes;
  std::vector<Term> terms;
  bool own_last = false;  // whether the last variable of the scope comes last in all tables, too
};

// Returns, per combination of the variables that are left, row-major, the least sum; kOut if none is allowed.
std::vector<Cost> minimise(const TableSum& sum);
// Returns the first choice of the last variable with the least sum at these choices of the others; -1: none
// is allowed.
int best_choice(const TableSum& sum, std::span<const std::size_t> others);

// The least of each row or column of a table.
void least_of_rows(Cost* least, const Cost* costs, std::size_t rows, std::size_t columns);
void least_of_columns(Cost* least, const Cost* costs, std::size_t rows, std::size_t columns);
// The largest of these that is not kForbidden, at least 0.
Cost largest_allowed(const Cost* costs, std::size_t count);

// Equal costs have equal ones.
std::uint64_t hash_of(const std::vector<Cost>& costs);

// Where more + costs[j] is less than least[j] it takes its place, and `choice` that of best[j].
void take_cheaper(Cost* least, int* best, const Cost* costs, Cost more, int choice, std::size_t count);

}  // namespace braid::solver
