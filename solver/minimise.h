// Sums of tables minimised over one of their variables: what elimination spends its time in.
//
// Tables have their variables in one order, by sizes, so that the innermost loop runs over consecutive cells: of the largest
// variable that is left, or of the one that is minimised over if that is larger.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "solver/problem.h"

namespace braid::solver {

// Tables have this for what is forbidden: so many of them can be added up without overflow that sums are cut once in a while.
inline constexpr Cost kOut = Cost{1} << 59;

// A table, with how far one step of each variable of a scope goes in it (0: it does not depend on it).
struct Term {
  std::shared_ptr<const std::vector<Cost>> costs;  // from 0 to kOut
  std::vector<std::size_t> strides;
};

// Over a scope of variables: those that are left, in the order in which all tables have them, then the one that is minimised over.
struct TableSum {
  std::vector<int> sizes;
  std::vector<Term> terms;
  bool own_last = false;  // whether tables have the last of the scope behind all others
};

// Per combination of the variables that are left, row-major: the least sum, kOut if none is allowed.
std::vector<Cost> minimise(const TableSum& sum);
// The first choice of the last variable for which the sum is least, at these choices of the others; -1: none is allowed.
int best_choice(const TableSum& sum, std::span<const int> others);

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
