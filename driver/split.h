// Splitting a plain model over devices: candidates of the search are compiled through all passes and simulated with overlap,
// and the one with the shortest step is taken.
#pragma once

#include <string>
#include <vector>

#include "analysis/costs/time.h"
#include "driver/compile.h"
#include "frontend/emit_onnx.h"
#include "frontend/sharding/candidates.h"

namespace braid {

// One candidate.
struct SplitCandidate {
  int ranks = 1;
  std::string name;          // how it was found: "not split", "cheapest", ...
  std::string plan;          // its text; empty: not split
  analysis::Time predicted;  // by the search: costs of nodes and conversions, one after another
  analysis::Time bound;      // of the search: no plan of the space is predicted less
  bool proved = false;       // predicted == bound
  analysis::Time simulated;  // the step, after all passes
  std::string refused;       // why it could not be compiled; empty if it could
};

// What the choice was made from, for people (to_string) and tests.
struct SplitReport {
  std::vector<SplitCandidate> candidates;
  int chosen = -1;
  analysis::Time
      lower_bound;  // of every plan and every order (bound_over_plans), over the numbers of ranks that were allowed
  frontend::sharding::FoundPlan plan;  // the chosen one; its text is empty if the model is not split

  // The chosen plan; of a model that is not split, one that says so.
  std::string plan_text() const;
  double gap() const;  // simulated / lower_bound - 1; 0 if there is no bound
};

// Lowers the model as options.split asks: with the plan given, on exactly the ranks given, or on as many of the devices as make
// the step shortest. UserErrors of the import; BR0484 if the options contradict each other or the plan.
ir::Schedule lower_split(const CompileOptions& options, SplitReport& report);

// The model that was lowered with that report, as files of its ranks (frontend/emit_onnx.h): with the plan that was chosen, or as
// it is.
void emit_onnx(const CompileOptions& options, const SplitReport& report,
               const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write);

// The plain model with that plan as ONNX's annotations. UserError BR0492 if they cannot express it.
void emit_annotated(const CompileOptions& options, const SplitReport& report,
                    const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write);

// UserError BR0484 if a rank's program takes or returns a part of what the plain one does.
void require_whole(const ir::Schedule& split, const ir::Schedule& plain, const std::string& model);

std::string to_string(const SplitReport& report);

}  // namespace braid
