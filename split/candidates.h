// Plans that are worth compiling: the search over a model's states finds them under several assumptions about
// how much communication will be hidden, and describes each plan for reports. Free of ONNX, for the driver
// (driver/split.h).
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "split/ids.h"
#include "split/plan_bounds.h"
#include "split/product_join.h"

namespace braid::split {

struct Annotations;
struct Graph;
struct Mesh;
struct SharedTensors;

struct PlanConversion {
  std::string value, from, to, steps;
  std::vector<std::string> readers;  // "": the program's output
  analysis::Time cost;
  // The predicted extra time of the cheapest plan in which its readers take it otherwise
  // (price_alternatives). Absent: not computed; `unpriced` says why not, if it was asked for.
  std::optional<analysis::Time> otherwise = std::nullopt;
  std::string unpriced = {};
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
  bool ruled = false;      // a rule could split it
  std::int64_t bytes = 0;  // of weights and results, on every rank
};

struct FoundPlan {
  std::string name;                       // how it was found
  std::string text;                       // the plan
  analysis::Time predicted;               // costs of nodes and conversions, one after another
  std::vector<analysis::Time> at_points;  // the time of a step at each set of sizes, if there are several
  analysis::Time bound;                   // no plan is predicted to take less
  bool proved = false;                    // predicted == bound
  bool joint = true;                      // searched over all axes of the mesh at once
  Assignment choice;                      // in the search's problem
  analysis::Time floor;                   // a lower bound on its step in every order (BoundSearch::of_plan)
  // The bytes of a rank in the rows of memory (memory_rows.h); 0: no limit could bind.
  std::int64_t counted_bytes = 0;
  std::vector<PlanLayer> layers;
  std::vector<PlanConversion> conversions;
  std::vector<PlanReplicated> replicated;
  // For a plan that was found with those of other programs (together.h): their plans. Then `predicted` and
  // the bounds are sums over all programs. `own` is the time of this program, and `alone` that of the
  // cheapest plan it would have without the others, if there are others.
  std::vector<FoundPlan> with;
  analysis::Time own, alone;

  bool splits_nothing() const;
};

// The factors by which a speed must change, within 1 %, for another plan to be the cheapest on these ranks.
// At the factor it is another one; a hundredth nearer to 1 it is not. 0: none up to 64, or up to where costs
// can be added up (BR0480).
struct PlanFlips {
  double link_slower = 0, link_faster = 0;  // times as long as now for collectives; a fraction of their time
  double memory_slower = 0, memory_faster = 0;  // a fraction of the memory's bandwidth; a multiple of it
};

struct FoundPlans {
  std::vector<FoundPlan> plans;  // distinct, the cheapest first
  analysis::Time loads, order;   // bounds of all plans (bound_search.h)
  PlanFlips flips;               // of the cheapest plan, if SearchOptions::explain
  std::int64_t least_bytes = 0;  // no plan needs less (memory_rows.h), if no plan keeps the limit; else 0
  // The bytes that some plan needs, equal to least_bytes if these are proved to be the least; 0: none was
  // found.
  std::int64_t reached_bytes = 0;
  std::string largest;  // tensors that take them
  // Choices with which searches for plans within other limits can begin.
  std::vector<Assignment> priced;
  std::string obstacle;  // why so many ranks cannot split the model (obstacles.h); empty if they can
};

// Another set of sizes at which a step is priced, with the cost model that counts with them, and the number
// of such steps.
struct PricePoint {
  std::shared_ptr<const analysis::CostModel> costs;
  std::int64_t steps = 1;
  std::map<std::string, double> attention_flops = {};  // as in BoundOptions
};

struct SearchOptions {
  bool obey = false;  // products with weights are split wherever a rule allows it
  // No other assumptions about communication, and no facts about plans that do not fit.
  bool cheapest_only = false;
  bool caches = false;                                 // caches may stay in parts (caches.h)
  std::map<std::string, double> attention_flops = {};  // as in BoundOptions
  std::vector<ProductJoin> joins = {};
  double largest_fused_copy = std::numeric_limits<double>::infinity();  // as in BoundOptions
  bool aliases = false;                // some outputs are the memory of inputs (BoundOptions)
  std::optional<ir::DType> precision;  // the type in which products may compute (BoundOptions)
  // The plan is chosen for `steps` steps at the sizes with which the costs count, and for the steps of these
  // points, together: a program has one plan, whatever its dimensions are. Times of plans and bounds are then
  // sums over all steps.
  std::int64_t steps = 1;
  std::vector<PricePoint> points = {};
  // The bytes that a rank has for weights, inputs, outputs and computed tensors.
  std::optional<std::int64_t> memory;
  bool bounds = true;    // whether to bound all plans; else bounds are 0
  KnownBounds known;     // from other meshes
  bool explain = false;  // whether to find flips, which takes more searches
  // FoundPlans::priced of a search on the same mesh with another limit of memory; empty: computed if needed.
  std::vector<Assignment> priced = {};
  std::string keep, keep_file;  // text of a partial plan whose lines are fixed, and its file for messages
  // The model's own lines, which are obeyed (fixed_lines.h); null: none.
  std::shared_ptr<const Annotations> annotated = nullptr;
};
// One of the programs that are planned together.
struct PlannedProgram {
  const Graph* graph = nullptr;
  std::shared_ptr<const analysis::CostModel> costs;
  // `steps` is its weight, as is that of each of `points`. With several programs, annotations and
  // explanations are ignored.
  SearchOptions options;
};
// Finds plans of these programs on each of these meshes; one program is the plain case, and shares nothing.
// The plans are those of the first program; FoundPlan::with has those of the others (together.h). Finds none
// on a mesh with too many choices for a search of all axes at once if there are several points or programs.
// Meshes are searched on several threads. Unless bounds are known, the mesh with the most ranks comes first,
// and the bounds of the others need not exceed its bounds. UserErrors: BR0487 with `obey` if nothing can be
// split; BR0482 for lines that are kept.
std::vector<FoundPlans> find_plans(std::span<const PlannedProgram> programs, const SharedTensors& shared,
                                   const std::vector<Mesh>& meshes);
std::vector<FoundPlans> find_plans(const Graph& graph, const std::vector<Mesh>& meshes,
                                   const std::shared_ptr<const analysis::CostModel>& costs,
                                   const SearchOptions& options);
// Prices what the readers of each conversion of a plan could take instead, with a search for each. find_plans
// must have found the plan with these options.
void price_alternatives(const Graph& graph, const Mesh& mesh,
                        const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options,
                        FoundPlan& plan);
// Returns a time that no program on that many ranks can beat, whatever its mesh and plan (bound_search.h).
analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const SearchOptions& options);
// Returns the fewest ranks along one axis, more than `above`, for which it is not proved that all plans take
// more than `memory` bytes; 0: none up to kMostRanksWithin.
inline constexpr int kMostRanksWithin = 64;
int next_ranks_within(const Graph& graph, int above, std::int64_t memory,
                      const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options);
// Returns the mesh of a plan. Throws the UserErrors of parse_mesh_plan.
Mesh mesh_of_plan(const std::string& text, const std::string& file);

}  // namespace braid::split
