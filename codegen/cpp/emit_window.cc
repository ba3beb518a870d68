// Convolutions and pools: calls of runtime/window_kernels.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/cpp/program_emitter.h"
#include "ir/error.h"
#include "ir/kernel_parts.h"
#include "ir/post_ops.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

// Whether nothing about the operation depends on a dimension.
bool has_fixed_shape(const Operation& op, const std::vector<Window>& windows) {
  bool fixed = true;
  for_each_operand(op.kernel, [&](const TensorRef& ref, bool) {
    for (const Expr& e : ref.sizes) fixed &= e.is_constant();
    for (const Expr& e : ref.strides) fixed &= e.is_constant();
  });
  for (const Window& window : windows) fixed &= window.pad.is_constant();
  return fixed;
}

}  // namespace

// Writes the fields of a shape in runtime/window_kernels.h.
struct ProgramEmitter::WindowFields {
  const ProgramEmitter& emitter;
  std::size_t spatial;
  Writer w = {};

  void set(const std::string& field, Expr value) {
    w.line(fmt::format("s.{} = {};", field, emitter.size(value)));
  }
  // A field with one number per spatial dimension.
  template <class Number>
  void each(const char* field, const Number& number) {
    std::vector<std::string> numbers;
    for (std::size_t d = 0; d < spatial; ++d) numbers.push_back(emitter.size(number(d)));
    w.line(fmt::format("s.{} = {{{}}};", field, fmt::join(numbers, ", ")));
  }
};

void ProgramEmitter::emit_window(OpId id) {
  const Operation& op = s_.graph[id];
  const auto* convolution = op.as<Convolution>();
  const TensorRef &a = convolution != nullptr ? convolution->a : op.as<Pooling>()->x,
                  &out = convolution != nullptr ? convolution->out : op.as<Pooling>()->out;
  const std::vector<Window>& windows =
      convolution != nullptr ? convolution->windows : op.as<Pooling>()->windows;
  const std::size_t channel = windows.size() + 1;
  WindowFields s{*this, windows.size()};
  s.w.line(fmt::format("s.spatial = {};", s.spatial));
  s.set("batch", out.sizes[0]);
  s.each("in", [&](std::size_t d) { return a.sizes[d + 1]; });
  s.each("out", [&](std::size_t d) { return out.sizes[d + 1]; });
  s.each("taps", [&](std::size_t d) { return Expr(windows[d].taps); });
  s.each("stride", [&](std::size_t d) { return Expr(windows[d].stride); });
  s.each("dilation", [&](std::size_t d) { return Expr(windows[d].dilation); });
  s.each("pad", [&](std::size_t d) { return windows[d].pad; });
  s.set("a_batch", a.strides[0]);
  s.each("a_spatial", [&](std::size_t d) { return a.strides[d + 1]; });
  s.set("a_channel", a.strides[channel]);
  s.set("out_batch", out.strides[0]);
  s.each("out_spatial", [&](std::size_t d) { return out.strides[d + 1]; });
  s.set("out_channel", out.strides[channel]);

  const std::string into = address(out.buffer, out.offset, false), from = address(a.buffer, a.offset);
  if (convolution != nullptr) return emit_convolution(id, s, from, into);
  const Pooling& pool = *op.as<Pooling>();
  s.set("channels", a.sizes[channel]);
  if (pool.kind != PoolKind::max) s.w.line(fmt::format("s.kind = PoolFold::{};", to_string(pool.kind)));
  note({id}, fmt::format("{} pool", to_string(pool.kind)));
  step_.push_back(fmt::format("window({}, {{{}, nullptr, {}}});", windows_.size(), from, into));
  windows_.push_back({.shape = shape({"PoolShape", s.w.text()}), .label = label(id)});
}

void ProgramEmitter::emit_convolution(OpId id, WindowFields& s, const std::string& from,
                                      const std::string& into) {
  const Convolution& convolution = *s_.graph[id].as<Convolution>();
  const TensorRef &a = convolution.a, &b = convolution.b, &out = convolution.out;
  const bool bytes = is_byte_product(s_.graph, convolution);
  const DType type = s_.graph[a.buffer].dtype, out_type = s_.graph[out.buffer].dtype;
  const bool finished = bytes && (convolution.epilogue || s_.graph[out.buffer].dtype != DType::i32);
  internal_check(!convolution.epilogue || (bytes ? can_finish(convolution) : named_to_the_end(convolution)),
                 "codegen: no kernel has the epilogue of '{}': the schedule is not legalised",
                 s_.graph[id].name);
  if (type != DType::f32) {
    s.w.line(fmt::format("s.type = DType::{};", to_string(type)));
    s.w.line(fmt::format("s.b_type = DType::{};", to_string(s_.graph[b.buffer].dtype)));
  }
  if (!bytes && out_type != DType::f32) s.w.line(fmt::format("s.out_type = DType::{};", to_string(out_type)));
  if (finished) s.w.line("s.finished = true;");
  if (convolution.transposed) s.w.line("s.transposed = true;");
  s.set("groups", b.sizes[0]);
  s.set("channels", b.sizes[s.spatial + 1]);
  s.set("filters", b.sizes[s.spatial + 2]);
  s.set("b_group", b.strides[0]);
  s.each("b_tap", [&](std::size_t d) { return b.strides[d + 1]; });
  s.set("b_channel", b.strides[s.spatial + 1]);
  s.set("b_filter", b.strides[s.spatial + 2]);
  if (!finished) write_epilogue(s.w, convolution);
  WindowUse use;
  use.label = label(id);
  use.shape = shape({"ConvolutionShape", s.w.text()});
  const std::string weights = address(b.buffer, b.offset);
  const bool constant = s_.graph[root_storage(s_.graph, b.buffer)].kind == StorageKind::constant;
  use.weights = constant ? weights : "nullptr";
  use.packs = constant && has_fixed_shape(s_.graph[id], convolution.windows);
  std::string args = fmt::format("{}, {}, {}", from, weights, into), finish;
  if (finished) {
    const std::vector<Expr>& sizes = b.sizes;  // [groups, taps..., channels, filters]
    const bool depthwise = sizes[sizes.size() - 2].is_constant(1) && sizes.back().is_constant(1);
    finish = finish_tile(convolution, sizes.front().is_constant(1) || depthwise);
    args = fmt::format("{}, {}, nullptr, {{}}, FinishTile(tiles{})", from, weights, windows_.size());
  }
  const std::vector<std::string> operands =
      finished ? std::vector<std::string>() : post_op_operands(convolution);
  if (!operands.empty()) args += fmt::format(", {{{}}}", fmt::join(operands, ", "));
  note({id}, fmt::format("{} * {}", s_.graph[a.buffer].name, s_.graph[b.buffer].name));
  if (!finish.empty()) step_.push_back(fmt::format("const auto tiles{} = {};", windows_.size(), finish));
  step_.push_back(fmt::format("window({}, {{{}}});", windows_.size(), args));
  windows_.push_back(std::move(use));
}

}  // namespace braid::codegen::cpp
