// Lines of a partial plan as constraints of the search: what they say is fixed, the rest is chosen.
#pragma once

#include <string>
#include <vector>

#include "split/split_space.h"

namespace braid::split {

class KeptLines {
 public:
  // Throws UserError BR0482 with line and tensor for an unknown value or reader, or a state that no
  // combination of its node has. `graph` and `space` must outlive this.
  KeptLines(const Graph& graph, const SplitSpace& space, const MeshPlan& plan, std::string file);

  // Forbids all choices that contradict a line. `problem` is one of the space.
  void restrict(Problem& problem) const;
  // Throws UserError BR0482 if no plan keeps all lines; it names the first line that contradicts those before
  // it.
  void require_possible(const Problem& problem, const SolveOptions& options = {}) const;

 private:
  struct Line {
    int number = 0;
    std::string text;     // "'h' = S(1)"
    VariableId variable;  // invalid: the line holds in every plan
    IdVector<ChoiceId, char> possible;
  };
  class Reading;
  void forbid(Problem& problem, const Line& line) const;

  std::string file_;
  std::vector<Line> lines_;  // by number
};

}  // namespace braid::split
