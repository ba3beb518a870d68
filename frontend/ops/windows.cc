#include "frontend/ops/windows.h"

#include <algorithm>
#include <limits>

#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// An attribute with one number in [least, kMost] per spatial dimension, or so many times `fallback`.
std::vector<std::int64_t> numbers(OpContext& c, const char* name, std::size_t count, std::int64_t least,
                                  std::int64_t fallback) {
  std::vector<std::int64_t> out = c.ints_attribute(name).value_or(std::vector<std::int64_t>(count, fallback));
  if (out.size() != count) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute '{}' has {} numbers, expected {}", name, out.size(), count));
  }
  for (std::int64_t n : out) {
    if (n < least || n > kMost) {
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute '{}' has {}, expected numbers in [{}, {}]", name, n, least, kMost));
    }
  }
  return out;
}

enum class AutoPad { notset, same_upper, same_lower, valid };

AutoPad auto_pad(OpContext& c) {
  const std::string text = c.string_attribute("auto_pad", "NOTSET");
  if (text == "NOTSET") return AutoPad::notset;
  if (text == "SAME_UPPER") return AutoPad::same_upper;
  if (text == "SAME_LOWER") return AutoPad::same_lower;
  if (text == "VALID") return AutoPad::valid;
  c.fail(errors::kInvalidAttribute,
         fmt::format("attribute 'auto_pad' is '{}', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID", text));
}

std::vector<ir::Window> windows_without_pads(OpContext& c, const std::vector<std::int64_t>& taps) {
  const std::size_t count = taps.size();
  const std::vector<std::int64_t> strides = numbers(c, "strides", count, 1, 1),
                                  dilations = numbers(c, "dilations", count, 1, 1);
  std::vector<ir::Window> windows;
  for (std::size_t d = 0; d < count; ++d) {
    if ((taps[d] - 1) * dilations[d] > kMost) {
      c.fail(errors::kInvalidAttribute,
             fmt::format("a window of {} taps with dilation {} is too large", taps[d], dilations[d]));
    }
    windows.push_back({taps[d], strides[d], dilations[d], 0});
  }
  return windows;
}

Expr extent_of(const ir::Window& w) { return (w.taps - 1) * w.dilation + 1; }

}  // namespace

std::vector<Expr> spatial_sizes(OpContext& c, const std::vector<Expr>& sizes) {
  if (sizes.size() < 3) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the input has rank {}, expected batch, channels and at least one spatial "
                       "dimension",
                       sizes.size()));
  }
  return {sizes.begin() + 2, sizes.end()};
}

std::vector<std::int64_t> kernel_shape(OpContext& c, std::size_t spatial) {
  if (!c.has_attribute("kernel_shape"))
    c.fail(errors::kInvalidAttribute, "attribute 'kernel_shape' is missing");
  return numbers(c, "kernel_shape", spatial, 1, 1);
}

namespace {

// Rounded towards zero.
Expr half(const Expr& e, bool may_be_negative) {
  if (!may_be_negative) return ir::floor_div(e, 2);
  return ir::floor_div(ir::max(e, 0), 2) - ir::floor_div(ir::max(-e, 0), 2);
}

Windows windows_of(OpContext& c, const std::vector<Expr>& spatial, const std::vector<std::int64_t>& taps,
                   bool pool) {
  Windows w{windows_without_pads(c, taps), {}, {}};
  const AutoPad automatic = auto_pad(c);
  const std::vector<std::int64_t> pads = numbers(c, "pads", 2 * spatial.size(), 0, 0);
  const bool ceil_mode = c.int_attribute("ceil_mode", 0) != 0;
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    ir::Window& window = w.windows[d];
    Expr before = 0, after = 0;
    if (automatic == AutoPad::notset) {
      before = pads[d];
      after = pads[d + spatial.size()];
    } else if (automatic != AutoPad::valid) {
      const Expr steps = ir::ceil_div(spatial[d], window.stride);
      const Expr natural = (steps - 1) * window.stride + extent_of(window) - spatial[d];
      const bool negative = pool && ir::provably_less(extent_of(window), window.stride);
      const Expr total = negative ? natural : ir::max(natural, 0);
      before = half(automatic == AutoPad::same_upper ? total : total + 1, negative);
      after = total - before;
    }
    window.pad = before;
    w.pads_after.push_back(after);
    const Expr room = spatial[d] + before + after - extent_of(window);
    // Rounded up, a window that reaches beyond the end counts if its last stride begins inside.
    const std::int64_t beyond = ceil_mode ? window.stride - 1 : 0;
    if (ir::bounds(room).max + beyond < 0) {
      c.fail(errors::kShapeMismatch,
             fmt::format("a window of {} is larger than the {} elements of spatial dimension {}",
                         to_string(extent_of(window)), to_string(spatial[d] + before + after), d));
    }
    c.lowering().require_at_most(extent_of(window), spatial[d] + before + after + beyond);
    Expr size = ir::floor_div(room, window.stride) + 1;
    if (ceil_mode) {
      // Windows that would start in the padding at the end are left out.
      size = ir::min(ir::ceil_div(room, window.stride) + 1, ir::ceil_div(spatial[d] + before, window.stride));
    }
    w.sizes.push_back(size);
    // Taps that are beyond the end for every size would cost time: EfficientNet's last pool has 320 by 320
    // over 7 by 7.
    const std::int64_t room_at_most = ir::bounds(spatial[d] + before + after).max;
    if (ceil_mode)
      window.taps = std::clamp((room_at_most - 1) / window.dilation + 1, std::int64_t{1}, window.taps);
  }
  return w;
}

}  // namespace

Windows windows_of_convolution(OpContext& c, const std::vector<Expr>& spatial,
                               const std::vector<std::int64_t>& taps) {
  return windows_of(c, spatial, taps, false);
}

Windows windows_of_pool(OpContext& c, const std::vector<Expr>& spatial,
                        const std::vector<std::int64_t>& taps) {
  return windows_of(c, spatial, taps, true);
}

Windows transposed_windows_of(OpContext& c, const std::vector<Expr>& spatial,
                              const std::vector<std::int64_t>& taps) {
  Windows w{windows_without_pads(c, taps), {}, {}};
  const std::size_t count = spatial.size();
  const AutoPad automatic = auto_pad(c);
  const std::vector<std::int64_t> pads = numbers(c, "pads", 2 * count, 0, 0),
                                  added = numbers(c, "output_padding", count, 0, 0);
  const auto wanted = c.ints_attribute("output_shape");
  if (wanted && wanted->size() != count) {
    // Some exporters also give batch and channels.
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'output_shape' has {} numbers, expected {}", wanted->size(), count));
  }
  for (std::size_t d = 0; d < count; ++d) {
    ir::Window& window = w.windows[d];
    const Expr full = (spatial[d] - 1) * window.stride + extent_of(window) + added[d];
    Expr before = pads[d], after = pads[d + count];
    const bool same = automatic == AutoPad::same_upper || automatic == AutoPad::same_lower;
    if (automatic == AutoPad::valid) before = after = 0;
    if (wanted || same) {
      // A result that extends beyond the windows has zeros at its end.
      const Expr size = wanted ? Expr((*wanted)[d]) : spatial[d] * window.stride;
      const Expr total = ir::max(full - size, 0);
      const Expr small = ir::floor_div(total, 2);
      before = automatic == AutoPad::same_upper ? small : total - small;
      after = (wanted ? full - size : total) - before;
    }
    window.pad = before;
    w.pads_after.push_back(after);
    w.sizes.push_back(full - before - after);
    if (ir::bounds(w.sizes[d]).max < 1 && !spatial[d].is_constant(0)) {
      c.fail(errors::kShapeMismatch,
             fmt::format("spatial dimension {} of the result would have size {}", d, to_string(w.sizes[d])));
    }
    c.lowering().require_at_most(0, w.sizes[d]);
  }
  return w;
}

TensorBox channels_last(ir::Lowering& l, TensorBox x) {
  std::vector<int> order = {0};
  for (int d = 2; d < static_cast<int>(x.rank()); ++d) order.push_back(d);
  order.push_back(1);
  return l.permute(std::move(x), std::move(order));
}

TensorBox channels_first(ir::Lowering& l, TensorBox x) {
  const int rank = static_cast<int>(x.rank());
  std::vector<int> order = {0, rank - 1};
  for (int d = 1; d + 1 < rank; ++d) order.push_back(d);
  return l.permute(std::move(x), std::move(order));
}

}  // namespace braid::frontend
