// The data from which a split was chosen (driver/split.h), for people and tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/costs/time.h"
#include "driver/compile_options.h"
#include "split/candidates.h"
#include "split/stages.h"

namespace braid {

// Another program that was split together with the one that is compiled (SplitOptions::with).
struct SplitProgram {
  std::string model;
  StepSizes sizes;
  analysis::Time step;     // simulated
  std::int64_t bytes = 0;  // of a rank
};

// One candidate.
struct SplitCandidate {
  int ranks = 1;
  std::string name;                      // how it was found: "not split", "cheapest", ...
  std::string plan;                      // its text; empty: not split
  analysis::Time predicted;              // by the search: costs of nodes and conversions, one after another
  analysis::Time bound;                  // of the search: no plan of the space is predicted less
  bool proved = false;                   // predicted == bound
  analysis::Time floor;                  // its step is at least so long, in every order; 0 if unknown
  analysis::Time simulated;              // the step, after all passes; of several sizes: all their steps
  std::vector<analysis::Time> at_sizes;  // a step at each of SplitOptions::sizes, if there are several
  std::vector<SplitProgram> with;        // of SplitOptions::with; `simulated` counts their steps too
  std::int64_t bytes = 0;                // weights, inputs, outputs and planned memory of a rank
  std::string refused;                   // why it could not be compiled, or does not fit; empty if it could
  bool skipped = false;  // not compiled or not scheduled, because another one is shorter than its floor

  bool ran() const { return refused.empty() && !skipped; }
};

// A number of ranks that was tried.
struct SplitMesh {
  int ranks = 1;
  analysis::Time loads, order;  // no plan is faster (split/bound_search.h); 0 if unknown
  std::string excluded;         // why it has no candidates; empty if it has
  split::PlanFlips flips;  // of its cheapest plan, if SplitOptions::explain and the model is split on so many
};

// The data from which a split was chosen, for people (to_string) and tests.
struct SplitReport {
  std::string model;
  std::vector<SplitCandidate> candidates;
  int chosen = -1;
  std::vector<SplitMesh> meshes;
  bool several_axes = false;  // whether meshes of several axes were searched
  // Lower bounds on the step over every plan on the meshes that were searched. load_bound follows from the
  // loads alone. order_bound holds in every order of a program whose collectives are whole. 0: no bound.
  analysis::Time load_bound, order_bound;
  // With SplitOptions::explain and `devices`: pipelines of all numbers of stages that divide these. Not
  // generated.
  std::vector<split::FoundStages> stages;
  std::vector<StepSizes> sizes;   // for which it was chosen (SplitOptions::sizes)
  int shared_weights = 0;         // with SplitOptions::with: weights that all programs have in one layout
  std::int64_t shared_bytes = 0;  // of these, of a whole model
  split::FoundPlan plan;          // the chosen one; its text is empty if the model is not split

  const SplitCandidate* chosen_one() const;  // null: none
  // The chosen plan; of a model that is not split, one that says so.
  std::string plan_text() const;
  analysis::Time lower_bound() const { return std::max(load_bound, order_bound); }
  int runner_up() const;  // the shortest candidate but the chosen one, of those that were simulated; -1: none
  // The shortest simulated one on so many ranks; Time::max(): none.
  analysis::Time fastest(int ranks) const;
  // Returns the step time beyond which another candidate on so many ranks changes nothing: neither the choice
  // nor the runner-up. With `more_axes` it also does not change whether meshes of more axes are tried. They
  // are tried if a candidate is faster than all before. nullopt: any candidate changes something.
  std::optional<analysis::Time> useful(int ranks, bool more_axes) const;
  // The simulated times are those of a sum of steps.
  bool several_sizes() const {
    return sizes.size() > 1 || (!sizes.empty() && sizes[0].steps > 1) || shared_weights > 0;
  }
  double gap() const;  // simulated / lower_bound() - 1; 0 if there is no bound
  double load_gap() const;
};

// The cost of the chosen plan for one of the programs that were split together.
struct SplitShare {
  std::string model;
  std::vector<StepSizes> sizes;
  std::vector<analysis::Time> steps;  // simulated, at each of the sizes
  // Predicted by the search for all steps: in this plan, and in the cheapest plan on the same mesh that the
  // program would have alone; 0 if unknown.
  analysis::Time own, alone;
  double excess() const;  // own / alone - 1
};
// Returns the shares of the program that is compiled and of SplitOptions::with; empty without `with`, or if
// nothing was chosen.
std::vector<SplitShare> shares(const SplitReport& report);

// "sequence=1, past=512, 100 steps"
std::string to_string(const StepSizes& sizes);
std::string to_string(const SplitReport& report);

// "1 rank", "2 ranks".
std::string count_of_ranks(int ranks);

}  // namespace braid
