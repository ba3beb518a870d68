// Plans that are worth compiling: what the search over a model's states finds under several assumptions about how much of its
// communication will be hidden, with what people want to know about each. Free of ONNX, for the driver (driver/split.h).
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "split/plan_bounds.h"
#include "split/product_join.h"

namespace braid::split {

struct Annotations;
struct Graph;
struct Mesh;

struct PlanConversion {
  std::string value, from, to, steps;
  std::vector<std::string> readers;  // "": the program's output
  analysis::Time cost;
  // What the cheapest plan is predicted more in which its readers take it otherwise (price_alternatives); absent: not computed, and
  // why not, if it was asked.
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
  std::vector<analysis::Time> at_points;  // of a step at each set of sizes, if there are several
  analysis::Time bound;                   // no plan is predicted less
  bool proved = false;                    // predicted == bound
  bool joint = true;                      // searched over all axes of the mesh at once
  std::vector<int> choice;                // of the search's problem
  analysis::Time floor;  // its step is at least so long, in every order (BoundSearch::of_plan)
  std::int64_t counted_bytes =
      0;  // of a rank in the rows of memory (memory.h); 0: there was no limit that could bind
  std::vector<PlanLayer> layers;
  std::vector<PlanConversion> conversions;
  std::vector<PlanReplicated> replicated;
  // Of a plan that was found with those of other programs (together.h): theirs. `predicted` and the bounds are then sums over all of
  // them; of this program, and of the cheapest plan that it would have alone, `own` and `alone` are.
  std::vector<FoundPlan> with;
  analysis::Time own, alone;

  bool splits_nothing() const;
};

// By what factor a speed must change for another plan to be the cheapest on these ranks, to within 1 %: there it is another one,
// a hundredth nearer to 1 it is not. 0: none up to 64, or up to where costs can be added up (BR0480).
struct PlanFlips {
  double link_slower = 0, link_faster = 0;      // collectives take so many times as long; a part of the time
  double memory_slower = 0, memory_faster = 0;  // a part of the memory's bandwidth; so many times as much
};

struct FoundPlans {
  std::vector<FoundPlan> plans;  // distinct ones, the cheapest first
  analysis::Time loads, order;   // bounds of all plans (bounds.h)
  PlanFlips flips;               // of the cheapest plan, if it is to be explained
  std::int64_t least_bytes = 0;  // no plan needs less (memory.h), if the limit leaves none; else 0
  std::int64_t reached_bytes =
      0;                // what one of them needs, equal if that is proved to be the least; 0: none was found
  std::string largest;  // tensors behind it
  std::vector<std::vector<int>>
      priced;            // choices with which searches for plans within other limits can begin
  std::string obstacle;  // why so many ranks cannot split the model (obstacles.h); empty if they can
};

// Sizes at which a step is priced too, by the model that counts with them: so many steps of these sizes.
struct PricePoint {
  std::shared_ptr<const analysis::CostModel> costs;
  std::int64_t steps = 1;
  std::map<std::string, double> attention_flops = {};  // as in BoundOptions
};

struct SearchOptions {
  bool obey = false;  // products with weights are split wherever a rule allows it
  // No other assumptions about communication, and nothing about plans that do not fit.
  bool cheapest_only = false;
  bool caches = false;                                 // caches may stay in parts (caches.h)
  std::map<std::string, double> attention_flops = {};  // as in BoundOptions
  std::vector<ProductJoin> joins = {};
  double largest_fused_copy = std::numeric_limits<double>::infinity();  // as in BoundOptions
  bool aliases = false;                // some outputs are the memory of inputs (BoundOptions)
  std::optional<ir::DType> precision;  // the type in which products may compute (BoundOptions)
  // The plan is chosen for `steps` steps of the sizes with which the costs count, and those of these points, together: a program has
  // one plan, whatever its dimensions are. Times of plans and bounds are then sums over all of them.
  std::int64_t steps = 1;
  std::vector<PricePoint> points = {};
  std::optional<std::int64_t>
      memory;            // bytes that a rank has for weights, inputs, outputs and what is computed
  bool bounds = true;    // how short plans can be; else 0
  KnownBounds known;     // of other meshes
  bool explain = false;  // flips, which take more searches
  // FoundPlans::priced of a search on the same mesh with another limit of memory; empty: they are sought if they are needed.
  std::vector<std::vector<int>> priced = {};
  std::string keep, keep_file;  // text of a partial plan whose lines are fixed, and its file for messages
  // The model's own lines, which are obeyed (fixed_lines.h); null: none.
  std::shared_ptr<const Annotations> annotated = nullptr;
};
// The plans of a graph on each of these meshes; on one with too many choices for a search of all axes at once none if there are several
// points. The meshes are searched on several threads; unless bounds are known, that with the most ranks first, whose bounds those of the
// others need not exceed. UserErrors: BR0487 if it is obeyed and nothing can be split; BR0482 for lines that are kept.
std::vector<FoundPlans> find_plans(const Graph& graph, const std::vector<Mesh>& meshes,
                                   const std::shared_ptr<const analysis::CostModel>& costs,
                                   const SearchOptions& options);
// Prices what the readers of each conversion of a plan could take instead, with a search for each. The plan is one that find_plans found with
// these options.
void price_alternatives(const Graph& graph, const Mesh& mesh,
                        const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options,
                        FoundPlan& plan);
// No program on so many ranks takes less, whatever its mesh and its plan (bounds.h).
analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const SearchOptions& options);
// The fewest ranks along one axis, more than `above`, of which it is not proved that all plans take more than so many bytes; 0: none up to
// kMostRanksWithin.
inline constexpr int kMostRanksWithin = 64;
int next_ranks_within(const Graph& graph, int above, std::int64_t memory,
                      const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options);
// The mesh of a plan. UserError of parse_mesh_plan.
Mesh mesh_of_plan(const std::string& text, const std::string& file);

}  // namespace braid::split
