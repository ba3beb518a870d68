#include "codegen/cuda/recurrence.h"

#include <fmt/format.h>

#include "codegen/cuda/scalar.h"

namespace braid::codegen::cuda {

using ir::DType;
using ir::TensorRef;

Launch recurrence_kernel(const ir::Graph& graph, ir::OpId op) {
  const auto& r = *graph[op].as<ir::Recurrence>();
  const DType type = graph[r.gates.buffer].dtype, acc = accumulator_dtype(type);
  const std::string acc_type = value_type(acc);
  KernelBuilder k(graph, true);
  k.line(fmt::format("RecurrentLayer<{}, {}> layer;", memory_type(type), acc_type));
  const auto set = [&](const std::string& field, const std::string& value) {
    k.line(fmt::format("layer.{} = {};", field, value));
  };
  const auto operand = [&](const char* field, const TensorRef& ref, bool written = false) {
    const std::string base = written ? k.output(ref.buffer) : k.input(ref.buffer);
    set(field, ref.offset.is_constant(0) ? base : fmt::format("{} + {}", base, k.operand(ref.offset, {})));
  };
  set("steps", k.expr(r.gates.sizes[0], {}));
  set("batch", k.expr(r.gates.sizes[1], {}));
  set("hidden", k.expr(r.weights.sizes[0], {}));
  if (r.reverse) set("reverse", "true");
  if (r.linear_before_reset) set("linear_before_reset", "true");
  if (r.coupled) set("coupled", "true");
  if (r.clip > 0) set("clip", literal(acc, r.clip));
  operand("gates", r.gates);
  operand("weights", r.weights);
  for (int d = 0; d < 2; ++d)
    set(fmt::format("weight_strides[{}]", d), k.expr(r.weights.strides[static_cast<std::size_t>(d)], {}));
  operand("initial_h", r.initial_h);
  if (r.initial_c) operand("initial_c", *r.initial_c);
  if (r.bias) operand("bias", *r.bias);
  if (r.peepholes) operand("peepholes", *r.peepholes);
  if (r.lengths) {
    operand("lengths", *r.lengths);
    k.check_indices();
    set("error", "error");
    set("site", "site");
  }
  operand("y", r.results[0], true);
  operand("h", r.results[1], true);
  if (r.cell == ir::CellKind::lstm) operand("c", r.results[2], true);
  operand("work", r.results.back(), true);

  std::string activations;
  for (std::size_t a = 0; a < r.activations.size(); ++a) {
    k.open(fmt::format("const auto activation{} = []({} acc)", a, acc_type));
    k.line(fmt::format("return {};", k.body(r.activations[a], {}, {}, "acc")));
    k.close("};");
    activations += fmt::format(", activation{}", a);
  }
  k.line(fmt::format("run_{}(layer{});", to_string(r.cell), activations));
  Launch launch = k.finish();
  launch.wanted_name = to_string(r.cell);
  launch.count = host_expr(r.gates.sizes[1]);
  launch.variants = {
      {.grid = "grid_for(count, 1)", .block = fmt::format("block_for({})", host_expr(r.weights.sizes[0]))}};
  return launch;
}

}  // namespace braid::codegen::cuda
