// braid explain: the result of compiling a model: operations, kernels after fusion, buffers, planned bytes,
// collectives, and how far their communication is hidden.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "analysis/costs/cost_file.h"
#include "cli/bytes_text.h"
#include "cli/comm_buffer_table.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/program_facts.h"
#include "cli/report.h"
#include "cli/tell_split.h"
#include "cli/tell_stages.h"
#include "codegen/output_files.h"
#include "codegen/target.h"
#include "driver/split_report.h"
#include "explain/compare_timelines.h"
#include "explain/measured_timeline.h"
#include "explain/measured_timeline_json.h"
#include "explain/overlap_html.h"
#include "explain/overlap_story.h"
#include "explain/overlap_text.h"
#include "frontend/traces/import_trace.h"
#include "harness/program_files.h"
#include "ir/error.h"
#include "ir/kernel_parts.h"
#include "ir/written_inputs.h"

namespace braid::cli {
namespace {

using ir::OpId;
using ir::Schedule;

constexpr std::size_t kMostTimes = 20;  // without --kernels

struct ExplainOptions {
  ModelOptions model;
  bool timing = false;
  bool all = false;
  std::string html, trace, measured;
};

std::string kind_of(const ir::Operation& op) {
  std::string name(ir::kind_name(op.kernel));
  if (const auto* gemm = op.as<ir::Gemm>(); gemm != nullptr && gemm->epilogue) name += "+epilogue";
  if (op.as<ir::CollectiveKernel>() != nullptr) name += ".start";
  return name;
}

std::string shape(const ir::Graph& graph, ir::BufferId id) {
  std::string text(to_string(graph[id].dtype));
  text += '[';
  for (std::size_t k = 0; k < graph[id].sizes.size(); ++k) {
    text += (k ? ", " : "") + to_string(graph[id].sizes[k]);
  }
  return text + ']';
}

std::map<std::string, int> count_kinds(const Schedule& schedule) {
  std::map<std::string, int> counts;
  for (OpId op : execution_order(schedule)) ++counts[kind_of(schedule.graph[op])];
  return counts;
}

void print_counts(const Report& report, const char* heading, const std::map<std::string, int>& counts) {
  report.print("{}\n", heading);
  for (const auto& [kind, count] : counts) report.print("  {:<22} {:>6}\n", kind, count);
}

void print_interface(const Report& report, const Schedule& schedule) {
  const ir::Graph& graph = schedule.graph;
  for (ir::Expr d : graph.dims) {
    report.print("dim     {} in [{}, {}]\n", to_string(d), bounds(d).min, bounds(d).max);
  }
  const std::vector<bool> written = ir::written_inputs(schedule);
  for (std::size_t k = 0; k < graph.inputs.size(); ++k)
    report.print("input   {}: {}{}\n", graph.inputs[k].name, shape(graph, graph.inputs[k].buffer),
                 written[k] ? ", written by a step" : "");
  for (const ir::GraphOutput& o : graph.outputs)
    report.print("output  {}: {}\n", o.name, shape(graph, o.buffer));
  for (const ir::Guard& g : graph.guards) {
    report.print("guard   {} {} {}  ({})\n", to_string(g.lhs),
                 g.relation == ir::Guard::Relation::equal ? "==" : "<=", to_string(g.rhs), g.origin);
  }
}

void print_kernels(const Report& report, const Schedule& schedule) {
  report.print("\nKernels in order\n");
  int step = 0;
  for (const ir::ScheduleNode& node : schedule.nodes) {
    const std::vector<OpId> ops = ops_of(node);
    std::string kinds;
    std::vector<std::string> origins;
    for (OpId op : ops) {
      kinds += (kinds.empty() ? "" : " ") + kind_of(schedule.graph[op]);
      for (const std::string& o : schedule.graph[op].origins) {
        if (std::find(origins.begin(), origins.end(), o) == origins.end()) origins.push_back(o);
      }
    }
    const ir::Operation& last = schedule.graph[ops.back()];
    std::string result = last.outputs.empty() ? "" : shape(schedule.graph, last.outputs[0]);
    report.print("  {:>4}  {}: {}", step++, kinds, result);
    if (!origins.empty()) report.print("   <- {}", fmt::join(origins, ", "));
    report.print("\n");
  }
}

// Prints the times of kernels and communication steps from a cost file, the slowest first.
void print_times(Report& report, const Schedule& schedule, const std::string& file, bool all) {
  struct Row {
    std::string name;
    double ns;
  };
  const analysis::CostEntries known = analysis::read_cost_file(file);
  std::vector<Row> rows;
  double total = 0;
  for (const ir::ScheduleNode& node : schedule.nodes) {
    const std::string& name =
        node.kind == ir::ScheduleNode::Kind::single ? schedule.graph[node.op].name : node.name;
    const auto found = known.find(name);
    if (found == known.end()) continue;
    rows.push_back({name, found->second});
    total += found->second;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ns > b.ns; });
  report.print("\nTimes of {}: {:.1f} us for {} of {} kernels and communication steps\n", file, total / 1e3,
               rows.size(), schedule.nodes.size());
  nlohmann::ordered_json& json = report.json()["times"] = nlohmann::ordered_json::array();
  for (std::size_t k = 0; k < rows.size(); ++k) {
    json.push_back({{"name", rows[k].name}, {"ns", rows[k].ns}});
    if (k < kMostTimes || all)
      report.print("  {:>10.1f} us {:>5.1f}%  {}\n", rows[k].ns / 1e3,
                   total > 0 ? 100 * rows[k].ns / total : 0.0, rows[k].name);
  }
  if (rows.size() > kMostTimes && !all)
    report.print("  and {} more: --kernels lists all\n", rows.size() - kMostTimes);
}

// Products of simple kernels, with the reason.
void print_simple_products(Report& report, const Schedule& schedule, const codegen::Target& target) {
  if (!target.why_not_library) return;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (OpId id : nested_order(schedule)) {
    const ir::Operation& op = schedule.graph[id];
    const auto* product = op.as<ir::Gemm>();
    if (product == nullptr) continue;
    const std::string why = target.why_not_library(schedule.graph, *product);
    if (why.empty()) continue;
    if (all.empty()) report.print("\nProducts that the matrix library does not take\n");
    report.print("  {}: {}   <- {}\n", op.name, why, fmt::join(op.origins, ", "));
    all.push_back({{"product", op.name}, {"reason", why}, {"nodes", op.origins}});
  }
  report.json()["simple_products"] = std::move(all);
}

// Loops that the cost model expects below a tenth of the roof of memory: they compute for more than ten times
// as long as their data take to move, because they visit them again and again.
void print_slow_loops(Report& report, const Schedule& schedule, const analysis::CostModel& costs) {
  constexpr double kTimes = 10;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (OpId id : nested_order(schedule)) {
    const ir::Operation& op = schedule.graph[id];
    if (op.as<ir::Loops>() == nullptr) continue;
    const analysis::KernelWork work = analysis::kernel_work(
        schedule.graph, op, [&](const ir::Expr& e) { return costs.value(e); },
        [](ir::BufferId) { return false; });
    const analysis::Roofline roof = analysis::roofline(costs.machine(), work);
    if (roof.memory_us <= 0 || roof.compute_us <= kTimes * roof.memory_us) continue;
    const double times = roof.compute_us / roof.memory_us;
    if (all.empty())
      report.print("\nLoops that compute more than ten times as long as their data take to move\n");
    report.print("  {}: {:.0f} times, {:.3g} operations{}\n", op.name, times, work.flops,
                 op.origins.empty() ? "" : fmt::format("   <- {}", fmt::join(op.origins, ", ")));
    all.push_back({{"kernel", op.name}, {"times", times}, {"operations", work.flops}, {"nodes", op.origins}});
  }
  report.json()["slow_loops"] = std::move(all);
}

void print_collectives(const Report& report, const Schedule& schedule) {
  int sequence = 0;
  for (OpId id : execution_order(schedule)) {
    const ir::Operation& op = schedule.graph[id];
    const auto* c = op.as<ir::CollectiveKernel>();
    if (!c) continue;
    if (sequence == 0) report.print("\nCollectives in issue order\n");
    const ir::TensorRef& payload = c->inputs.empty() ? c->outputs[0] : c->inputs[0];
    const ir::Buffer& buffer = schedule.graph[payload.buffer];
    const std::int64_t bytes = bounds(numel(payload.sizes)).max * size_of(buffer.dtype);
    const ir::StorageId storage = root_storage(schedule.graph, payload.buffer);
    std::string place = "not in the communication segment";
    if (schedule.plan && schedule.plan->placements.contains(storage)) {
      const ir::Placement& p = schedule.plan->placements.at(storage);
      place = fmt::format("{} offset {}", p.space == ir::MemorySpace::comm ? "segment" : "arena", p.offset);
    }
    report.print("  {:>4}  {:<14} group {:<10} {:>12} at most   {}   <- {}\n", sequence++, to_string(c->kind),
                 schedule.graph[c->group].name, bytes_text(bytes), place, fmt::join(op.origins, ", "));
  }
}

void print_memory(Report& report, const Schedule& schedule) {
  std::int64_t constants = 0, outputs = 0, inputs = 0;
  int buffers = 0;
  for (const ir::Storage& s : schedule.graph.storages) {
    const std::int64_t bytes = bounds(s.bytes).max;
    if (s.kind == ir::StorageKind::constant) constants += bytes;
    if (s.kind == ir::StorageKind::output) outputs += bytes;
    if (s.kind == ir::StorageKind::input) inputs += bytes;
    if (s.kind == ir::StorageKind::activation || s.kind == ir::StorageKind::comm) ++buffers;
  }
  report.json()["memory"] = {{"weights", constants}, {"inputs_and_outputs", inputs + outputs}};
  report.print("\nMemory per rank, at the upper bounds of all dimensions\n");
  report.print("  {:<34} {:>14}\n", "weights", bytes_text(constants));
  report.print("  {:<34} {:>14}\n", "inputs and outputs (the caller's)", bytes_text(inputs + outputs));
  if (schedule.plan) {
    const ir::MemoryPlan& plan = *schedule.plan;
    report.json()["memory"].update({{"arena", plan.arena_bytes},
                                    {"communication_segment", plan.comm_bytes},
                                    {"live_peak", plan.live_peak_bytes}});
    report.print("  {:<34} {:>14}\n",
                 fmt::format("arena ({} placed of {} buffers)", plan.placements.size(), buffers),
                 bytes_text(plan.arena_bytes));
    report.print("  {:<34} {:>14}\n", "communication segment", bytes_text(plan.comm_bytes));
    report.print("  {:<34} {:>14}\n", "planned bytes", bytes_text(plan.arena_bytes + plan.comm_bytes));
    report.print("  {:<34} {:>14}\n", "live peak", bytes_text(plan.live_peak_bytes));
  }
}

// Prints measured and simulated values and writes the requested files.
void tell(const ExplainOptions& o, Report& report, const explain::OverlapStory& story,
          const Schedule& schedule) {
  std::vector<std::pair<std::string, const explain::TimelineView*>> views = {
      {"before the passes", &story.first_view}, {"after the passes", &story.last_view}};
  std::vector<std::pair<std::string, explain::TimelineView>> ranks;
  if (!o.measured.empty()) {
    const explain::MeasuredTimeline measured = explain::read_timeline(o.measured);
    report.print("\n{}", compare(story, schedule, measured));
    ranks = explain::views(measured);
    for (const auto& [name, view] : ranks) views.emplace_back("measured, " + name, &view);
  }
  report.json().update(nlohmann::ordered_json::parse(explain::to_json(story)));
  report.json()["communication_buffers"] = comm_buffer_json(schedule);
  if (!o.trace.empty()) codegen::write_file(o.trace, explain::chrome_trace(views));
  if (!o.html.empty()) codegen::write_file(o.html, explain::html_page(story, views));
}

// Runs the passes and records what they did to communication.
std::pair<std::vector<passes::PassRecord>, explain::OverlapStory> follow(Schedule& schedule,
                                                                         CompileOptions options) {
  passes::PassContext context = pass_context(options);
  explain::OverlapObserver observer(context);
  options.run.observers.push_back(
      [&](const passes::PassRun& run) { observer.observe(run.pass, run.before, run.after); });
  std::vector<passes::PassRecord> records = optimise(schedule, options, context);
  return {std::move(records), observer.story(schedule)};
}

// For another tool's trace: the recorded order, and the gain of a better one.
int explain_trace(const ExplainOptions& o, Report& report) {
  CompileOptions options = compile_options(o.model, report);
  frontend::ImportedTrace trace = frontend::import_trace(o.model.model);
  if (options.machine.empty()) options.machine = trace.machine;
  if (!options.passes) options.passes = "braid_schedule";
  report.print("{} trace: {} kernels, {} collectives\n", trace.format, trace.kernels, trace.collectives);
  if (!trace.recorded.empty()) {
    const frontend::RecordedTimes& t = trace.times;
    fmt::print(
        "as recorded: {:.3f} us; computing {:.3f}, communicating {:.3f}, of which exposed {:.3f}; idle "
        "{:.3f}\n",
        t.makespan / 1e3, t.compute / 1e3, t.communication / 1e3, t.exposed / 1e3, t.idle / 1e3);
  }
  for (const std::string& a : trace.assumptions) report.print("assumed: {}\n", a);
  const auto [records, story] = follow(trace.schedule, options);
  report.print("\n{}", explain::to_text(story));
  tell(o, report, story, trace.schedule);
  return 0;
}

// Explains a compiled program from its folder, without the model.
int explain_program(const ExplainOptions& o, Report& report) {
  tell_program(o.model.model, report);
  tell_collectives(o.model.model, report);
  if (o.all) tell_nodes(o.model.model, report);
  return 0;
}

int run(const ExplainOptions& o, Report& report) {
  if (harness::is_program_dir(o.model.model)) return explain_program(o, report);
  if (frontend::looks_like_trace(o.model.model)) return explain_trace(o, report);
  CompileOptions options = compile_options(o.model, report);
  refuse_for_text(o.model);
  options.split_report = std::make_shared<SplitReport>();
  options.split.explain = true;
  options.split.weights = false;
  const auto lowered_schedule = [&] {
    try {
      return lower(options);
    } catch (const ir::UserError&) {
      // Where no plan of one stage fits, those of several may.
      tell_stages(options.split_report->stages, report);
      throw;
    }
  };
  Schedule schedule = lowered_schedule();
  if (options.split.wanted()) {
    report.print("{}\n", to_string(*options.split_report));
    write_split(*options.split_report, report);
    tell_stages(options.split_report->stages, report);
  }
  report.print("program {}, {} rank{}\n", schedule.graph.name, schedule.graph.ranks,
               schedule.graph.ranks == 1 ? "" : "s");
  print_interface(report, schedule);
  report.print("\n");
  print_counts(report, "Operations as lowered", count_kinds(schedule));
  report.json()["program"] = schedule.graph.name;
  report.json()["ranks"] = schedule.graph.ranks;
  report.json()["operations"]["lowered"] = count_kinds(schedule);
  const std::size_t lowered = execution_order(schedule).size();
  const auto [records, story] = follow(schedule, options);
  report.print("\n");
  print_counts(report, "Operations after the passes", count_kinds(schedule));
  report.json()["operations"]["after_passes"] = count_kinds(schedule);
  report.print("\n{} operations lowered, {} left, in {} kernels and communication steps\n", lowered,
               execution_order(schedule).size(), schedule.nodes.size());
  if (o.timing) report.print("\nPasses\n{}", passes::to_string(records));
  if (o.all) print_kernels(report, schedule);
  if (!o.model.cost_file.empty()) print_times(report, schedule, o.model.cost_file, o.all);
  print_simple_products(report, schedule, codegen::target_named(options.target));
  print_slow_loops(report, schedule, *pass_context(options).costs);
  print_collectives(report, schedule);
  report.print("{}", comm_buffer_text(schedule));
  print_memory(report, schedule);
  if (story.any_collective) report.print("\n{}", explain::to_text(story));
  tell(o, report, story, schedule);
  return 0;
}

}  // namespace

void add_explain(Command app, Invocation& chosen) {
  auto o = std::make_shared<ExplainOptions>();
  const Command command = app.subcommand(
      "explain",
      "Show the result of compiling a model, or a recorded trace: kernels, buffers, bytes, communication");
  command.footer(
      "Example: braid explain model.rank{rank}.onnx --ranks 2 --dim batch=1..8 --dim sequence=1..128 "
      "--kernels");
  command
      .option("MODEL", o->model.model,
              "ONNX model, IR text (.braid), folder of a compiled program, or a trace of PyTorch's "
              "profiler or Chakra")
      .required();
  command.option("--html", o->html, "Write one page with timelines, memory curves and tables");
  command.option("--trace", o->trace, "Write the simulated timelines as a Chrome trace");
  command.option("--compare", o->measured,
                 "A timeline of 'braid run --trace', to compare with the simulated one");
  command.flag("--timing", o->timing, "Show what each pass did and took");
  command.flag("--kernels", o->all, "List every kernel with its ONNX nodes");
  add_options(command, o->model);
  command.callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
