#include "frontend/fold.h"

#include <algorithm>

#include "frontend/measured_sizes.h"
#include "ir/interpreter.h"
#include "ir/iterations.h"
#include "ir/schedule.h"

namespace braid::frontend {
namespace {

bool is_small(std::int64_t elements) { return elements <= kMaxElements; }

// A copy of the value for another graph, if it is a constant.
std::optional<Value> as_constant(Value& value) {
  Value copy{value.name, value.dtype, value.sizes};
  if (value.constant) {
    if (!value.constant->data.same_on_all_ranks()) return std::nullopt;
    copy.constant = value.constant;
  }
  if (const std::optional<Elements>& elements = elements_of(value)) {
    if (!std::all_of(elements->values.begin(), elements->values.end(),
                     [](ir::Expr e) { return e.is_constant(); }))
      return std::nullopt;
    copy.elements = elements;
  }
  if (!copy.constant && !copy.elements) return std::nullopt;
  return copy;
}

bool all_small(const OpContext& lowered) {
  return std::all_of(lowered.outputs().begin(), lowered.outputs().end(), [](const ir::TensorBox& box) {
    if (!box.valid()) return true;
    return is_small(ir::bounds(ir::numel(box.sizes())).max);
  });
}

// Sequences and optional values, which hold boxes of the graph that they were lowered into.
bool has_values(const OpContext& lowered) {
  return std::any_of(lowered.values().begin(), lowered.values().end(),
                     [](const std::optional<Value>& value) { return value.has_value(); });
}

// Quantised weights stay integers: their product may compute in integers, and memory holds a quarter of the
// bytes.
bool are_quantised_weights(OpContext& context) {
  return context.op_type() == "DequantizeLinear" && context.has_input(0) && context.rank(0) >= 2;
}

}  // namespace

bool fold_constants(OpContext& context, const OpSpec& spec) {
  if (are_quantised_weights(context)) return false;
  if (spec.effect || context.input_count() == 0) return false;
  std::vector<std::optional<Value>> copies(static_cast<std::size_t>(context.input_count()));
  std::vector<Value*> inputs(copies.size(), nullptr);
  for (std::size_t k = 0; k < copies.size(); ++k) {
    if (!context.has_input(static_cast<int>(k))) continue;
    copies[k] = as_constant(context.value(static_cast<int>(k)));
    if (!copies[k]) return false;
    inputs[k] = &*copies[k];
  }

  // The node alone is lowered into a program of its own, which the interpreter runs.
  ir::Schedule program;
  ir::Lowering lowering(program.graph);
  // Sizes that the data decide are known when the program has run.
  const MeasureOptions measure{.allowed = true};
  MeasuredSizes measured(measure, lowering);
  OpContext lowered = context.in(lowering, measured, inputs);
  spec.lower(lowered);
  if (has_values(lowered)) return false;
  // Results whose sizes the values decide are computed in any case, as these sizes may be needed.
  const auto is_large = [](const std::optional<Value>& copy) {
    return copy && copy->constant && !is_small(copy->constant->count());
  };
  const bool decides_sizes = !program.graph.measures.empty();
  if (!decides_sizes && (std::ranges::any_of(copies, is_large) || !all_small(lowered))) return false;
  for (int k = 0; k < context.output_count(); ++k) {
    if (const std::optional<Tensor>& known = lowered.constants()[static_cast<std::size_t>(k)])
      context.set_output(k, *known);
  }
  std::vector<int> outputs;
  for (int k = 0; k < context.output_count(); ++k) {
    const ir::TensorBox& box = lowered.outputs()[static_cast<std::size_t>(k)];
    if (!box.valid()) continue;
    lowering.output("output_" + std::to_string(k), box);
    outputs.push_back(k);
  }
  for (ir::OpId op : lowering.order()) program.nodes.push_back(ir::ScheduleNode::single(op));
  // Small results may take long, such as the sum of all products of a few small tensors.
  constexpr double kMostIterations = 4e6, kMostForSizes = 64e6;
  if (ir::iterations_at_most(program.graph) > (decides_sizes ? kMostForSizes : kMostIterations)) return false;
  const std::vector<std::vector<ir::Tensor>> no_inputs(1);
  const ir::InterpreterResult result = ir::run(program, no_inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ir::Tensor& tensor = result.outputs[0][i];
    context.set_output(outputs[i], Tensor{tensor.dtype, tensor.sizes, ir::own_bytes(tensor.bytes)});
  }
  return true;
}

}  // namespace braid::frontend
