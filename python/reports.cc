// braid.explain, braid.check and braid.ops: the data; python/braid draws it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "analysis/check/check_traces.h"
#include "codegen/manifest.h"
#include "codegen/trace_json.h"
#include "driver/program_facts.h"
#include "explain/overlap_html.h"
#include "explain/overlap_story.h"
#include "explain/overlap_text.h"
#include "frontend/import.h"
#include "frontend/op_registry.h"
#include "harness/program.h"
#include "ir/kernel_parts.h"
#include "ir/written_inputs.h"
#include "passes/pass_context.h"
#include "python/bindings.h"
#include "python/options.h"

namespace braid::python {

using namespace nanobind::literals;

namespace {

using nlohmann::ordered_json;

std::string type_text(const ir::Graph& graph, ir::BufferId buffer) {
  std::vector<std::string> sizes;
  for (ir::Expr size : graph[buffer].sizes) sizes.push_back(to_string(size));
  return fmt::format("{}[{}]", to_string(graph[buffer].dtype), fmt::join(sizes, ", "));
}

ordered_json kind_counts(const ir::Schedule& schedule) {
  std::map<std::string, int> counts;
  for (ir::OpId op : execution_order(schedule))
    ++counts[std::string(ir::kind_name(schedule.graph[op].kernel))];
  return counts;
}

ordered_json interface(const ir::Schedule& schedule) {
  const ir::Graph& graph = schedule.graph;
  ordered_json json = {{"program", graph.name}, {"ranks", graph.ranks}};
  json["dims"] = ordered_json::object();
  for (ir::Expr dim : graph.dims)
    json["dims"][std::string(dim.dim_name())] = {bounds(dim).min, bounds(dim).max};
  json["inputs"] = json["outputs"] = json["guards"] = ordered_json::array();
  const std::vector<bool> written = ir::written_inputs(schedule);
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    const ir::GraphInput& input = graph.inputs[k];
    json["inputs"].push_back(
        {{"name", input.name}, {"type", type_text(graph, input.buffer)}, {"written", bool(written[k])}});
  }
  for (const ir::GraphOutput& output : graph.outputs)
    json["outputs"].push_back({{"name", output.name}, {"type", type_text(graph, output.buffer)}});
  for (const ir::Guard& guard : graph.guards) {
    const char* relation = guard.relation == ir::Guard::Relation::equal ? "==" : "<=";
    json["guards"].push_back(
        {{"condition", fmt::format("{} {} {}", to_string(guard.lhs), relation, to_string(guard.rhs))},
         {"origin", guard.origin}});
  }
  return json;
}

// Every kernel and every step of communication, in order, with the ONNX nodes that it computes.
ordered_json kernels(const ir::Schedule& schedule) {
  ordered_json list = ordered_json::array();
  for (const ir::ScheduleNode& node : schedule.nodes) {
    std::vector<std::string> kinds, origins;
    const std::vector<ir::OpId> ops = ops_of(node);
    for (ir::OpId op : ops) {
      kinds.emplace_back(ir::kind_name(schedule.graph[op].kernel));
      for (const std::string& origin : schedule.graph[op].origins) {
        if (std::find(origins.begin(), origins.end(), origin) == origins.end()) origins.push_back(origin);
      }
    }
    const ir::Operation& last = schedule.graph[ops.back()];
    list.push_back({{"kinds", kinds},
                    {"result", last.outputs.empty() ? "" : type_text(schedule.graph, last.outputs[0])},
                    {"onnx_nodes", origins}});
  }
  return list;
}

ordered_json memory(const ir::Schedule& schedule) {
  std::int64_t weights = 0, callers = 0;
  for (const ir::Storage& s : schedule.graph.storages) {
    const std::int64_t bytes = bounds(s.bytes).max;
    if (s.kind == ir::StorageKind::constant) weights += bytes;
    if (s.kind == ir::StorageKind::input || s.kind == ir::StorageKind::output) callers += bytes;
  }
  ordered_json json = {{"weights", weights}, {"inputs_and_outputs", callers}};
  if (schedule.plan) {
    json["arena"] = schedule.plan->arena_bytes;
    json["communication"] = schedule.plan->comm_bytes;
    json["live_peak"] = schedule.plan->live_peak_bytes;
  }
  return json;
}

// {"facts": JSON, "communication": text or "", "page": HTML or ""}
std::tuple<std::string, std::string, std::string> explain_model(const nb::dict& given) {
  CompileOptions options = compile_options(given);
  const Unfinished unfinished(given);
  const nb::gil_scoped_release released;
  ir::Schedule schedule = lower(options);
  ordered_json facts = interface(schedule);
  facts["operations_as_lowered"] = kind_counts(schedule);
  passes::PassContext context = pass_context(options);
  explain::OverlapObserver observer(context);
  options.run.observers.push_back(
      [&](const passes::PassRun& run) { observer.observe(run.pass, run.before, run.after); });
  const std::vector<passes::PassRecord> records = optimise(schedule, options, context);
  const explain::OverlapStory story = observer.story(schedule);
  facts["operations_after_the_passes"] = kind_counts(schedule);
  facts["passes"] = ordered_json::array();
  for (const passes::PassRecord& record : records)
    facts["passes"].push_back(
        {{"name", record.name}, {"changed", record.outcome == passes::PassRecord::Outcome::changed}});
  facts["kernels"] = kernels(schedule);
  facts["memory"] = memory(schedule);
  if (!story.any_collective) return {facts.dump(), "", ""};
  facts["communication"] = ordered_json::parse(explain::to_json(story));
  return {facts.dump(), explain::to_text(story),
          explain::html_page(
              story, {{"before the passes", &story.first_view}, {"after the passes", &story.last_view}})};
}

// Returns the facts in a compiled program's folder, as JSON. Kernels are only those of CPU programs whose
// library exists.
std::string explain_program(const std::string& dir) {
  const nb::gil_scoped_release released;
  ProgramFacts told = program_facts(dir);
  told.facts["collectives_in_order"] = told.collectives_in_order;
  told.facts["collective_lines"] = told.collectives;
  const codegen::Manifest manifest = codegen::read_manifest(dir);
  const codegen::Target& target = codegen::target_named(manifest.target);
  const std::filesystem::path library = std::filesystem::path(dir) / (manifest.name + target.library);
  if (target.abi == codegen::ProgramAbi::host && std::filesystem::exists(library)) {
    const auto program = harness::load_program(harness::find_library(dir, manifest, {}, dir));
    told.facts["kernels"] = ordered_json::array();
    for (const BraidNode& node : program->nodes())
      told.facts["kernels"].push_back({{"name", node.name}, {"label", node.label}});
  }
  return told.facts.dump();
}

// The programs of several ranks need not have the same dims: each takes the bounds of its own.
void keep_own_dims(CompileOptions& options) {
  const bool text = is_text(options.model);
  const std::set<std::string> own = text ? std::set<std::string>{} : frontend::dimension_names(options.model);
  std::erase_if(options.import.dims, [&](const auto& dim) { return !own.contains(dim.first); });
}

// Returns the fields of a braid::check::Certificate, and its text.
nb::dict check_files(const std::vector<std::string>& files, const std::vector<nb::dict>& given) {
  std::vector<std::optional<CompileOptions>> all;  // nullopt: a compiled program
  for (std::size_t k = 0; k < files.size(); ++k) {
    const bool compiled = std::filesystem::exists(std::filesystem::path(files[k]) / "manifest.json");
    all.push_back(compiled ? std::nullopt : std::optional(compile_options(given[k])));
  }
  check::Certificate certificate;
  {
    const nb::gil_scoped_release released;
    std::vector<ir::CollectiveTrace> traces;
    for (std::size_t k = 0; k < files.size(); ++k) {
      if (!all[k]) {
        traces.push_back(codegen::read_program_trace(files[k]));
        continue;
      }
      CompileOptions& options = *all[k];
      if (options.import.ranks == 1 && files.size() > 1 && !options.split.wanted())
        options.import.ranks = static_cast<int>(files.size());
      if (files.size() > 1) keep_own_dims(options);
      ir::Schedule schedule = lower(options);
      if (!is_text(files[k])) optimise(schedule, options);
      traces.push_back(ir::collective_trace(schedule, files[k]));
    }
    certificate = check::check_traces(traces);
  }
  nb::dict result;
  result["text"] = to_string(certificate);
  result["ranks"] = certificate.ranks;
  result["channels"] = std::string(to_string(certificate.channels));
  nb::list groups;
  for (const check::Certificate::Line& line : certificate.lines)
    groups.append(nb::make_tuple(line.what, line.collectives, line.hash));
  result["groups"] = groups;
  result["order"] = certificate.order;
  return result;
}

nb::list all_operators(const std::vector<std::string>& plugins) {
  nb::dict options;
  options["plugins"] = plugins;
  compile_options(options);  // loads them
  nb::list list;
  for (const frontend::OpSpec& op : frontend::all_ops()) {
    std::vector<std::string> types;
    for (ir::DType t : op.types.list()) types.emplace_back(ir::to_string(t));
    list.append(nb::make_tuple(op.domain.empty() ? "ai.onnx" : op.domain, op.name, op.first_version,
                               op.last_version, types));
  }
  return list;
}

}  // namespace

void bind_reports(nb::module_& module) {
  module.def("explain", &explain_model, "options"_a);
  module.def("explain_program", &explain_program, "folder"_a);
  module.def("check", &check_files, "files"_a, "options"_a);
  module.def("operators", &all_operators, "plugins"_a);
}

}  // namespace braid::python
