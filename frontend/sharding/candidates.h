// Plans that are worth compiling: what the search over a model's states finds under several assumptions about how much of its
// communication will be hidden, with what people want to know about each. Free of ONNX, for the driver (driver/split.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"

namespace braid::frontend::sharding {

struct DeviceConfiguration;
struct SplitRequest;

struct PlanConversion {
  std::string value, from, to, steps;
  std::vector<std::string> readers;  // "": the program's output
  analysis::Time cost;
};
// Nodes whose names have the same beginning up to and with their first number.
struct PlanLayer {
  std::string name;
  int nodes = 0, split = 0, collectives = 0;
  analysis::Time compute, communication;
};
struct PlanReplicated {
  std::string op, reason;
  int nodes = 0;
};

struct FoundPlan {
  std::string name;          // how it was found
  std::string text;          // the plan
  analysis::Time predicted;  // costs of nodes and conversions, one after another
  analysis::Time bound;      // no plan is predicted less
  bool proved = false;       // predicted == bound
  bool joint = true;         // over all axes of the mesh at once, or one axis after another
  std::vector<PlanLayer> layers;
  std::vector<PlanConversion> conversions;
  std::vector<PlanReplicated> replicated;

  bool splits_nothing() const;
};

struct FoundPlans {
  std::vector<FoundPlan> plans;  // distinct ones, the cheapest first
  analysis::Time lower_bound;    // bound_over_plans, of a mesh of one axis; 0 for others
};

struct SearchOptions {
  bool obey = false;    // products with weights are split wherever a rule allows it
  bool caches = false;  // caches may stay in parts (caches.h)
  std::string mesh;     // "dp=2, tp=4"; empty: one axis of all ranks
  // Whose annotations are obeyed, on one axis (annotations.h); null: none.
  std::shared_ptr<const DeviceConfiguration> annotated = nullptr;
};
// A request for the import of a model (ImportOptions::split) that searches for plans on its number of ranks, adds them to
// `found`, which must outlive it, and applies the first.
std::shared_ptr<const SplitRequest> search_request(std::shared_ptr<const analysis::CostModel> costs,
                                                   const SearchOptions& options, FoundPlans& found);
// One that applies the plan of this text. `file` is for messages; may be empty.
std::shared_ptr<const SplitRequest> plan_request(const std::string& text, const std::string& file);
// UserErrors of parse_mesh.
int ranks_of_mesh(const std::string& mesh);
// All meshes with that many axes, each of at least 2, as texts.
std::vector<std::string> meshes_of_several_axes(int ranks, int axes);
// UserError of parse_mesh_plan.
int ranks_of_plan(const std::string& text, const std::string& file);

}  // namespace braid::frontend::sharding
