// The ids of a problem's tables, and of those of a network while it is solved.
#pragma once

#include "ir/id_vector.h"

namespace braid::solver {

using ir::count_of;
using ir::first_ids;
using ir::IdRange;
using ir::IdVector;

using VariableId = ir::Id<struct VariableTag>;  // Problem::variables, Network::nodes
using ChoiceId = ir::Id<struct ChoiceTag>;      // of a variable: an entry of its costs in the problem
using EdgeId = ir::Id<struct EdgeTag>;          // Problem::edges
using RowId = ir::Id<struct RowTag>;            // Problem::limits
using PairId = ir::Id<struct PairTag>;          // Network::pairs
using UseId = ir::Id<struct UseTag>;            // Network::uses

// The choice of each variable; an invalid id: none yet.
using Assignment = IdVector<VariableId, ChoiceId>;

}  // namespace braid::solver
