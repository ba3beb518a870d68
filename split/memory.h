// Memory limits in the search: what each rank holds while each kernel runs, as rows of the problem.
//
// A row is a node that becomes a kernel, in the order of the model: weights, the program's inputs and outputs, and the tensors
// that are computed before and read then or later. What is fused into its readers takes no memory; what is converted counts in
// the state in which it is produced. A constant that several nodes read counts once in each state in which one does. So rows are less than
// what a program needs: the memory plan of the compiled candidate decides (driver/split.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "split/space.h"

namespace braid::split {

// Bytes that plans take in their fullest rows.
struct LeastMemory {
  std::int64_t bytes = 0;    // no plan takes less
  std::int64_t reached = 0;  // what one takes
  std::vector<int> choice;   // that one; empty if none was found

  bool proved() const { return bytes >= reached; }
};

class MemoryRows {
 public:
  // `graph` and `space` must outlive this. `size` is the size that an expression counts with.
  MemoryRows(const Graph& graph, const SplitSpace& space, std::function<std::int64_t(const ir::Expr&)> size);

  // No choice of the problem, which must be one of the space, may take more bytes on a rank. Adds rows to those that it has, and
  // variables behind those of the space.
  void limit(Problem& problem, std::int64_t bytes) const;
  // The bytes of the fullest row of the smallest states: no plan takes less.
  std::int64_t of_smallest() const;
  // The bytes of the fullest row.
  std::int64_t of_plan(const std::vector<int>& choice) const;
  // The least that any plan takes in its fullest row, by solving with one budget for all of it. `problem` is one of the space without
  // limits. With `limit` no more is found out than whether a plan takes at most so much. Of more than
  // a petabyte in all it is what the smallest states take, without a plan.
  LeastMemory least(const Problem& problem, const SolveOptions& options = {},
                    std::optional<std::int64_t> limit = std::nullopt) const;
  // The cheapest choices where memory has a price, from a low one to a high one: cheap ones for limits of which nothing else is known.
  std::vector<std::vector<int>> at_prices(const Problem& problem, const SolveOptions& options = {}) const;
  // The largest tensors of the fullest row of that plan: "'up' S(1): 3.0 MiB".
  std::vector<std::string> largest(const std::vector<int>& choice, std::size_t count) const;

 private:
  struct Item {
    int value = -1;
    int variable = -1;                // that decides its state; -1: none, it is in one state
    std::vector<std::int64_t> bytes;  // per choice; one entry without a variable
    std::vector<MeshSpec> states;
    int begin = 0, end = 0;  // rows
    // Of a weight that several nodes read, in one of the states: variables, and their choices that take it so. It is there if one does.
    std::map<int, std::vector<int>> takers;
  };
  // What is asked of plans is what they take in these rows together, each as often as it is given.
  struct Weighted {
    Problem
        problem;  // forbids what the other one does; cost and `fixed` are `scale` times the bytes, and less than `scale` more
    Cost fixed = 0;  // what no choice changes
    Cost scale = 1;
  };
  Weighted weighted(const Problem& problem, const std::vector<int>& rows) const;
  // Adds what the bytes of an item cost to the costs of what decides its state. Returns the cost of what nothing decides.
  Cost add_costs(Problem& problem,
                 const std::function<Cost(const Item& item, std::int64_t bytes)>& cost) const;
  // By item: how often these rows have it.
  std::vector<std::int64_t> counts_in(const std::vector<int>& rows) const;
  // A variable of its own for a weight that several nodes read: whether it is there, as it is where somebody takes it.
  static int add_presence(Problem& problem, const Item& item);
  void add(int value, int variable, bool output, int index, int begin, int end);
  // A weight and the inputs of the nodes' variables that read it.
  void add_weight(int value, const std::vector<std::pair<int, int>>& readers);
  std::int64_t bytes_in(int value, const MeshSpec& state) const;
  std::int64_t bytes_of(const Item& item, const std::vector<int>& choice) const;
  int fullest(const std::vector<int>& choice) const;
  // By row, in the smallest states.
  std::vector<std::int64_t> smallest() const;

  const Graph& graph_;
  const SplitSpace& space_;
  std::function<std::int64_t(const ir::Expr&)> size_;
  std::vector<Item> items_;
  int rows_ = 0;
};

// Of a space that is too large to be solved as a whole: the choice of one axis after another, each with the least that it can take with
// those of the others given, until a plan takes at most `limit` or none takes less, beginning with the least that cuts the same on all axes, with
// everything whole and with the choice `from`, which may be empty. `bytes` is what the smallest states take. Costs are those with which the
// space's problems are made.
LeastMemory least_in_turn(const Graph& graph, const SplitSpace& space, const SplitCosts& costs,
                          std::int64_t limit, const std::vector<int>& from, const SolveOptions& options);

}  // namespace braid::split
