// A choice of a space (split_space.h), and the plan that it is.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "split/plan.h"
#include "split/split_costs.h"

namespace braid::split {

struct ChosenNode {
  NodeId node;
  std::vector<const Strategy*> axes;
  Cost cost = 0;
  std::shared_ptr<const std::deque<Strategy>> strategies;  // the space's, which own those of `axes`

  bool is_split() const;  // whether it computes a part on some axis
};
struct ChosenConversion {
  ValueId value;
  MeshSpec from, to;
  std::vector<ConversionStep> steps;
  Cost cost = 0;
  std::vector<std::string> readers;  // by their names in plans; "": the program's output
};
// A choice of a space, without its plan.
struct SpaceSolution {
  Solution solution;
  bool joint = true;  // over all axes at once
  // The sequence of cheapest choices that led to this solution. Plan cost is linear in the costs, so if two
  // searches took the same sequence, any search whose costs lie between theirs takes it too. Empty: some
  // choice was not proved to be the cheapest.
  std::vector<Assignment> way;
};

struct SplitChoice : SpaceSolution {
  MeshPlan plan;
  std::vector<ChosenNode> nodes;
  std::vector<ChosenConversion> conversions;

  // Returns the cost of these nodes and conversions, perhaps with other costs than those of the search.
  Cost price(const Graph& graph, const SplitCosts& costs) const;
};

}  // namespace braid::split
