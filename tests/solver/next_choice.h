// All choices of a small problem, one after another.
#pragma once

#include "solver/problem.h"

namespace braid::solver {

inline Assignment first_choice(const Problem& problem) {
  return Assignment(problem.variables.ids(), ChoiceId{0});
}
// Goes on to the next of all choices; false after the last.
inline bool next_choice(const Problem& problem, Assignment& choice) {
  for (const VariableId v : choice.ids()) {
    if (ir::offset_of(++choice[v]) < problem.variables[v].size()) return true;
    choice[v] = {0};
  }
  return false;
}

}  // namespace braid::solver
