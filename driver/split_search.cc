#include "driver/split_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "analysis/measure.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"

namespace braid {

using split::FoundPlan;
using split::FoundPlans;
using split::SearchOptions;

void SplitSearch::use_plan() {
  const std::string& file = programs_.options().split.plan_file;
  FoundPlan plan;
  plan.name = "as given";
  plan.text = ir::read_text_file(file);
  const int ranks = split::mesh_of_plan(plan.text, file).ranks();
  LimitOutcome outcome;
  trials_.consider({ranks, std::move(plan), 0, std::nullopt}, outcome);
}

void SplitSearch::run() {
  const CompileOptions& options = programs_.options();
  const SplitOptions& split = options.split;
  programs_.prepare();
  std::optional<Mesh> only;
  if (!split.mesh.empty()) only = split::parse_mesh(split.mesh, options.option("mesh"));
  if (split.tensor_ranks > 0) only = Mesh::line(split.tensor_ranks);
  if (programs_.annotated() != nullptr) only = programs_.annotated()->mesh;
  const bool obey = split.tensor_ranks > 0 || !split.mesh.empty();
  if (!programs_.keep().empty()) {
    try_kept(only, obey);
  } else if (only) {
    try_mesh(*only, obey);
  } else {
    try_lines();
  }
  trials_.sort();
  if (!programs_.several()) return;
  report_.shared_weights = programs_.shared().count;
  report_.shared_bytes = programs_.shared().bytes;
}

void SplitSearch::try_kept(const std::optional<Mesh>& only, bool obey) {
  const SplitOptions& split = programs_.options().split;
  const Mesh kept = split::mesh_of_plan(programs_.keep(), split.keep_file);
  if (only ? !(kept == *only) : split.devices % kept.ranks() != 0)
    ir::user_error(
        errors::kSplitRequest, {.file = split.keep_file},
        fmt::format("the lines that are kept are for [{}], but {} are asked for", to_string(kept),
                    only ? to_string(*only) : fmt::format("{} devices", split.devices)),
        "give the ranks of the file, or a multiple of them as " + programs_.options().option("devices"));
  for (int ranks = 1; !only && ranks <= split.devices; ++ranks) {
    if (split.devices % ranks == 0 && ranks != kept.ranks())
      report_.meshes.push_back({ranks, {}, {}, "the lines that are kept are for other ranks", {}});
  }
  try_mesh(kept, obey);
}

// Plans of all numbers of ranks, the cheapest first, so that many of the others need not be compiled.
void SplitSearch::try_lines() {
  const int devices = programs_.options().split.devices;
  std::vector<Mesh> lines;
  for (int ranks = 1; ranks <= devices; ++ranks) {
    if (devices % ranks == 0) lines.push_back(Mesh::line(ranks));
  }
  try_meshes(lines, false);
  for (const Mesh& line : lines) on_several_axes(line.ranks());
}

// More axes are tried as long as the best with so many is faster than with one less.
void SplitSearch::on_several_axes(int ranks) {
  constexpr int kMostAxes = 3;
  if (split::meshes_of(ranks, 2).empty()) return;
  if (const SplitCandidate* best = report_.chosen_one()) {
    const analysis::Time least = programs_.least_time(ranks);
    if (programs_.options().cost_file.empty() && least > best->simulated) return;
  }
  for (int axes = 2; axes <= kMostAxes; ++axes) {
    const analysis::Time before = report_.fastest(ranks);
    try_meshes(split::meshes_of(ranks, axes), false);
    if (report_.fastest(ranks) >= before) return;
  }
}

// The mesh that is asked for. Not every product gains by every one of several axes.
void SplitSearch::try_mesh(const Mesh& mesh, bool obey) {
  try_meshes({mesh}, obey);
  if (!obey || mesh.size() == 1 || !trials_.best() || any_) return;
  again_ = true;
  try_meshes({mesh}, false);
}

void SplitSearch::try_meshes(const std::vector<Mesh>& meshes, bool obey) {
  std::vector<Round> rounds = try_within(meshes, obey, programs_.limit(), 0);
  if (trials_.best()) return;
  for (std::size_t k = 0; k < meshes.size() && !done(); ++k)
    if (rounds[k].outcome.missing > 0) try_smaller(meshes[k], obey, std::move(rounds[k]));
}

// If none of a mesh's plans fits after all, those of smaller limits are tried.
void SplitSearch::try_smaller(const Mesh& mesh, bool obey, Round last) {
  SmallerLimits limits(*programs_.limit());
  std::vector<split::Assignment> priced;
  constexpr int kRounds = 8;
  for (int number = 1; number < kRounds && !done(); ++number) {
    const std::optional<std::int64_t> limit = limits.next(last.outcome);
    if (!limit) return;
    if (!last.priced.empty()) priced = std::move(last.priced);
    last = std::move(try_within({mesh}, obey, limit, number, priced)[0]);
  }
}

std::vector<SplitSearch::Round> SplitSearch::try_within(const std::vector<Mesh>& meshes, bool obey,
                                                        std::optional<std::int64_t> limit, int number,
                                                        std::vector<split::Assignment> priced) {
  SearchOptions options = programs_.search_options(obey);
  options.memory = limit;
  options.known = known_;
  options.cheapest_only = number > 0;
  options.priced = std::move(priced);
  std::vector<FoundPlans> plans = programs_.find_plans(meshes, options);
  hold_to(meshes, plans);
  std::vector<Round> rounds(meshes.size());
  std::vector<FoundSplit> found;
  for (std::size_t k = 0; k < meshes.size(); ++k) {
    rounds[k].outcome.reached = plans[k].reached_bytes;
    if (!plans[k].plans.empty()) {
      const FoundPlan& cheapest = plans[k].plans.front();
      rounds[k].outcome.found = true;
      rounds[k].outcome.proved = cheapest.proved;
      rounds[k].outcome.counted = cheapest.counted_bytes;
    }
    rounds[k].priced = std::move(plans[k].priced);
    add_plans({meshes[k], obey, limit}, std::move(plans[k]), found, number);
  }
  std::ranges::stable_sort(found, {}, [](const FoundSplit& one) { return one.plan.predicted; });
  for (FoundSplit& one : found) {
    const auto mesh = std::ranges::find(meshes, one.search->mesh) - meshes.begin();
    trials_.consider(std::move(one), rounds[static_cast<std::size_t>(mesh)].outcome);
  }
  return rounds;
}

namespace {

std::string needs(const FoundPlans& found) {
  const std::string least = analysis::format_bytes(found.least_bytes);
  std::string text = fmt::format("at least {} are needed", least);
  if (found.largest.empty()) return text;
  if (const std::string reached = analysis::format_bytes(found.reached_bytes); reached != least)
    text += fmt::format("; the smallest plan that was found takes {}", reached);
  return text + ", of which the largest are " + found.largest;
}

}  // namespace

void SplitSearch::add_plans(const FoundSplit::Search& search, FoundPlans found, std::vector<FoundSplit>& all,
                            int round) {
  const Mesh& mesh = search.mesh;
  SplitMesh tried{mesh.ranks(), found.loads, found.order, {}, {}};
  // Measured times know no floors.
  if (!programs_.options().cost_file.empty()) tried.loads = tried.order = {};
  if (!found.plans.empty()) {
    allow(tried);
    report_.several_axes = report_.several_axes || mesh.size() > 1;
  }
  bool any = false;
  for (FoundPlan& plan : found.plans) any = add_plan(search, std::move(plan), all, round) || any;
  if (found.least_bytes > 0) {
    over_limit_ = true;
    tried.excluded = needs(found);
    if (round == 0)
      too_small_.push_back(fmt::format("{}{}: {}", count_of_ranks(tried.ranks),
                                       mesh.has_names() ? ", " + to_string(mesh) : "", tried.excluded));
  } else if (!any) {
    tried.excluded = found.obstacle.empty() ? "the cheapest plan splits nothing" : found.obstacle;
  }
  // For meshes with several axes the report lists candidates instead.
  if (mesh.size() == 1 && round == 0) report_.meshes.push_back(std::move(tried));
}

// Returns whether it is worth a trial.
bool SplitSearch::add_plan(const FoundSplit::Search& search, FoundPlan plan, std::vector<FoundSplit>& all,
                           int round) {
  const Mesh& mesh = search.mesh;
  if (mesh.ranks() == 1) {
    plan.name = "not split";
    plan.text.clear();
  } else if (!search.obey && programs_.keep().empty() && programs_.annotated() == nullptr &&
             plan.splits_nothing()) {
    return false;
  }
  if (again_) {
    if (std::ranges::find(report_.candidates, plan.text, &SplitCandidate::plan) != report_.candidates.end())
      return false;
    plan.name += ", products may stay whole";
  }
  if (round > 0) plan.name += fmt::format(", smaller {}", round);
  if (mesh.has_names())
    plan.name += fmt::format(", {}{}", to_string(mesh), plan.joint ? "" : ", axis after axis");
  if (!programs_.options().cost_file.empty()) plan.floor = {};
  all.push_back({mesh.ranks(), std::move(plan), found_++, search});
  return true;
}

// The bounds hold for all numbers of ranks that are allowed.
void SplitSearch::allow(const SplitMesh& mesh) {
  report_.load_bound = bounded_ ? std::min(report_.load_bound, mesh.loads) : mesh.loads;
  report_.order_bound = bounded_ ? std::min(report_.order_bound, mesh.order) : mesh.order;
  bounded_ = true;
}

// Later searches may stop at these bounds. A bound is accepted within 0.1 %. The mesh with the most ranks
// was searched without that slack and is added first, so the slack does not accumulate.
void SplitSearch::hold_to(const std::vector<Mesh>& meshes, const std::vector<FoundPlans>& plans) {
  std::vector<std::size_t> order(meshes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t k) { return meshes[k].ranks(); });
  for (const std::size_t k : order) {
    if (!plans[k].plans.empty()) known_.add(plans[k].loads, plans[k].order);
  }
}

}  // namespace braid
