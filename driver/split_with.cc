#include "driver/split_with.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "analysis/measure.h"
#include "driver/plain_program.h"
#include "frontend/sharding/configuration.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "split/together.h"

namespace braid {

using split::FoundPlan;
using split::FoundPlans;
using split::Graph;
using split::PlannedProgram;
using split::SearchOptions;

namespace {

void check_programs(const CompileOptions& options) {
  const SplitOptions& split = options.split;
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    ir::user_error(errors::kSplitRequest, {.file = options.model}, message, hint);
  };
  if (!split.plan_file.empty())
    refuse(fmt::format("{} and {} are given together", split.option("with"), split.option("plan")),
           "a plan is obeyed as it is: it needs no other program");
  if (!split.configuration.empty())
    refuse(fmt::format("{} and {} are given together", split.option("with"), split.option("configuration")),
           "annotations are obeyed for one program at a time: give the others the plan that they have made "
           "(--keep)");
  std::vector<std::string> files = {options.model};
  for (const SplitWith& with : split.with) {
    if (is_text(with.model) || with.model.find("{rank}") != std::string::npos)
      ir::user_error(errors::kSplitWith, {.file = with.model},
                     split.option("with") + " needs a plain ONNX model",
                     "IR text, and models with one file per rank, are split already");
    const auto same_file = [&](const std::string& other) {
      std::error_code error;
      return other == with.model || std::filesystem::equivalent(other, with.model, error);
    };
    if (std::ranges::any_of(files, same_file))
      ir::user_error(errors::kSplitWith, {.file = with.model},
                     split.option("with") + " names a model that is given already",
                     "several sizes of one model are " + split.option("at", "NAME=SIZE,...*STEPS"));
    files.push_back(with.model);
  }
}

// Annotations count wherever --devices, --tp or --mesh are given.
void refuse_annotations(const std::string& model, const SplitOptions& split) {
  const auto found = frontend::sharding::device_configuration(model, "");
  if (found && !found->nodes.empty())
    ir::user_error(errors::kSplitRequest, {.file = model},
                   fmt::format("{} is given, and the model has annotations for the configuration '{}'",
                               split.option("with"), found->name),
                   "annotations are obeyed for one program at a time: remove them, or leave out " +
                       split.option("with"));
}

frontend::ImportOptions import_of(const SplitWith& with) {
  frontend::ImportOptions import;
  import.dims = with.dims;
  import.aliases = with.aliases;
  return import;
}

}  // namespace

void check_sizes(const StepSizes& sizes, const std::map<std::string, ir::Bounds>& dims,
                 const std::string& model, const SplitOptions& split, const char* name) {
  for (const auto& [dim, size] : sizes.dims) {
    const auto known = dims.find(dim);
    const std::string given = split.option(name, fmt::format("{}={}", dim, size));
    const std::string hint = fmt::format("{} gives sizes within the bounds of {}", split.option(name),
                                         split.python ? "dims=" : "--dim or --default-dim");
    if (known == dims.end())
      ir::user_error(errors::kSplitRequest, {.file = model},
                     fmt::format("{}: the dimension has no bounds", given), hint);
    if (size < known->second.min || size > known->second.max)
      ir::user_error(errors::kSplitRequest, {.file = model},
                     fmt::format("{}: the dimension is {}..{}", given, known->second.min, known->second.max),
                     hint);
  }
}

std::int64_t bytes_of_rank(const ir::Schedule& schedule) {
  std::int64_t bytes = schedule.plan ? schedule.plan->arena_bytes + schedule.plan->comm_bytes : 0;
  for (const ir::Storage& storage : schedule.graph.storages) {
    if (storage.kind == ir::StorageKind::constant || storage.kind == ir::StorageKind::input ||
        storage.kind == ir::StorageKind::output)
      bytes += ir::bounds(storage.bytes).max;
  }
  return bytes;
}

SplitPrograms::Program::Program(const SplitWith& asked) : with(asked), model(asked.model, import_of(asked)) {}

SplitPrograms::SplitPrograms(const CompileOptions& options, const CompileOptions& quiet,
                             const analysis::CostModel& costs)
    : options_(options), quiet_(quiet) {
  if (options.split.with.empty()) return;
  check_programs(options);
  refuse_annotations(options.model, options.split);
  for (const SplitWith& with : options.split.with) {
    check_sizes(with.sizes, with.dims, with.model, options.split, "with");
    refuse_annotations(with.model, options.split);
    Program& program = programs_.emplace_back(with);
    program.point.costs = std::make_shared<const analysis::CostModel>(
        costs.machine(), analysis::CostOptions{.dims = with.sizes.dims, .cost_file = options.cost_file});
    program.point.steps = with.sizes.steps;
  }
}

void SplitPrograms::prepare() {
  for (Program& program : programs_) {
    ir::Schedule plain = program.model.lower(1, nullptr);
    program.point.attention_flops = attention_flops(plain, *program.point.costs);
    program.joins = product_joins(std::move(plain));
  }
}

SearchOptions SplitPrograms::options_of(const Program& program, const SearchOptions& first) const {
  SearchOptions options = first;
  options.steps = program.point.steps;
  options.points.clear();
  options.attention_flops = program.point.attention_flops;
  options.joins = program.joins;
  options.aliases = !program.with.aliases.empty();
  options.keep.clear();
  return options;
}

FoundPlans SplitPrograms::find_plans(frontend::PlainModel& first,
                                     const std::shared_ptr<const analysis::CostModel>& costs,
                                     const SearchOptions& options, const split::Mesh& mesh) {
  FoundPlans found;
  std::vector<PlannedProgram> planned = {{nullptr, costs, options}};
  for (const Program& program : programs_)
    planned.push_back({nullptr, program.point.costs, options_of(program, options)});
  // Graphs are valid during the calls that give them.
  const auto search = [&](const auto& self, std::size_t p) -> void {
    if (p < planned.size()) {
      frontend::PlainModel& model = p == 0 ? first : programs_[p - 1].model;
      model.with_graph([&](const Graph& graph) {
        planned[p].graph = &graph;
        self(self, p + 1);
      });
      return;
    }
    if (!shared_) {
      std::vector<const Graph*> graphs;
      std::vector<std::string> files = {options_.model};
      for (const PlannedProgram& one : planned) graphs.push_back(one.graph);
      for (const Program& program : programs_) files.push_back(program.with.model);
      shared_ = split::shared_tensors(graphs, files);
    }
    found = split::find_plans_together(planned, *shared_, mesh);
  };
  search(search, 0);
  return found;
}

analysis::Time SplitPrograms::least_time(int ranks, const SearchOptions& options) {
  analysis::Time sum;
  for (Program& program : programs_) {
    program.model.with_graph([&](const Graph& graph) {
      sum.ps += program.point.steps *
                split::least_time(graph, ranks, program.point.costs, options_of(program, options)).ps;
    });
  }
  return sum;
}

std::vector<ir::Schedule> SplitPrograms::lower(int ranks, const FoundPlan& plan) {
  std::vector<ir::Schedule> schedules;
  for (std::size_t k = 0; k < programs_.size(); ++k) {
    const auto request =
        ranks == 1 ? nullptr : frontend::sharding::plan_request(plan.with.at(k).text, "", false);
    schedules.push_back(programs_[k].model.lower(ranks, request.get()));
  }
  return schedules;
}

std::vector<SplitProgram> SplitPrograms::measure(std::vector<ir::Schedule> schedules) const {
  std::vector<SplitProgram> measured;
  for (std::size_t k = 0; k < programs_.size(); ++k) {
    const Program& program = programs_[k];
    CompileOptions options = quiet_;
    options.model = program.with.model;
    options.import = import_of(program.with);
    optimise(schedules[k], options);
    SplitProgram& one = measured.emplace_back();
    one.model = program.with.model;
    one.sizes = program.with.sizes;
    one.step =
        analysis::measure(schedules[k], *program.point.costs, {.bounds = false, .planned = false}).makespan;
    one.bytes = bytes_of_rank(schedules[k]);
  }
  return measured;
}

}  // namespace braid
