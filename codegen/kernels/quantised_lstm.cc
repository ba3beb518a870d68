// The extern kernel `quantised_lstm` (runtime/host/quantised_lstm.h). It has no source for CUDA, so the CUDA
// target refuses it (BR0640).
#include "runtime/quantised_lstm.h"

#include "codegen/kernels/source_text.h"
#include "ir/extern_registry.h"

namespace braid::codegen {
namespace {

using ir::DType;

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  constexpr DType kReads[] = {DType::f32, DType::i8,  DType::f32, DType::i32,
                              DType::f32, DType::f32, DType::i32};
  constexpr DType kWrites[] = {DType::f32, DType::f32, DType::f32, DType::i32, DType::i32};
  if (kernel.reads.size() != std::size(kReads) || kernel.writes.size() != std::size(kWrites))
    return "takes gates, weights, scales, zero points, h, c and lengths and makes y, h, c, codes and sums";
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
  const bool one = has(kernel.reads[2], {1}) && has(kernel.reads[3], {1});
  if (!has(kernel.reads[0], {steps, batch, columns}) || !has(kernel.reads[1], {hidden, columns}) ||
      !(one || (has(kernel.reads[2], {columns}) && has(kernel.reads[3], {columns}))) ||
      !has(kernel.reads[4], {batch, hidden}) || !has(kernel.reads[5], {batch, hidden}) ||
      !has(kernel.reads[6], {batch}) || !has(kernel.writes[1], {batch, hidden}) ||
      !has(kernel.writes[2], {batch, hidden}) || !has(kernel.writes[3], {batch, hidden}) ||
      !has(kernel.writes[4], {batch, columns}))
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
  const rt::QuantisedLstm layer{steps,          batch,        hidden,      reverse,        scale.size() > 1,
                                gates.data(),   scale.data(), zero.data(), first_h.data(), first_c.data(),
                                lengths.data(), y.data(),     h.data(),    c.data(),       codes.data(),
                                sums.data()};
  if (call.reads[1].dtype == DType::u8)
    rt::quantised_lstm_run(layer, call.reads[1].values<std::uint8_t>().data());
  else
    rt::quantised_lstm_run(layer, call.reads[1].values<std::int8_t>().data());
  call.writes[0] = ir::make_tensor(DType::f32, sizes, y);
  call.writes[1] = ir::make_tensor(DType::f32, {batch, hidden}, h);
  call.writes[2] = ir::make_tensor(DType::f32, {batch, hidden}, c);
  call.writes[3] = ir::make_tensor(DType::i32, {batch, hidden}, codes);
  call.writes[4] = ir::make_tensor(DType::i32, {batch, 4 * hidden}, sums);
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
