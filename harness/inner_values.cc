#include "harness/inner_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/temp_dir.h"
#include "harness/reference.h"
#include "ir/interpreter.h"

namespace braid::harness {
namespace {

// Makes outputs of an IR text's buffers: of all that are contiguous and changed by no later operation.
void keep_buffers(ir::Schedule& schedule) {
  ir::Graph& graph = schedule.graph;
  std::set<int> taken, changed;
  schedule.plan.reset();  // it has no room for what is kept
  for (const ir::GraphOutput& output : graph.outputs) taken.insert(output.buffer.index);
  for (const ir::Buffer& buffer : graph.buffers) {
    if (const auto* mutation = std::get_if<ir::MutationOutput>(&buffer.layout))
      changed.insert(mutation->of.index);
  }
  for (const ir::OpId id : execution_order(schedule)) {
    for (const ir::BufferId b : graph[id].outputs) {
      const ir::Layout& layout = graph[b].layout;
      const bool tensor = !std::holds_alternative<ir::NoneLayout>(layout) &&
                          !std::holds_alternative<ir::MultiOutputLayout>(layout) &&
                          is_contiguous(graph[b].sizes, strides_of(graph, b));
      if (tensor && changed.count(b.index) == 0 && taken.insert(b.index).second)
        graph.outputs.push_back({graph[b].name, b});
    }
  }
}

// Returns the node that computes an output.
frontend::ValueSource source_of(const ir::Schedule& schedule, std::size_t output,
                                const std::map<std::string, frontend::ValueSource>& sources) {
  const ir::GraphOutput& kept = schedule.graph.outputs[output];
  if (const auto found = sources.find(kept.name); found != sources.end()) return found->second;
  const ir::StorageId storage = root_storage(schedule.graph, kept.buffer);
  frontend::ValueSource source;
  for (const ir::OpId id : execution_order(schedule)) {
    const ir::Operation& op = schedule.graph[id];
    for (const ir::BufferId b : op.outputs) {
      if (root_storage(schedule.graph, b) == storage)
        source.node = op.origins.empty() ? op.name : op.origins.back();
    }
  }
  return source;
}

}  // namespace

InnerComparison compare_inner_values(const CompileOptions& options, const ExecuteOptions& execution,
                                     const RankTensors& inputs, const InnerReference& reference) {
  const codegen::TempDir temporary;
  CompileOptions keeping = options;
  keeping.output_dir = temporary.path();
  const bool text = is_text(options.model);
  const std::size_t own = lower(options).graph.outputs.size();
  keeping.import.keep_values = true;
  ir::Schedule lowered = lower(keeping);
  if (text) keep_buffers(lowered);
  ir::Schedule schedule = lowered;
  optimise(schedule, keeping);
  emit_program(schedule, keeping);

  const std::shared_ptr<const Program> program =
      load_program(find_program(temporary.path(), execution.device, options.model));
  const std::vector<RankResult> results = execute(*program, inputs, execution);
  std::map<std::string, frontend::ValueSource> sources;
  if (!text) sources = frontend::value_sources(options.model);
  std::vector<bool> known(lowered.graph.outputs.size(), true);  // to the reference
  RankTensors expected;
  if (reference.onnxruntime) {
    for (std::size_t k = own; k < known.size(); ++k)
      known[k] = sources.count(lowered.graph.outputs[k].name) > 0;
    expected =
        onnxruntime_outputs(options.model, options.import.fixed, program->interface(), inputs, known, own);
  } else {
    expected = ir::run(lowered, inputs).outputs;
  }

  InnerComparison out;
  for (std::size_t k = own; k < known.size(); ++k) {
    if (!known[k]) continue;
    ++out.compared;
    for (const RankResult& result : results) {
      const auto r = static_cast<std::size_t>(result.rank);
      const Difference d = reference.compare(result.outputs[k], expected[r][k]);
      if (reference.agrees(result.outputs[k], d)) continue;
      const frontend::ValueSource source = source_of(lowered, k, sources);
      out.first = {lowered.graph.outputs[k].name,
                   source.node,
                   source.op,
                   result.rank,
                   d,
                   worst_text(result.outputs[k], expected[r][k], d)};
      return out;
    }
  }
  return out;
}

}  // namespace braid::harness
