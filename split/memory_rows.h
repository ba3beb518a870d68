// Memory limits in the search: the bytes that each rank holds while each kernel runs, as rows of the problem.
//
// A row is a node that becomes a kernel, in the order of the model. It holds weights, the program's inputs
// and outputs, and the tensors that are computed before and read then or later. A node that is fused into its
// readers takes no memory. A converted tensor counts in the state in which it is produced. A constant that
// several nodes read counts once in each state in which one does. So rows count less than a program needs:
// the memory plan of the compiled candidate decides (driver/split.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "split/split_space.h"

namespace braid::split {

// Bytes of plans in their fullest rows.
struct LeastMemory {
  std::int64_t bytes = 0;    // no plan takes less
  std::int64_t reached = 0;  // the bytes that one plan takes
  Assignment choice;         // that plan; empty if none was found

  bool proved() const { return bytes >= reached; }
};

class MemoryRows {
 public:
  // `graph` and `space` must outlive this. `size` is the size that an expression counts with.
  MemoryRows(const Graph& graph, const SplitSpace& space, std::function<std::int64_t(const ir::Expr&)> size);

  // Forbids choices of the problem, which must be one of the space, that take more bytes on a rank. Adds rows
  // to those that it has, and variables after those of the space.
  void limit(Problem& problem, std::int64_t bytes) const;
  // Returns the bytes of the fullest row with the smallest states: no plan takes less.
  std::int64_t of_smallest() const;
  // Returns the bytes of the fullest row of a choice.
  std::int64_t of_plan(const Assignment& choice) const;
  // Computes the least that any plan takes in its fullest row, by several solves with one budget. `problem`
  // is one of the space without limits. With `limit`, stops when it is known whether a plan takes at most so
  // much. If the tensors have more than 2^50 bytes in all, returns the bytes of the smallest states, without
  // a plan.
  LeastMemory least(const Problem& problem, const SolveOptions& options = {},
                    std::optional<std::int64_t> limit = std::nullopt) const;
  // Returns the cheapest choices where memory has a price, from a low price to a high one. They are cheap
  // choices for limits about which nothing else is known.
  std::vector<Assignment> at_prices(const Problem& problem, const SolveOptions& options = {}) const;
  // Returns the largest tensors of the fullest row of that plan: "'up' S(1): 3.0 MiB".
  std::vector<std::string> largest(const Assignment& choice, std::size_t count) const;

 private:
  using ItemId = ir::Id<struct ItemTag>;
  struct Item {
    ValueId value;
    VariableId variable;                     // that decides its state; invalid: it is in one state
    IdVector<ChoiceId, std::int64_t> bytes;  // one entry without a variable
    IdVector<ChoiceId, MeshSpec> states;
    RowRange rows;
    // For a weight that several nodes read, in one of its states: variables, and their choices that take that
    // state. It takes memory if one of these is chosen.
    std::map<VariableId, std::vector<ChoiceId>> takers;
  };
  // A problem whose cost is the bytes of a plan in some rows together, each row as often as it is given.
  struct Weighted {
    // Forbids the same as the other problem. Its cost and `fixed` add up to `scale` times the bytes, and less
    // than `scale` more.
    Problem problem;
    Cost fixed = 0;  // the part that no choice changes
    Cost scale = 1;
  };
  Weighted weighted(const Problem& problem, const std::vector<RowId>& rows) const;
  // Adds the cost of each item's bytes to the variable that decides its state. Returns the cost of items that
  // nothing decides.
  Cost add_costs(Problem& problem, const std::function<Cost(ItemId item, std::int64_t bytes)>& cost) const;
  // Returns how many of these rows have each item.
  IdVector<ItemId, std::int64_t> counts_in(const std::vector<RowId>& rows) const;
  // Adds a variable for a weight that several nodes read, in one state: whether it is there, as it must be if
  // a node takes it.
  static VariableId add_presence(Problem& problem, const Item& item);
  // `index`: of the output or input of the variable's node in whose state the value is.
  void add(ValueId value, VariableId variable, bool output, int index, const RowRange& rows);
  struct Lives;
  Lives find_lives();
  // Adds a weight. `readers`: the variables and inputs of the nodes that read it.
  void add_weight(ValueId value, const std::vector<std::pair<VariableId, int>>& readers);
  std::int64_t bytes_in(ValueId value, const MeshSpec& state) const;
  // The choice of the plan that decides the state of the item.
  static ChoiceId choice_for(const Item& item, const Assignment& choice);
  std::int64_t bytes_of(const Item& item, const Assignment& choice) const;
  RowId fullest(const Assignment& choice) const;
  // With the smallest states.
  IdVector<RowId, std::int64_t> smallest() const;

  const Graph& graph_;
  const SplitSpace& space_;
  std::function<std::int64_t(const ir::Expr&)> size_;
  IdVector<ItemId, Item> items_;
  IdRange<RowId> rows_ = first_ids<RowId>(0);
};

// Computes the least memory in a space that is too large to be solved as a whole. Chooses on one axis after
// another, each with the least memory for the given states on the others, until a plan takes at most `limit`
// or none takes less. Starts from the least plan that cuts the same on all axes, from whole tensors, and from
// the choice `from` unless that is empty. LeastMemory::bytes is that of the smallest states. `costs` are
// those of the space's problems.
LeastMemory least_in_turn(const Graph& graph, const SplitSpace& space, const SplitCosts& costs,
                          std::int64_t limit, const Assignment& from, const SolveOptions& options);

}  // namespace braid::split
