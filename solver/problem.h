// The choice that splitting a model comes down to: one state per variable, with costs per state and per pair of states of two
// variables, under limits of memory. It knows neither ONNX nor meshes, so that it can be tested alone and on published
// problems (a cost-function network; compilers know it as PBQP).
//
// Costs are whole picoseconds, so that sums are exact and equal everywhere. Effort is counted in table cells that are
// computed, never in seconds: the same problem has the same solution on every machine.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace braid::solver {

// Picoseconds, at least 0.
using Cost = std::int64_t;

// A choice, or a combination of two, that must not be taken.
inline constexpr Cost kForbidden = std::numeric_limits<Cost>::max();

// The sum over all tables of their largest allowed cost may not exceed this (20 hours), which leaves room for the sums
// and differences that a search makes of them.
inline constexpr Cost kLargestTotal = Cost{1} << 56;

// Costs that many may share: equal layers have the same tables. A copy is the same table until one of both is edited.
class CostTable {
 public:
  CostTable() = default;
  CostTable(std::vector<Cost> costs) : costs_(std::make_shared<std::vector<Cost>>(std::move(costs))) {}
  CostTable(std::initializer_list<Cost> costs) : CostTable(std::vector<Cost>(costs)) {}

  std::size_t size() const { return costs_ ? costs_->size() : 0; }
  bool empty() const { return size() == 0; }
  Cost operator[](std::size_t index) const { return (*costs_)[index]; }
  const Cost* data() const { return costs_ ? costs_->data() : nullptr; }
  const Cost* begin() const { return data(); }
  const Cost* end() const { return data() + size(); }
  const std::vector<Cost>& costs() const {
    static const std::vector<Cost> none;
    return costs_ ? *costs_ : none;
  }
  // Tables with one address are one table; the content may be equal anyhow.
  const void* address() const { return costs_.get(); }
  std::vector<Cost>& edit() {
    if (costs_.use_count() != 1) costs_ = std::make_shared<std::vector<Cost>>(costs());
    return *costs_;
  }
  friend bool operator==(const CostTable& a, const CostTable& b) {
    return a.costs_ == b.costs_ || a.costs() == b.costs();
  }
  friend std::strong_ordering operator<=>(const CostTable& a, const CostTable& b) {
    return a.costs_ == b.costs_ ? std::strong_ordering::equal : a.costs() <=> b.costs();
  }

 private:
  std::shared_ptr<std::vector<Cost>> costs_;  // written to only by its one owner; null: empty
};

// Costs of a pair of variables: costs[i * (choices of `to`) + j] if `from` takes its choice i and `to` its choice j.
// Several edges may connect the same variables; their costs add up.
struct Edge {
  int from = -1;
  int to = -1;
  CostTable costs;
};

// Consecutive memory rows, from `begin` up to and without `end`.
struct RowRange {
  int begin = 0;
  int end = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// What a variable occupies: bytes per choice, at least 0, in each of the rows. A row is a moment at which some set of tensors
// is alive; what lives from one moment to another is in a range of them.
struct Usage {
  int variable = -1;
  std::vector<std::int64_t> bytes;
  std::vector<RowRange> rows;  // ascending, disjoint
};

struct Problem {
  std::vector<CostTable> variables;  // per variable: the cost of each choice, at least one choice
  std::vector<Edge> edges;
  std::vector<Usage> usages;
  std::vector<std::int64_t> limits;  // per memory row: the bytes that may be occupied
  // All variables, those of equal layers in the same order one layer after another (fold.h); empty: as they are numbered.
  std::vector<int> order;
};

struct SolveOptions {
  // Cells of tables that may be computed, in all. When it is spent, the best solution and bound so far are returned.
  std::int64_t budget = std::int64_t{1} << 28;
  // The largest table of the elimination; a problem that needs a larger one is solved by branch and bound.
  std::int64_t table = std::int64_t{1} << 22;
  // Of a problem with limits that needs branch and bound: a choice that keeps them, to begin with, and when a search may end before it
  // is complete: at the first choice that is cheaper than `known`, or that costs at most `enough`.
  std::vector<int> known = {};
  bool any_cheaper = false;
  Cost enough = 0;
};

enum class Status {
  kOptimal,     // choice and cost are the least possible, cost == bound
  kFeasible,    // choice keeps all limits, cost >= the optimum >= bound
  kInfeasible,  // no choice keeps all limits
  kUnknown,     // the budget ended before a choice was found that keeps all limits
};

struct Solution {
  Status status = Status::kUnknown;
  std::vector<int> choice;  // per variable; empty unless optimal or feasible
  Cost cost = kForbidden;
  Cost bound = 0;             // no choice that keeps all limits costs less; kForbidden if infeasible
  std::int64_t cells = 0;     // table cells computed
  std::int64_t branches = 0;  // nodes of the search tree; 0 if elimination sufficed
  std::string method;         // for reports: "elimination", "branch and bound"

  bool proved() const { return status == Status::kOptimal || status == Status::kInfeasible; }
  bool feasible() const { return status == Status::kOptimal || status == Status::kFeasible; }
  // cost / bound - 1; 0 if proved, infinite if the bound is 0.
  double gap() const;
};

// The sum of the largest allowed costs of all tables.
__int128 largest_total(const Problem& problem);
// UserError BR0480: a total that exceeds kLargestTotal. The hint says by what numbers of steps must be divided.
[[noreturn]] void refuse_costs(__int128 total);
// The cheapest choice. UserError BR0480 if the costs of the problem exceed kLargestTotal.
// InternalError if it is malformed: a variable without choices, an edge or a usage that does not fit its variables or rows, a
// negative cost or size.
Solution solve(const Problem& problem, const SolveOptions& options = {});

// The cost of a choice: kForbidden if it contains a forbidden combination or breaks a row.
Cost price(const Problem& problem, const std::vector<int>& choice);

}  // namespace braid::solver
