// The extern kernel `quantised_lstm` (runtime/host/quantised_lstm.h), and its interpreter by plain loops. It
// has no source for CUDA, so the CUDA target refuses it (BR0640).
#include <cmath>

#include "codegen/kernels/source_text.h"
#include "ir/extern_registry.h"

namespace braid::codegen {
namespace {

using ir::DType;

struct QuantisedLstm {
  std::int64_t steps, batch, hidden;
  bool reverse;
  bool each_column;  // scales and zero points: one per column of the weights, or one
  const float*
      gates;  // [steps, batch, 4 hidden]: products of the inputs, and biases; input, output, forget, cell
  const float* scale;        // [4 hidden] or [1]
  const std::int32_t* zero;  // the same
  const float* first_h;      // [batch, hidden]
  const float* first_c;
  const std::int32_t* lengths;  // [batch]
  float* y;                     // [steps, batch, hidden]; zeros beyond the lengths
  float* h;                     // [batch, hidden]: the last states
  float* c;
  std::int32_t* codes;  // [batch, hidden]: the states as integers less their zero point
  std::int32_t* sums;   // [batch, 4 hidden]
};

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Quantises the states and returns their scale.
float quantise_states(const QuantisedLstm& l) {
  const std::int64_t count = l.batch * l.hidden;
  float least = 0, most = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    least = l.h[k] < least ? l.h[k] : least;
    most = l.h[k] > most ? l.h[k] : most;
  }
  const float scale = (least == most ? 1.0f : most - least) / 255.0f;
  const auto clipped = [](float v) { return v > 0.0f ? (v < 255.0f ? v : 255.0f) : 0.0f; };  // 0 for NaN
  const float zero = clipped(std::nearbyint(0.0f - least / scale));
  for (std::int64_t k = 0; k < count; ++k)
    l.codes[k] = static_cast<std::int32_t>(clipped(std::nearbyint(l.h[k] / scale) + zero) - zero);
  return scale;
}

template <class Weight>
void run_layer(const QuantisedLstm& l, const Weight* weights) {
  const std::int64_t hidden = l.hidden, columns = 4 * hidden;
  for (std::int64_t k = 0; k < l.batch * hidden; ++k) {
    l.h[k] = l.first_h[k];
    l.c[k] = l.first_c[k];
  }
  for (std::int64_t k = 0; k < l.steps * l.batch * hidden; ++k) l.y[k] = 0;
  for (std::int64_t k = 0; k < l.batch * hidden; ++k) l.codes[k] = 0;
  for (std::int64_t k = 0; k < l.batch * columns; ++k) l.sums[k] = 0;
  for (std::int64_t step = 0; step < l.steps; ++step) {
    const float state_scale = quantise_states(l);
    for (std::int64_t b = 0; b < l.batch; ++b) {
      const std::int64_t length = l.lengths[b] < l.steps ? l.lengths[b] : l.steps;
      if (step >= length) continue;
      const std::int64_t at = l.reverse ? length - 1 - step : step;
      std::int32_t* const sums = l.sums + b * columns;
      for (std::int64_t j = 0; j < columns; ++j) sums[j] = 0;
      std::int32_t total = 0;
      for (std::int64_t k = 0; k < hidden; ++k) {
        const std::int32_t code = l.codes[b * hidden + k];
        const Weight* const row = weights + k * columns;
        total += code;
        for (std::int64_t j = 0; j < columns; ++j) sums[j] += code * static_cast<std::int32_t>(row[j]);
      }
      const float* const gates = l.gates + (at * l.batch + b) * columns;
      const auto gate = [&](std::int64_t j) {
        const std::int64_t p = l.each_column ? j : 0;
        return gates[j] + static_cast<float>(sums[j] - total * l.zero[p]) * (state_scale * l.scale[p]);
      };
      for (std::int64_t k = 0; k < hidden; ++k) {
        const float input = sigmoid(gate(k)), output = sigmoid(gate(hidden + k)),
                    forget = sigmoid(gate(2 * hidden + k)), cell = std::tanh(gate(3 * hidden + k));
        float& c = l.c[b * hidden + k];
        c = forget * c + input * cell;
        l.h[b * hidden + k] = l.y[(at * l.batch + b) * hidden + k] = output * std::tanh(c);
      }
    }
  }
}

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  constexpr DType kReads[] = {DType::f32, DType::i8,  DType::f32, DType::i32,
                              DType::f32, DType::f32, DType::i32};
  constexpr DType kWrites[] = {DType::f32, DType::f32, DType::f32, DType::i8, DType::i32, DType::u8};
  if (kernel.reads.size() != std::size(kReads) || kernel.writes.size() != std::size(kWrites))
    return "takes gates, weights, scales, zero points, h, c and lengths and makes y, h, c and work memory";
  for (std::size_t k = 0; k < std::size(kReads); ++k) {
    const DType type = graph[kernel.reads[k].buffer].dtype;
    if (type != kReads[k] && !(k == 1 && type == DType::u8)) return "takes other types";
  }
  for (std::size_t k = 0; k < std::size(kWrites); ++k) {
    if (graph[kernel.writes[k].buffer].dtype != kWrites[k]) return "makes other types";
  }
  const auto has = [](const ir::TensorRef& r, std::initializer_list<ir::Expr> sizes) {
    return std::equal(r.sizes.begin(), r.sizes.end(), sizes.begin(), sizes.end(),
                      [](ir::Expr a, ir::Expr b) { return ir::provably_equal(a, b); });
  };
  if (kernel.writes[0].sizes.size() != 3) return "makes y [steps, batch, hidden]";
  const ir::Expr steps = kernel.writes[0].sizes[0], batch = kernel.writes[0].sizes[1],
                 hidden = kernel.writes[0].sizes[2], columns = hidden * 4;
  const ir::Expr depth = ir::ceil_div(hidden, 4) * 4, padded = ir::ceil_div(hidden, 16) * 64;
  const bool one = has(kernel.reads[2], {1}) && has(kernel.reads[3], {1});
  if (!has(kernel.reads[0], {steps, batch, columns}) || !has(kernel.reads[1], {hidden, columns}) ||
      !(one || (has(kernel.reads[2], {columns}) && has(kernel.reads[3], {columns}))) ||
      !has(kernel.reads[4], {batch, hidden}) || !has(kernel.reads[5], {batch, hidden}) ||
      !has(kernel.reads[6], {batch}) || !has(kernel.writes[1], {batch, hidden}) ||
      !has(kernel.writes[2], {batch, hidden}) || !has(kernel.writes[3], {depth, padded}) ||
      !has(kernel.writes[4], {padded}) || !has(kernel.writes[5], {batch, depth}))
    return "takes other sizes";
  const auto reverse = kernel.attributes.find("reverse");
  if (reverse == kernel.attributes.end() || !std::holds_alternative<std::int64_t>(reverse->second))
    return "needs the integer reverse";
  return {};
}

void interpret(ir::ExternCall& call) {
  const auto f32 = [&](std::size_t k) { return call.reads[k].values<float>(); };
  const auto i32 = [&](std::size_t k) { return call.reads[k].values<std::int32_t>(); };
  const std::vector<float> gates = f32(0), scale = f32(2), first_h = f32(4), first_c = f32(5);
  const std::vector<std::int32_t> zero = i32(3), lengths = i32(6);
  const std::vector<std::int64_t> sizes = call.writes[0].sizes;
  const std::int64_t steps = sizes[0], batch = sizes[1], hidden = sizes[2];
  const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  std::vector<float> y(count(steps * batch * hidden)), h(count(batch * hidden)), c(h.size());
  std::vector<std::int32_t> codes(h.size()), sums(4 * h.size());
  const bool reverse = std::get<std::int64_t>(call.op.as<ir::ExternKernel>()->attributes.at("reverse")) != 0;
  const QuantisedLstm layer{steps,          batch,        hidden,      reverse,        scale.size() > 1,
                            gates.data(),   scale.data(), zero.data(), first_h.data(), first_c.data(),
                            lengths.data(), y.data(),     h.data(),    c.data(),       codes.data(),
                            sums.data()};
  if (call.reads[1].dtype == DType::u8)
    run_layer(layer, call.reads[1].values<std::uint8_t>().data());
  else
    run_layer(layer, call.reads[1].values<std::int8_t>().data());
  call.writes[0] = ir::make_tensor(DType::f32, sizes, y);
  call.writes[1] = ir::make_tensor(DType::f32, {batch, hidden}, h);
  call.writes[2] = ir::make_tensor(DType::f32, {batch, hidden}, c);
}

// Two per weight, step and sequence. Asked for calls that are refused, too.
double flops(const ir::ExternShapes& shapes) {
  if (shapes.reads.empty() || shapes.reads[0].size() != 3 || shapes.writes.empty() ||
      shapes.writes[0].size() != 3)
    return 0;
  double products = 2 * static_cast<double>(shapes.writes[0][2]);
  for (const std::int64_t size : shapes.reads[0]) products *= static_cast<double>(size);
  return products;
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "quantised_lstm",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::gemm,
    .flops = flops,
    .sources = {{"cpu", runtime_sources("quantised_lstm").at("cpu")}},
}};

}  // namespace
}  // namespace braid::codegen
