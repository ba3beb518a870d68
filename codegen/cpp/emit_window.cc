// Convolutions and pools: calls of runtime/window_kernels.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/cpp/program_emitter.h"
#include "ir/error.h"
#include "ir/kernel_parts.h"
#include "ir/post_ops.h"

namespace braid::codegen::cpp {

using namespace ir;

void ProgramEmitter::emit_window(OpId id) {
  const Operation& op = s_.graph[id];
  const auto* convolution = op.as<Convolution>();
  const TensorRef &a = convolution != nullptr ? convolution->a : op.as<Pooling>()->x,
                  &out = convolution != nullptr ? convolution->out : op.as<Pooling>()->out;
  const std::vector<Window>& windows =
      convolution != nullptr ? convolution->windows : op.as<Pooling>()->windows;
  const std::size_t spatial = windows.size(), channel = spatial + 1;
  Writer w;
  const auto set = [&](const std::string& field, Expr value) {
    w.line(fmt::format("s.{} = {};", field, size(value)));
  };
  // Fields with one number per spatial dimension.
  const auto each = [&](const char* field, const auto& number) {
    std::vector<std::string> numbers;
    for (std::size_t d = 0; d < spatial; ++d) numbers.push_back(size(number(d)));
    w.line(fmt::format("s.{} = {{{}}};", field, fmt::join(numbers, ", ")));
  };
  w.line(fmt::format("s.spatial = {};", spatial));
  set("batch", out.sizes[0]);
  each("in", [&](std::size_t d) { return a.sizes[d + 1]; });
  each("out", [&](std::size_t d) { return out.sizes[d + 1]; });
  each("taps", [&](std::size_t d) { return Expr(windows[d].taps); });
  each("stride", [&](std::size_t d) { return Expr(windows[d].stride); });
  each("dilation", [&](std::size_t d) { return Expr(windows[d].dilation); });
  each("pad", [&](std::size_t d) { return windows[d].pad; });
  set("a_batch", a.strides[0]);
  each("a_spatial", [&](std::size_t d) { return a.strides[d + 1]; });
  set("a_channel", a.strides[channel]);
  set("out_batch", out.strides[0]);
  each("out_spatial", [&](std::size_t d) { return out.strides[d + 1]; });
  set("out_channel", out.strides[channel]);

  const std::string into = address(out.buffer, out.offset, false), from = address(a.buffer, a.offset);
  WindowUse use;
  use.label = label(id);
  std::string args, what, finish;
  if (convolution == nullptr) {
    const Pooling& pool = *op.as<Pooling>();
    set("channels", a.sizes[channel]);
    if (pool.kind == PoolKind::average) w.line("s.average = true;");
    use.shape = shape({"PoolShape", w.text()});
    args = fmt::format("{}, nullptr, {}", from, into);
    what = fmt::format("{} pool", to_string(pool.kind));
  } else {
    const TensorRef& b = convolution->b;
    const bool bytes = is_byte_product(s_.graph, *convolution);
    const DType type = s_.graph[a.buffer].dtype, out_type = s_.graph[out.buffer].dtype;
    const bool finished = bytes && (convolution->epilogue || s_.graph[out.buffer].dtype != DType::i32);
    internal_check(
        !convolution->epilogue || (bytes ? can_finish(*convolution) : named_to_the_end(*convolution)),
        "codegen: no kernel has the epilogue of '{}': the schedule is not legalised", op.name);
    if (type != DType::f32) {
      w.line(fmt::format("s.type = DType::{};", to_string(type)));
      w.line(fmt::format("s.b_type = DType::{};", to_string(s_.graph[b.buffer].dtype)));
    }
    if (!bytes && out_type != DType::f32) w.line(fmt::format("s.out_type = DType::{};", to_string(out_type)));
    if (finished) w.line("s.finished = true;");
    if (convolution->transposed) w.line("s.transposed = true;");
    set("groups", b.sizes[0]);
    set("channels", b.sizes[spatial + 1]);
    set("filters", b.sizes[spatial + 2]);
    set("b_group", b.strides[0]);
    each("b_tap", [&](std::size_t d) { return b.strides[d + 1]; });
    set("b_channel", b.strides[spatial + 1]);
    set("b_filter", b.strides[spatial + 2]);
    if (!finished) write_epilogue(w, *convolution);
    use.shape = shape({"ConvolutionShape", w.text()});
    const std::string weights = address(b.buffer, b.offset);
    const bool constant = s_.graph[root_storage(s_.graph, b.buffer)].kind == StorageKind::constant;
    use.weights = constant ? weights : "nullptr";
    bool fixed = constant;
    for_each_operand(op.kernel, [&](const TensorRef& ref, bool) {
      for (const Expr& e : ref.sizes) fixed &= e.is_constant();
      for (const Expr& e : ref.strides) fixed &= e.is_constant();
    });
    for (const Window& window : windows) fixed &= window.pad.is_constant();
    use.packs = fixed;
    args = fmt::format("{}, {}, {}", from, weights, into);
    if (finished) {
      const std::vector<Expr>& sizes = b.sizes;  // [groups, taps..., channels, filters]
      const bool depthwise = sizes[sizes.size() - 2].is_constant(1) && sizes.back().is_constant(1);
      finish = finish_tile(*convolution, sizes.front().is_constant(1) || depthwise);
      args = fmt::format("{}, {}, nullptr, {{}}, FinishTile(tiles{})", from, weights, windows_.size());
    }
    const std::vector<std::string> operands =
        finished ? std::vector<std::string>() : post_op_operands(*convolution);
    if (!operands.empty()) args += fmt::format(", {{{}}}", fmt::join(operands, ", "));
    what = fmt::format("{} * {}", s_.graph[a.buffer].name, s_.graph[b.buffer].name);
  }
  note({id}, what);
  if (!finish.empty()) step_.push_back(fmt::format("const auto tiles{} = {};", windows_.size(), finish));
  step_.push_back(fmt::format("window({}, {{{}}});", windows_.size(), args));
  windows_.push_back(std::move(use));
}

}  // namespace braid::codegen::cpp
