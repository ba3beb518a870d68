#include <cmath>
#include <optional>

#include "ir/interpreter_body.h"
#include "ir/interpreter_kernels.h"
#include "ir/typing.h"

namespace braid::ir {
namespace {

// Returns the element, in a spatial dimension of `size`, that tap `tap` of the window at `position` reads;
// nullopt if that is outside.
std::optional<std::int64_t> tapped(const Window& w, std::int64_t pad, bool transposed, std::int64_t position,
                                   std::int64_t tap, std::int64_t size) {
  std::int64_t at =
      transposed ? position + pad - tap * w.dilation : position * w.stride + tap * w.dilation - pad;
  if (transposed) {
    if (at < 0 || at % w.stride != 0) return std::nullopt;
    at /= w.stride;
  }
  if (at < 0 || at >= size) return std::nullopt;
  return at;
}

// Calls fn(tap, offset, index) for each tap of the window at one position that reads inside of x. `offset` is
// that of the spatial position in bytes, `index` its number in row-major order.
template <class Fn>
void for_each_tap(const RankMemory& memory, const std::vector<Window>& windows, bool transposed,
                  const ByteView& x, const std::int64_t* position, const Fn& fn) {
  std::vector<std::int64_t> taps, tap(windows.size() + 1, 0), pads;
  for (const Window& w : windows) {
    taps.push_back(w.taps);
    pads.push_back(memory.size(w.pad));
  }
  for_each_point(taps, tap.data(), [&] {
    std::int64_t offset = 0, index = 0;
    for (std::size_t d = 0; d < windows.size(); ++d) {
      const auto at = tapped(windows[d], pads[d], transposed, position[d], tap[d], x.sizes[d + 1]);
      if (!at) return;
      offset += *at * x.strides[d + 1];
      index = index * x.sizes[d + 1] + *at;
    }
    fn(std::as_const(tap), offset, index);
  });
}

}  // namespace

void run_kernel(RankMemory& memory, const Operation& op, const Convolution& k) {
  const ByteView a = memory.view(k.a), b = memory.view(k.b), out = memory.view(k.out);
  const DType type = accumulator_of(a.dtype);
  std::optional<BodyEvaluation> epilogue;
  if (k.epilogue) epilogue.emplace(*k.epilogue, memory, op);
  const std::size_t spatial = k.windows.size(), channel = spatial + 1;
  const std::int64_t channels = b.sizes[spatial + 1], per_group = b.sizes[spatial + 2];
  internal_check(a.sizes[0] == out.sizes[0] && a.sizes[channel] == b.sizes[0] * channels &&
                     out.sizes[channel] == b.sizes[0] * per_group,
                 "'{}': the sizes of the operands do not agree", op.name);
  std::vector<std::int64_t> indices(out.sizes.size() + 1, 0);
  for_each_point(out.sizes, indices.data(), [&] {
    const std::int64_t group = indices[channel] / per_group;
    const std::int64_t a_base = a.offset + indices[0] * a.strides[0] + group * channels * a.strides[channel];
    const std::int64_t b_base =
        b.offset + group * b.strides[0] + indices[channel] % per_group * b.strides[spatial + 2];
    Scalar sum;
    for_each_tap(memory, k.windows, k.transposed, a, indices.data() + 1,
                 [&](const std::vector<std::int64_t>& tap, std::int64_t offset, std::int64_t) {
                   std::int64_t pa = a_base + offset, pb = b_base;
                   for (std::size_t d = 0; d < spatial; ++d) pb += tap[d] * b.strides[d + 1];
                   for (std::int64_t c = 0; c < channels; ++c) {
                     Scalar x = to_scalar(read_element(a.dtype, byte_at(a, pa, op))),
                            y = to_scalar(read_element(b.dtype, byte_at(b, pb, op)));
                     if (k.tf32) x = in_tf32(x), y = in_tf32(y);
                     accumulate(type, sum, x, y);
                     pa += a.strides[channel];
                     pb += b.strides[spatial + 1];
                   }
                 });
    sum = rounded(type, sum);
    std::int64_t po = out.offset;
    for (std::size_t d = 0; d < out.sizes.size(); ++d) po += indices[d] * out.strides[d];
    const Scalar result = epilogue ? epilogue->at(indices.data(), sum) : cast(type, out.dtype, sum);
    write_element(out.dtype, byte_at(out, po, op, true), to_literal(out.dtype, result));
  });
}

void run_kernel(RankMemory& memory, const Operation& op, const Pooling& k) {
  const ByteView x = memory.view(k.x), out = memory.view(k.out);
  const std::size_t channel = k.windows.size() + 1;
  const bool maximum = k.kind == PoolKind::max || k.kind == PoolKind::arg_max;
  const ReduceKind reduce = maximum ? ReduceKind::max : ReduceKind::sum;
  std::vector<std::int64_t> indices(out.sizes.size() + 1, 0);
  for_each_point(out.sizes, indices.data(), [&] {
    Scalar value = neutral(reduce, x.dtype);
    std::int64_t count = 0, best = -1;
    for_each_tap(memory, k.windows, false, x, indices.data() + 1,
                 [&](const std::vector<std::int64_t>&, std::int64_t offset, std::int64_t index) {
                   const std::int64_t at =
                       x.offset + indices[0] * x.strides[0] + indices[channel] * x.strides[channel] + offset;
                   const Scalar element = to_scalar(read_element(x.dtype, byte_at(x, at, op)));
                   const Scalar folded = fold(reduce, x.dtype, value, element);
                   const bool greater = apply(OpCode::gt, x.dtype, element, value).i != 0;
                   const bool first_nan = std::isnan(element.d) && !std::isnan(value.d);
                   if (best < 0 || greater || first_nan) best = index;
                   value = folded;
                   ++count;
                 });
    if (k.kind == PoolKind::average)
      value = apply(OpCode::div, x.dtype, value, cast(DType::i64, x.dtype, {0, count}));
    std::int64_t po = out.offset;
    for (std::size_t d = 0; d < out.sizes.size(); ++d) po += indices[d] * out.strides[d];
    const Scalar result = k.kind == PoolKind::arg_max ? Scalar{0, best} : rounded(x.dtype, value);
    write_element(out.dtype, byte_at(out, po, op, true), to_literal(out.dtype, result));
  });
}

}  // namespace braid::ir
