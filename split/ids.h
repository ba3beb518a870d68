// The ids of a graph and of the plans that are searched for it.
//
// Ranks, mesh axes, dimensions, and places among a node's inputs or outputs are calculated with or written as
// numbers in rules, so they are plain ints.
#pragma once

#include "solver/ids.h"

namespace braid::split {

using ir::count_of;
using ir::first_ids;
using ir::IdLists;
using ir::IdRange;
using ir::IdVector;
using solver::Assignment;
using solver::ChoiceId;
using solver::RowId;
using solver::VariableId;

using ValueId = ir::Id<struct ValueTag>;          // Graph::values
using NodeId = ir::Id<struct NodeTag>;            // Graph::nodes
using ValueKindId = ir::Id<struct ValueKindTag>;  // GraphValue::kind
using NodeKindId = ir::Id<struct NodeKindTag>;    // GraphNode::kind
using LetterId = ir::Id<struct LetterTag>;        // Factors::letters
using StateId = ir::Id<struct StateTag>;          // states of the tensors of a space
inline constexpr StateId kReplicated{0};          // on all axes

}  // namespace braid::split
