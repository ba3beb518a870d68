// The conversions of a space (split_space.h).
#pragma once

#include <span>
#include <vector>

#include "split/ids.h"

namespace braid::split {

// The state of a tensor with each choice of a variable.
using States = const IdVector<ChoiceId, StateId>*;

using PassageId = ir::Id<struct PassageTag>;

// The conversion that one reader of a tensor waits for: from the produced state to the state that the reader
// takes. One or two variables decide both.
struct Passage {
  VariableId producer;  // of a node; invalid: the program is given the tensor
  VariableId reader;    // of a node; invalid: the program returns it
  ValueId value;
  VariableId from;
  VariableId to;       // invalid: `from` decides it alone
  bool given = false;  // then `from` is the reader
  bool free = false;   // its conversion is not in the relaxed problem
  // The state of each choice of `from`; a single state if the program is given the tensor. The space owns
  // both lists.
  States produced = nullptr;
  // The state of each choice of `to`, or of `from` for a given tensor; a single state if the program returns
  // the tensor.
  States taken = nullptr;
};

// Returns the states, other than `from`, each of which is the only one that some reader takes. The tensor is
// converted into all of them, whatever is chosen. `taken`: per reader, the state that it takes with each of
// its choices.
std::vector<StateId> required_states(std::span<const States> taken, StateId from);

}  // namespace braid::split
