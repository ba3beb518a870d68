#include "driver/split.h"

#include <fmt/format.h>

#include "analysis/costs/json_document.h"
#include "analysis/measure.h"
#include "frontend/errors.h"
#include "frontend/sharding/configuration.h"
#include "ir/error.h"

namespace braid {

using frontend::sharding::DeviceConfiguration;
using frontend::sharding::FoundPlan;
using frontend::sharding::FoundPlans;
using frontend::sharding::plan_request;
using frontend::sharding::search_request;
using frontend::sharding::SplitRequest;

namespace {

constexpr int kFileNotReadable = 1;

void check_request(const CompileOptions& options) {
  const SplitOptions& split = options.split;
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    ir::user_error(frontend::kSplitRequest, {.file = options.model}, message, hint);
  };
  if ((split.devices > 0) + (split.tensor_ranks > 0) + !split.mesh.empty() + !split.plan_file.empty() > 1)
    refuse("--devices, --tp, --mesh and --plan are given together",
           "give one of them: a mesh and a plan have their number of ranks");
  if (split.caches && !split.plan_file.empty())
    refuse("--split-caches and --plan are given together", "a plan says what becomes of the caches");
  if (!split.configuration.empty() && !split.plan_file.empty())
    refuse("--configuration and --plan are given together", "a complete plan leaves nothing to annotations");
  if (options.import.ranks > 1)
    refuse("a model that is split already is compiled with --ranks",
           "leave out --ranks, or --devices, --tp, --mesh and --plan");
  if (is_text(options.model))
    refuse("IR text is the program of a rank and cannot be split", "split the ONNX model that it comes from");
}

class Chooser {
 public:
  Chooser(const CompileOptions& options, SplitReport& report) : options_(options), report_(report) {
    costs_ = pass_context(options).costs;
    quiet_ = options;
    quiet_.run = {};
    quiet_.run.verify = options.run.verify;
    quiet_.split = {};
  }

  ir::Schedule run() {
    check_request(options_);
    report_ = {};
    if (!options_.split.plan_file.empty()) {
      use_plan();
    } else if (const auto annotated = annotations()) {
      with_ranks(annotated->devices, options_.split.tensor_ranks > 0, "", annotated);
    } else if (!options_.split.mesh.empty()) {
      with_ranks(frontend::sharding::ranks_of_mesh(options_.split.mesh), true, options_.split.mesh);
    } else {
      const bool obey = options_.split.tensor_ranks > 0;
      const int most = obey ? options_.split.tensor_ranks : options_.split.devices;
      for (int ranks = obey ? most : 1; ranks <= most; ++ranks) {
        if (most % ranks != 0) continue;
        if (ranks == 1) {
          without_splitting();
        } else {
          with_ranks(ranks, obey);
          if (!obey) on_several_axes(ranks);
        }
      }
    }
    if (!best_) {
      std::string why;
      for (const SplitCandidate& c : report_.candidates)
        why += fmt::format("\n    {} ranks: {}", c.ranks, c.refused);
      ir::user_error(frontend::kSplitRequest, {.file = options_.model},
                     "none of the splits that were tried compiles:" + why, "allow other numbers of devices");
    }
    return std::move(*best_);
  }

 private:
  ir::Schedule import(int ranks, std::shared_ptr<const SplitRequest> request) const {
    frontend::ImportOptions import = options_.import;
    import.ranks = ranks;
    import.split = std::move(request);
    return frontend::import_model(options_.model, import);
  }

  // The configuration that is asked for, or the model's own if it says anything of its nodes.
  std::shared_ptr<const DeviceConfiguration> annotations() const {
    const SplitOptions& split = options_.split;
    auto found = frontend::sharding::device_configuration(options_.model, split.configuration);
    if (!found || (found->nodes.empty() && split.configuration.empty())) return nullptr;
    if (!split.mesh.empty())
      ir::user_error(
          frontend::kSplitRequest, {.file = options_.model},
          fmt::format("the model is annotated for {} devices (configuration '{}'), and --mesh is given",
                      found->devices, found->name),
          fmt::format("give --tp {}, or another split with --plan", found->devices));
    if (split.tensor_ranks > 0 ? split.tensor_ranks != found->devices
                               : split.devices > 0 && split.devices < found->devices) {
      ir::user_error(frontend::kSplitRequest, {.file = options_.model},
                     fmt::format("the configuration '{}' of the model is for {} devices, not for {}",
                                 found->name, found->devices, std::max(split.tensor_ranks, split.devices)),
                     fmt::format("give --tp {}, or another split with --plan", found->devices));
    }
    return std::make_shared<const DeviceConfiguration>(std::move(*found));
  }

  // The search's figure for one device is the sum of its nodes.
  void without_splitting() {
    FoundPlans found;
    import(1, search_request(costs_, {}, found));
    FoundPlan plan = std::move(found.plans.front());
    plan.name = "not split";
    plan.text.clear();
    allow(found.lower_bound);
    consider(1, std::move(plan), import(1, nullptr));
  }

  void use_plan() {
    const std::string& file = options_.split.plan_file;
    FoundPlan plan;
    plan.name = "as given";
    plan.text = analysis::read_text_file(file);
    const int ranks = frontend::sharding::ranks_of_plan(plan.text, file);
    auto request = plan_request(plan.text, file);
    consider(ranks, std::move(plan), import(ranks, std::move(request)));
  }

  // More axes are tried as long as the best with so many is faster than with one less.
  void on_several_axes(int ranks) {
    constexpr int kMostAxes = 3;
    const auto fastest = [&] {
      analysis::Time time = analysis::Time::max();
      for (const SplitCandidate& c : report_.candidates)
        if (c.ranks == ranks && c.refused.empty()) time = std::min(time, c.simulated);
      return time;
    };
    for (int axes = 2; axes <= kMostAxes; ++axes) {
      const analysis::Time before = fastest();
      for (const std::string& mesh : frontend::sharding::meshes_of_several_axes(ranks, axes))
        with_ranks(ranks, false, mesh);
      if (fastest() >= before) return;
    }
  }

  void with_ranks(int ranks, bool obey, const std::string& mesh = "",
                  const std::shared_ptr<const DeviceConfiguration>& annotated = nullptr) {
    FoundPlans found;
    const bool all = obey || annotated;
    ir::Schedule first =
        import(ranks, search_request(costs_, {obey, options_.split.caches, mesh, annotated}, found));
    if (mesh.empty()) allow(found.lower_bound);
    for (std::size_t k = 0; k < found.plans.size(); ++k) {
      FoundPlan& plan = found.plans[k];
      if (!all && plan.splits_nothing()) continue;
      if (!mesh.empty()) plan.name += fmt::format(", {}{}", mesh, plan.joint ? "" : ", axis after axis");
      ir::Schedule lowered = k == 0 ? std::move(first) : import(ranks, plan_request(plan.text, ""));
      consider(ranks, std::move(plan), std::move(lowered));
    }
  }

  // The bound holds for all numbers of ranks that are allowed.
  void allow(analysis::Time bound) {
    if (!bounded_ || bound < report_.lower_bound) report_.lower_bound = bound;
    bounded_ = true;
  }

  // Compiles and simulates it, and keeps it if it is the shortest so far; of equal ones, the first.
  void consider(int ranks, FoundPlan plan, ir::Schedule lowered) {
    SplitCandidate candidate{ranks, plan.name, plan.text, plan.predicted, plan.bound, plan.proved, {}, {}};
    try {
      ir::Schedule schedule = lowered;
      optimise(schedule, quiet_);
      candidate.simulated =
          analysis::measure(schedule, *costs_, {.bounds = false, .planned = false}).makespan;
    } catch (const ir::UserError& error) {
      candidate.refused = error.message();
    }
    const bool better =
        candidate.refused.empty() &&
        (report_.chosen < 0 ||
         candidate.simulated < report_.candidates[static_cast<std::size_t>(report_.chosen)].simulated);
    report_.candidates.push_back(std::move(candidate));
    if (!better) return;
    report_.chosen = static_cast<int>(report_.candidates.size()) - 1;
    report_.plan = std::move(plan);
    best_ = std::move(lowered);
  }

  const CompileOptions& options_;
  CompileOptions quiet_;
  SplitReport& report_;
  std::shared_ptr<const analysis::CostModel> costs_;
  std::optional<ir::Schedule> best_;
  bool bounded_ = false;
};

}  // namespace

std::string SplitReport::plan_text() const { return plan.text.empty() ? "plan 1\nranks 1\n" : plan.text; }

double SplitReport::gap() const {
  if (chosen < 0 || lower_bound.ps == 0) return 0;
  return static_cast<double>(candidates[static_cast<std::size_t>(chosen)].simulated.ps) /
             static_cast<double>(lower_bound.ps) -
         1;
}

void require_whole(const ir::Schedule& split, const ir::Schedule& plain, const std::string& model) {
  const auto check = [&](const auto& own, const auto& whole, const char* what) {
    for (const auto& value : own) {
      const auto same_name = [&](const auto& other) { return other.name == value.name; };
      const auto other = std::find_if(whole.begin(), whole.end(), same_name);
      if (other == whole.end()) continue;
      const std::vector<ir::Expr>&have = split.graph[value.buffer].sizes,
            &want = plain.graph[other->buffer].sizes;
      const auto text = [](ir::Expr e) { return ir::to_string(e); };
      if (std::ranges::equal(have, want, {}, text, text)) continue;
      ir::user_error(
          frontend::kSplitRequest, {.file = model},
          fmt::format("a rank has only a part of the {} '{}', but is compared with the plain model", what,
                      value.name),
          "leave out --split-caches, or let the plan keep inputs and outputs whole");
    }
  };
  check(split.graph.inputs, plain.graph.inputs, "input");
  check(split.graph.outputs, plain.graph.outputs, "output");
}

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
  return Chooser(options, report).run();
}

std::string to_string(const SplitReport& report) {
  std::string text = "Splits that were tried\n";
  text += fmt::format("  {:>5}  {:<26} {:>14} {:>14}\n", "ranks", "plan", "predicted us", "simulated us");
  for (std::size_t k = 0; k < report.candidates.size(); ++k) {
    const SplitCandidate& c = report.candidates[k];
    const std::string simulated =
        c.refused.empty() ? fmt::format("{:.3f}", c.simulated.us()) : "refused: " + c.refused;
    const std::string predicted = c.predicted.ps == 0 ? "" : fmt::format("{:.3f}", c.predicted.us());
    text += fmt::format("  {:>5}  {:<26} {:>14} {:>14}{}{}\n", c.ranks, c.name, predicted, simulated,
                        c.proved         ? "  search exact"
                        : c.bound.ps > 0 ? fmt::format("  search bound {:.3f} us", c.bound.us())
                                         : "",
                        static_cast<int>(k) == report.chosen ? "  <- chosen" : "");
  }
  if (report.lower_bound.ps > 0)
    text += fmt::format(
        "  no plan of these rules on one axis of these ranks is faster than {:.3f} us, in any order: gap "
        "{:.1f} %\n",
        report.lower_bound.us(), report.gap() * 100);
  if (report.chosen < 0) return text;
  if (report.candidates[static_cast<std::size_t>(report.chosen)].ranks == 1) {
    text += "The model is not split: one device is the fastest of those tried\n";
    return text;
  }
  text += "\nLayers\n";
  for (const frontend::sharding::PlanLayer& layer : report.plan.layers)
    text += fmt::format(
        "  {:<28} {:>4} of {:>4} nodes split, {:>2} collectives; {:.3f} us computing, {:.3f} us "
        "communicating\n",
        layer.name.empty() ? "(no layer)" : layer.name, layer.split, layer.nodes, layer.collectives,
        layer.compute.us(), layer.communication.us());
  text += "\nConversions\n";
  for (const frontend::sharding::PlanConversion& c : report.plan.conversions) {
    std::vector<std::string> readers;
    for (const std::string& reader : c.readers)
      readers.push_back(reader.empty() ? "the program's output" : "'" + reader + "'");
    text += fmt::format("  '{}': {} -> {} because {} take{} it so: {}, {:.3f} us\n", c.value, c.from, c.to,
                        fmt::join(readers, ", "), readers.size() == 1 ? "s" : "", c.steps, c.cost.us());
  }
  if (!report.plan.replicated.empty()) text += "\nReplicated\n";
  for (const frontend::sharding::PlanReplicated& r : report.plan.replicated)
    text += fmt::format("  {:>4} {:<24} {}\n", r.nodes, r.op, r.reason);
  return text;
}

}  // namespace braid
