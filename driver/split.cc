#include "driver/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "analysis/measure.h"
#include "driver/plain_program.h"
#include "driver/smaller_limits.h"
#include "driver/split_with.h"
#include "frontend/sharding/configuration.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"
#include "passes/forward_copies.h"
#include "passes/fuse_horizontal.h"
#include "split/mesh.h"

namespace braid {

using frontend::sharding::DeviceConfiguration;
using frontend::sharding::plan_request;
using frontend::sharding::SplitRequest;
using split::find_plans;
using split::FoundPlan;
using split::FoundPlans;
using split::SearchOptions;

namespace {

void check_request(const CompileOptions& options) {
  const SplitOptions& split = options.split;
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    ir::user_error(errors::kSplitRequest, {.file = options.model}, message, hint);
  };
  const auto four = [&] {
    return fmt::format("{}, {}, {} and {}", split.option("devices"), split.option("tp"), split.option("mesh"),
                       split.option("plan"));
  };
  const auto with_plan = [&](const char* name) {
    return fmt::format("{} and {} are given together", split.option(name), split.option("plan"));
  };
  if ((split.devices > 0) + (split.tensor_ranks > 0) + !split.mesh.empty() + !split.plan_file.empty() > 1)
    refuse(four() + " are given together", "give one of them: a mesh and a plan have their number of ranks");
  if ((split.memory_limit || !split.keep_file.empty()) && !split.plan_file.empty())
    refuse("--plan is given together with --memory-limit or --keep", "a plan is obeyed as it is");
  if (split.strict && !split.plan_file.empty()) refuse(with_plan("strict"), "a plan is obeyed as it is");
  if (split.caches && !split.plan_file.empty())
    refuse(with_plan("split-caches"), "a plan says what becomes of the caches");
  if (!split.configuration.empty() && !split.plan_file.empty())
    refuse(with_plan("configuration"), "a complete plan leaves nothing to annotations");
  if (!split.mesh.empty() && split::parse_mesh(split.mesh, split.option("mesh")).find("pp") >= 0)
    ir::user_error(
        errors::kStages, {.file = options.model},
        split.option("mesh", split.mesh) + ": programs of several pipeline stages are not generated yet",
        "'braid explain --devices N' prints where the model would be cut; leave out the axis pp");
  if (options.import.ranks > 1)
    refuse("a model that is split already is compiled with " + split.option("ranks"),
           fmt::format("leave out {}, or {}", split.option("ranks"), four()));
  if (options.model.find("{rank}") != std::string::npos)
    ir::user_error(errors::kCannotSplit, {.file = options.model},
                   "a model with one file per rank is split already", "compile it with --ranks");
  if (is_text(options.model))
    refuse("IR text is the program of a rank and cannot be split", "split the ONNX model that it comes from");
}

// The type in which --precision lets products compute.
std::optional<ir::DType> product_type(const CompileOptions& options) {
  if (options.precision == "bf16") return ir::DType::bf16;
  if (options.precision == "f16") return ir::DType::f16;
  if (options.precision == "int8") return ir::DType::i8;
  return std::nullopt;
}

class Chooser {
 public:
  Chooser(const CompileOptions& options, SplitReport& report)
      : options_(options), report_(report), model_(options.model, options.import) {
    report = {};
    report.model = options.model;
    report.sizes = options.split.sizes;
    costs_ = pass_context(options).costs;
    if (report.sizes.empty()) report.sizes.emplace_back();
    for (const StepSizes& sizes : report.sizes)
      points_.push_back({sizes.dims.empty() ? costs_ : costs_at(sizes), sizes.steps, {}});
    costs_ = points_[0].costs;
    limit_ = options.split.memory_limit;
    // A complete plan is obeyed as it is.
    if (const std::int64_t capacity = costs_->machine().capacity_bytes;
        !limit_ && capacity > 0 && options.split.plan_file.empty())
      limit_ = capacity;
    quiet_ = options;
    quiet_.run = {};
    quiet_.run.verify = false;  // the chosen one is compiled again
    quiet_.split = {};
    others_.emplace(options_, quiet_, *costs_);
  }

  ir::Schedule run() {
    for (const StepSizes& sizes : options_.split.sizes)
      check_sizes(sizes, options_.import.dims, options_.model, options_.split, "at");
    if (!options_.split.plan_file.empty()) {
      use_plan();
    } else {
      search();
    }
    if (!best_ && over_limit_ && options_.split.explain) find_pipelines();  // a stage takes less
    if (!best_) require_memory();
    if (!best_) {
      std::string why;
      for (const SplitCandidate& c : report_.candidates)
        why += fmt::format("\n    {}: {}", count_of_ranks(c.ranks), c.refused);
      ir::user_error(errors::kSplitRequest, {.file = options_.model},
                     "none of the splits that were tried compiles:" + why, "allow other numbers of devices");
    }
    if (options_.split.strict) require_strict();
    if (options_.split.explain) {
      explain_choice();
      find_pipelines();
    }
    // Candidates are priced without their weights.
    if (const int ranks = best_->graph.ranks;
        options_.split.weights && options_.split.plan_file.empty() && ranks > 1)
      return model_.lower(ranks, plan_request(report_.plan.text, "").get());
    return std::move(*best_);
  }

 private:
  void find_pipelines() {
    const int devices = options_.split.devices;
    SearchOptions search = search_options(false);
    search.memory = limit_;
    for (int stages = 2; stages <= devices; ++stages) {
      if (devices % stages != 0) continue;
      model_.with_graph([&](const split::Graph& graph) {
        report_.stages.push_back(split::find_stages(graph, stages, devices / stages, costs_, search));
      });
    }
  }

  std::shared_ptr<const analysis::CostModel> costs_at(const StepSizes& sizes) const {
    return std::make_shared<const analysis::CostModel>(
        costs_->machine(), analysis::CostOptions{.dims = sizes.dims, .cost_file = options_.cost_file});
  }

  // Throws BR0489 if the chosen plan computes an operator without a rule on every rank, or if one of its
  // conversions takes more than conversion_share percent of the step.
  void require_strict() const {
    const SplitCandidate& chosen = report_.candidates[static_cast<std::size_t>(report_.chosen)];
    if (chosen.ranks == 1) return;
    std::string found;
    for (const split::PlanReplicated& r : report_.plan.replicated) {
      if (!r.ruled)
        found += fmt::format("\n    {} {} computed whole on every rank: {}", r.nodes, r.op, r.reason);
    }
    for (const split::PlanConversion& c : report_.plan.conversions) {
      const double share = 100.0 * static_cast<double>(c.cost.ps) / static_cast<double>(chosen.simulated.ps);
      if (share > options_.split.conversion_share)
        found += fmt::format("\n    '{}': {} -> {} takes {:.3f} us, {:.1f} % of the step", c.value, c.from,
                             c.to, c.cost.us(), share);
    }
    if (found.empty()) return;
    ir::user_error(errors::kNotStrict, {.file = options_.model},
                   fmt::format("the split over {} ranks is not strict:{}", chosen.ranks, found),
                   "leave out --strict, or raise --conversion-share");
  }

  // The configuration that is asked for, or the model's own if it says anything of its nodes.
  std::shared_ptr<const DeviceConfiguration> annotations() const {
    const SplitOptions& split = options_.split;
    auto found = frontend::sharding::device_configuration(options_.model, split.configuration);
    if (!found || (found->nodes.empty() && split.configuration.empty())) return nullptr;
    const std::optional<Mesh> mesh =
        split.mesh.empty() ? std::nullopt : std::optional(split::parse_mesh(split.mesh, "--mesh"));
    const int asked = mesh ? mesh->ranks() : split.tensor_ranks;
    if (asked > 0 ? asked != found->devices : split.devices > 0 && split.devices < found->devices) {
      ir::user_error(errors::kSplitRequest, {.file = options_.model},
                     fmt::format("the configuration '{}' of the model is for {} devices, not for {}",
                                 found->name, found->devices, std::max(asked, split.devices)),
                     fmt::format("give --tp {}, or another split with --plan", found->devices));
    }
    // Otherwise the configuration keeps its own mesh.
    if (mesh) found->mesh = *mesh;
    return std::make_shared<const DeviceConfiguration>(std::move(*found));
  }

  // Whether a program on so many ranks keeps the limit: the search counts fewer bytes than are planned.
  bool fits(int ranks) const {
    CompileOptions options = options_;
    options.split.devices = 0;
    options.split.tensor_ranks = ranks;
    options.split.mesh.clear();
    options.split.keep_file.clear();
    SplitReport report;
    Chooser chooser(options, report);
    chooser.any_ = true;
    try {
      chooser.search();
    } catch (const ir::UserError&) {  // the model's sizes cannot be split over so many ranks
      return false;
    }
    return chooser.best_.has_value();
  }

  // Throws BR0488 if a plan was refused because of the limit, with a number of ranks that would do, if any.
  void require_memory() {
    if (!over_limit_) return;
    std::string why;
    int most = 1;
    for (const SplitMesh& mesh : report_.meshes) most = std::max(most, mesh.ranks);
    for (const std::string& mesh : too_small_) why += "\n    " + mesh;
    for (const SplitCandidate& c : report_.candidates)
      why += fmt::format("\n    {}, {}: {}", count_of_ranks(c.ranks), c.name, c.refused);
    const int tried = most;
    int enough = 0;
    const SearchOptions search = search_options(options_.split.tensor_ranks > 0);
    do {
      model_.with_graph([&](const split::Graph& graph) {
        enough = split::next_ranks_within(graph, most, *limit_, costs_, search);
      });
      most = enough;
    } while (enough > 0 && !fits(enough));
    std::string hint = "raise --memory-limit, or try a mesh of several axes (--mesh)";
    if (enough > 0) {
      hint = fmt::format("{} ranks would do (--tp {})", enough, enough);
    } else if (tried < split::kMostRanksWithin) {
      hint = fmt::format("no number of ranks from {} to {} was found that would do along one axis: {}",
                         tried + 1, split::kMostRanksWithin, hint);
    }
    ir::user_error(errors::kSplitMemory, {.file = options_.model},
                   fmt::format("no plan fits into {} of a device:{}", analysis::format_bytes(*limit_), why),
                   hint);
  }

  SearchOptions search_options(bool obey, bool explain = false) const {
    SearchOptions search;
    search.obey = obey;
    search.caches = options_.split.caches;
    search.steps = points_[0].steps;
    search.attention_flops = points_[0].attention_flops;
    search.joins = joins_;
    search.points.assign(points_.begin() + 1, points_.end());
    // A copy may be made in several loops.
    search.largest_fused_copy =
        static_cast<double>(passes::FuseHorizontal{}.small_points * passes::ForwardCopies{}.max_parts);
    search.aliases = !options_.import.aliases.empty();
    search.precision = product_type(options_);
    search.memory = searched_limit_ ? searched_limit_ : limit_;
    search.explain = explain;
    search.bounds = !explain;
    search.keep = keep_;
    search.keep_file = options_.split.keep_file;
    search.annotated = frontend::sharding::annotations_of(annotated_);
    search.known = known_;
    return search;
  }

  using Mesh = split::Mesh;
  // The mesh of a search, and whether it must split.
  struct Where {
    Mesh mesh;
    bool obey = false;
  };
  struct Found {
    int ranks = 1;
    FoundPlan plan;
    int number = 0;              // in the order of ranks and of the search's variants
    std::optional<Where> where;  // nullopt: the plan was given
  };

  void use_plan() {
    const std::string& file = options_.split.plan_file;
    FoundPlan plan;
    plan.name = "as given";
    plan.text = ir::read_text_file(file);
    const int ranks = split::mesh_of_plan(plan.text, file).ranks();
    const auto request = plan_request(plan.text, file, options_.split.weights);
    LimitOutcome outcome;
    consider({ranks, std::move(plan), 0, std::nullopt}, request.get(), outcome);
  }

  // Plans of all numbers of ranks, the cheapest first, so that many of the others need not be compiled.
  void search() {
    const SplitOptions& split = options_.split;
    std::optional<Mesh> only;
    if (!split.mesh.empty()) only = split::parse_mesh(split.mesh, "--mesh");
    if (split.tensor_ranks > 0) only = Mesh::line(split.tensor_ranks);
    annotated_ = annotations();
    if (annotated_) only = annotated_->mesh;
    const bool obey = split.tensor_ranks > 0 || !split.mesh.empty();
    ir::Schedule plain = model_.lower(1, nullptr);
    for (split::PricePoint& point : points_) point.attention_flops = attention_flops(plain, *point.costs);
    joins_ = product_joins(std::move(plain));
    others_->prepare();
    if (!split.keep_file.empty()) {
      keep_ = ir::read_text_file(split.keep_file);
      model_.keep_copies(keep_, split.keep_file);
      const Mesh kept = split::mesh_of_plan(keep_, split.keep_file);
      if (only ? !(kept == *only) : split.devices % kept.ranks() != 0)
        ir::user_error(
            errors::kSplitRequest, {.file = split.keep_file},
            fmt::format("the lines that are kept are for [{}], but {} are asked for", to_string(kept),
                        only ? to_string(*only) : fmt::format("{} devices", split.devices)),
            "give the ranks of the file, or a multiple of them as --devices");
      for (int ranks = 1; !only && ranks <= split.devices; ++ranks) {
        if (split.devices % ranks == 0 && ranks != kept.ranks())
          report_.meshes.push_back({ranks, {}, {}, "the lines that are kept are for other ranks", {}});
      }
      try_mesh(kept, obey);
    } else if (only) {
      try_mesh(*only, obey);
    } else {
      std::vector<Mesh> lines;
      for (int ranks = 1; ranks <= split.devices; ++ranks) {
        if (split.devices % ranks == 0) lines.push_back(Mesh::line(ranks));
      }
      try_meshes(lines, false);
      for (const Mesh& line : lines) on_several_axes(line.ranks());
    }
    // Lists candidates in the order in which they were found, not tried.
    std::vector<int> order(report_.candidates.size());
    std::iota(order.begin(), order.end(), 0);
    const auto number = [&](int k) { return numbers_[static_cast<std::size_t>(k)]; };
    std::sort(order.begin(), order.end(), [&](int a, int b) { return number(a) < number(b); });
    std::vector<SplitCandidate> sorted;
    int chosen = -1;
    for (const int k : order) {
      if (k == report_.chosen) chosen = static_cast<int>(sorted.size());
      sorted.push_back(std::move(report_.candidates[static_cast<std::size_t>(k)]));
    }
    report_.candidates = std::move(sorted);
    report_.chosen = chosen;
  }

  // More axes are tried as long as the best with so many is faster than with one less.
  void on_several_axes(int ranks) {
    constexpr int kMostAxes = 3;
    if (split::meshes_of(ranks, 2).empty()) return;
    if (report_.chosen >= 0) {
      analysis::Time least;
      model_.with_graph([&](const split::Graph& graph) {
        least = split::least_time(graph, ranks, costs_, search_options(false));
      });
      least.ps = least.ps * points_[0].steps + others_->least_time(ranks, search_options(false)).ps;
      if (options_.cost_file.empty() &&
          least > report_.candidates[static_cast<std::size_t>(report_.chosen)].simulated)
        return;
    }
    for (int axes = 2; axes <= kMostAxes; ++axes) {
      const analysis::Time before = report_.fastest(ranks);
      try_meshes(split::meshes_of(ranks, axes), false);
      if (report_.fastest(ranks) >= before) return;
    }
  }

  // Returns the step time beyond which another candidate changes nothing (SplitReport::useful). Passes must
  // see the times that are compared, so the result is nullopt with a pass list, sizes, other programs or a
  // cost file.
  std::optional<analysis::Time> useful(int ranks) const {
    if (options_.passes || !options_.split.sizes.empty() || !others_->empty() || !options_.cost_file.empty())
      return std::nullopt;
    return report_.useful(ranks, !split::meshes_of(ranks, 2).empty());
  }

  // A search of a mesh within a limit of memory.
  struct Round {
    LimitOutcome outcome;
    std::vector<std::vector<int>> priced;  // FoundPlans
  };

  // The mesh that is asked for. Not every product gains by every one of several axes.
  void try_mesh(const Mesh& mesh, bool obey) {
    try_meshes({mesh}, obey);
    if (!obey || mesh.size() == 1 || !best_ || any_) return;
    again_ = true;
    try_meshes({mesh}, false);
  }

  void try_meshes(const std::vector<Mesh>& meshes, bool obey) {
    searched_limit_ = limit_;
    const std::vector<Round> rounds = try_within(meshes, obey, 0);
    if (best_) return;
    for (std::size_t k = 0; k < meshes.size() && !(any_ && best_); ++k)
      if (rounds[k].outcome.missing > 0) try_smaller(meshes[k], obey, rounds[k]);
  }

  std::vector<Round> try_within(const std::vector<Mesh>& meshes, bool obey, int number) {
    std::vector<Round> rounds(meshes.size());
    std::vector<FoundPlans> plans = plans_on(meshes, obey, false, number > 0);
    hold_to(meshes, plans);
    std::vector<Found> found;
    for (std::size_t k = 0; k < meshes.size(); ++k) {
      rounds[k].outcome.reached = plans[k].reached_bytes;
      if (!plans[k].plans.empty()) {
        const FoundPlan& cheapest = plans[k].plans.front();
        rounds[k].outcome.found = true;
        rounds[k].outcome.proved = cheapest.proved;
        rounds[k].outcome.counted = cheapest.counted_bytes;
      }
      rounds[k].priced = std::move(plans[k].priced);
      add_plans(meshes[k], obey, std::move(plans[k]), found, number);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Found& a, const Found& b) { return a.plan.predicted < b.plan.predicted; });
    for (Found& one : found) {
      const auto mesh = std::ranges::find(meshes, one.where->mesh) - meshes.begin();
      const auto request = one.ranks == 1 ? nullptr : plan_request(one.plan.text, "", false);
      consider(std::move(one), request.get(), rounds[static_cast<std::size_t>(mesh)].outcome);
    }
    return rounds;
  }

  // If none of a mesh's plans fits after all, those of smaller limits are tried.
  void try_smaller(const Mesh& mesh, bool obey, Round last) {
    priced_.clear();
    SmallerLimits limits(*limit_);
    constexpr int kRounds = 8;
    for (int number = 1; number < kRounds && !(any_ && best_); ++number) {
      const std::optional<std::int64_t> limit = limits.next(last.outcome);
      if (!limit) return;
      searched_limit_ = limit;
      if (!last.priced.empty()) priced_ = std::move(last.priced);
      last = try_within({mesh}, obey, number)[0];
    }
  }

  std::vector<FoundPlans> plans_on(const std::vector<Mesh>& meshes, bool obey, bool explain,
                                   bool cheapest_only = false) {
    std::vector<FoundPlans> found;
    if (!others_->empty()) {
      for (const Mesh& mesh : meshes)
        found.push_back(others_->find_plans(model_, costs_, search_options(obey), mesh));
      report_.shared_weights = others_->shared().count;
      report_.shared_bytes = others_->shared().bytes;
      return found;
    }
    model_.with_graph([&](const split::Graph& graph) {
      SearchOptions search = search_options(obey, explain);
      search.cheapest_only = cheapest_only;
      if (cheapest_only) search.priced = priced_;
      found = find_plans(graph, meshes, costs_, search);
    });
    return found;
  }

  // Adds alternatives and flips of the chosen plan to the report. They take many searches, so other
  // candidates have none.
  void explain_choice() {
    if (!chosen_on_ || chosen_on_->mesh.ranks() == 1) return;
    if (!others_->empty()) {
      for (split::PlanConversion& line : report_.plan.conversions)
        line.unpriced = "programs that are split together share their weights";
      return;
    }
    searched_limit_ = chosen_limit_;
    model_.with_graph([&](const split::Graph& graph) {
      split::price_alternatives(graph, chosen_on_->mesh, costs_, search_options(chosen_on_->obey),
                                report_.plan);
    });
    for (SplitMesh& line : report_.meshes) {
      if (line.ranks == chosen_on_->mesh.ranks())
        line.flips = plans_on({Mesh::line(line.ranks)}, chosen_on_->obey, true).front().flips;
    }
  }

  static std::string needs(const FoundPlans& found) {
    const std::string least = analysis::format_bytes(found.least_bytes);
    std::string text = fmt::format("at least {} are needed", least);
    if (found.largest.empty()) return text;
    if (const std::string reached = analysis::format_bytes(found.reached_bytes); reached != least)
      text += fmt::format("; the smallest plan that was found takes {}", reached);
    return text + ", of which the largest are " + found.largest;
  }

  void add_plans(const Mesh& mesh, bool obey, FoundPlans found, std::vector<Found>& all, int round) {
    const int ranks = mesh.ranks();
    SplitMesh tried{ranks, found.loads, found.order, {}, {}};
    if (!options_.cost_file.empty()) tried.loads = tried.order = {};  // measured times know no floors
    if (!found.plans.empty()) {
      allow(tried);
      report_.several_axes = report_.several_axes || mesh.size() > 1;
    }
    int plans = 0;
    for (FoundPlan& plan : found.plans) {
      if (ranks == 1) {
        plan.name = "not split";
        plan.text.clear();
      } else if (!obey && keep_.empty() && !annotated_ && plan.splits_nothing()) {
        continue;
      }
      if (again_) {
        if (std::ranges::find(report_.candidates, plan.text, &SplitCandidate::plan) !=
            report_.candidates.end())
          continue;
        plan.name += ", products may stay whole";
      }
      if (round > 0) plan.name += fmt::format(", smaller {}", round);
      if (mesh.has_names())
        plan.name += fmt::format(", {}{}", to_string(mesh), plan.joint ? "" : ", axis after axis");
      if (!options_.cost_file.empty()) plan.floor = {};
      all.push_back({ranks, std::move(plan), found_++, Where{mesh, obey}});
      ++plans;
    }
    over_limit_ = over_limit_ || found.least_bytes > 0;
    if (found.least_bytes > 0) {
      tried.excluded = needs(found);
      if (round == 0)
        too_small_.push_back(fmt::format("{}{}: {}", count_of_ranks(ranks),
                                         mesh.has_names() ? ", " + to_string(mesh) : "", tried.excluded));
    } else if (plans == 0) {
      tried.excluded = found.obstacle.empty() ? "the cheapest plan splits nothing" : found.obstacle;
    }
    // For meshes with several axes the report lists candidates instead.
    if (mesh.size() == 1 && round == 0) report_.meshes.push_back(std::move(tried));
  }

  // The bounds hold for all numbers of ranks that are allowed.
  void allow(const SplitMesh& mesh) {
    report_.load_bound = bounded_ ? std::min(report_.load_bound, mesh.loads) : mesh.loads;
    report_.order_bound = bounded_ ? std::min(report_.order_bound, mesh.order) : mesh.order;
    bounded_ = true;
  }
  // Later searches may stop at these bounds. A bound is accepted within 0.1 %. The mesh with the most ranks
  // was searched without that slack and is added first, so the slack does not accumulate.
  void hold_to(const std::vector<Mesh>& meshes, const std::vector<FoundPlans>& plans) {
    std::vector<std::size_t> order(meshes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t k) { return meshes[k].ranks(); });
    for (const std::size_t k : order) {
      if (!plans[k].plans.empty()) known_.add(plans[k].loads, plans[k].order);
    }
  }

  // Compiles and simulates it, and keeps it if it is the shortest so far; of equal ones, that of fewer ranks.
  void consider(Found found, const SplitRequest* request, LimitOutcome& outcome) {
    const FoundPlan& plan = found.plan;
    SplitCandidate candidate;
    candidate.ranks = found.ranks;
    candidate.name = plan.name;
    candidate.plan = plan.text;
    candidate.predicted = plan.predicted;
    candidate.bound = plan.bound;
    candidate.proved = plan.proved;
    candidate.floor = plan.floor;
    const SplitCandidate* best =
        report_.chosen < 0 ? nullptr : &report_.candidates[static_cast<std::size_t>(report_.chosen)];
    candidate.skipped = best != nullptr && best->simulated < candidate.floor;
    std::optional<ir::Schedule> lowered;
    if (!candidate.skipped) {
      try {
        lowered = model_.lower(found.ranks, request);
        std::vector<ir::Schedule> with;
        if (!others_->empty()) with = others_->lower(found.ranks, plan);
        ir::Schedule schedule = *lowered;
        passes::PassContext context = pass_context(quiet_);
        context.useful = useful(found.ranks);
        optimise(schedule, quiet_, context);
        if (context.at_least) {
          candidate.skipped = true;
          candidate.floor = std::max(candidate.floor, *context.at_least);
          outcome.fits = true;
          report_.candidates.push_back(std::move(candidate));
          numbers_.push_back(found.number);
          return;
        }
        for (const split::PricePoint& point : points_) {
          const analysis::Time step =
              analysis::measure(schedule, *point.costs, {.bounds = false, .planned = false}).makespan;
          candidate.at_sizes.push_back(step);
          candidate.simulated.ps += step.ps * point.steps;
        }
        candidate.bytes = bytes_of_rank(schedule);
        candidate.with = others_->measure(std::move(with));
        std::int64_t most = 0, uncounted = 0;
        const auto add_bytes = [&](std::int64_t bytes, const FoundPlan& own) {
          most = std::max(most, bytes);
          if (limit_ && bytes > *limit_ && own.counted_bytes > 0)
            uncounted = std::max(uncounted, bytes - own.counted_bytes);
        };
        add_bytes(candidate.bytes, plan);
        for (std::size_t k = 0; k < candidate.with.size(); ++k) {
          const SplitProgram& other = candidate.with[k];
          candidate.simulated.ps += other.step.ps * other.sizes.steps;
          add_bytes(other.bytes, plan.with[k]);
        }
        if (limit_ && most > *limit_) {
          candidate.refused = fmt::format("it takes {} on a device", analysis::format_bytes(most));
          over_limit_ = true;
          if (uncounted > 0 && (outcome.uncounted == 0 || uncounted < outcome.uncounted))
            outcome.uncounted = uncounted;
          if (outcome.missing == 0 || most - *limit_ < outcome.missing) outcome.missing = most - *limit_;
        }
      } catch (const ir::UserError& error) {
        // A plan or a number of ranks that was asked for explicitly has one error.
        if (!lowered) throw;
        candidate.refused = error.message();
      }
    }
    const int best_number = report_.chosen < 0 ? 0 : numbers_[static_cast<std::size_t>(report_.chosen)];
    const bool better = candidate.ran() && (best == nullptr || std::pair(candidate.simulated, found.number) <
                                                                   std::pair(best->simulated, best_number));
    outcome.fits = outcome.fits || candidate.ran() || candidate.skipped;
    report_.candidates.push_back(std::move(candidate));
    numbers_.push_back(found.number);
    if (!better) return;
    report_.chosen = static_cast<int>(report_.candidates.size()) - 1;
    report_.plan = std::move(found.plan);
    chosen_on_ = std::move(found.where);
    chosen_limit_ = searched_limit_;
    best_ = std::move(lowered);
  }

  const CompileOptions& options_;
  CompileOptions quiet_;
  SplitReport& report_;
  frontend::PlainModel model_;
  std::shared_ptr<const analysis::CostModel> costs_;
  std::vector<split::PricePoint> points_;  // the first with costs_
  std::optional<std::int64_t> limit_;      // bytes of a device
  std::optional<SplitPrograms> others_;
  std::optional<std::int64_t> searched_limit_;  // limit of the search; less than limit_ for smaller plans
  std::optional<std::int64_t> chosen_limit_;    // limit of the search that found the chosen plan
  std::vector<std::vector<int>> priced_;        // SearchOptions, of the mesh on which smaller plans are tried
  bool any_ = false;                            // whether a first plan that fits is enough
  bool again_ = false;                          // whether a mesh is searched that was searched with obey
  bool over_limit_ = false;                     // whether some plan was refused because of it
  std::vector<std::string> too_small_;          // bytes that a mesh needs on which no plan keeps the limit
  std::vector<int> numbers_;                    // of the candidates
  std::string keep_;                            // text of --keep
  std::shared_ptr<const DeviceConfiguration> annotated_;
  std::vector<split::ProductJoin> joins_;
  std::optional<ir::Schedule> best_;
  std::optional<Where> chosen_on_;
  split::KnownBounds known_;  // SearchOptions
  bool bounded_ = false;
  int found_ = 0;
};

}  // namespace

void emit_onnx(const CompileOptions& options, const SplitReport& report,
               const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write) {
  frontend::ImportOptions import = options.import;
  if (report.chosen >= 0) {
    import.ranks = report.candidates[static_cast<std::size_t>(report.chosen)].ranks;
    if (!report.plan.text.empty()) import.split = plan_request(report.plan.text, "");
  }
  frontend::emit_onnx(options.model, import, emit, write);
}

void emit_annotated(const CompileOptions& options, const SplitReport& report,
                    const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write) {
  frontend::ImportOptions import = options.import;
  import.ranks = report.candidates.at(static_cast<std::size_t>(report.chosen)).ranks;
  import.split = plan_request(report.plan_text(), "");
  frontend::emit_annotated(options.model, import, emit, write);
}

ir::Schedule lower_split(const CompileOptions& options, SplitReport& report) {
  check_request(options);
  return Chooser(options, report).run();
}

}  // namespace braid
