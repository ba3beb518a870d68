#include "runtime/window_kernels_own.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/gemm_library.h"
#include "runtime/tap_convolution.h"
#include "runtime/team.h"
#include "runtime/tile_kernels.h"
#include "runtime/window_parts.h"
#include "runtime/winograd.h"

namespace braid::rt {
namespace {

constexpr int64_t kVector = 16;
constexpr int64_t kStreamedRows = 2;  // up to this many rows, several panels are read at once

// ---- one tap

// The distance of adjacent pixels if all pixels of the batch are equally far apart.
std::optional<int64_t> pixel_distance(const WindowShape& s, const std::array<int64_t, kMaxSpatial>& sizes,
                                      const std::array<int64_t, kMaxSpatial>& strides, int64_t batch_stride) {
  EqualDistance distance;
  for (int d = s.spatial; d-- > 0;) {
    if (!distance.add(sizes[d], strides[d])) return std::nullopt;
  }
  return distance.add(s.batch, batch_stride) ? std::optional(distance.get()) : std::nullopt;
}

// The product of pixels and weights that the convolution is.
std::optional<GemmShape> as_product(const ConvolutionShape& s) {
  if (s.transposed || s.groups != 1 || s.channels == 0) return std::nullopt;
  if (s.channels > 1 && s.a_channel != 1) return std::nullopt;
  if (s.filters > 1 && s.out_channel != 1) return std::nullopt;
  GemmShape g;
  g.m = s.batch;
  for (int d = 0; d < s.spatial; ++d) {
    const bool same =
        s.taps[d] == 1 && s.pad[d] == 0 && s.in[d] == s.out[d] && (s.stride[d] == 1 || s.out[d] == 1);
    if (!same) return std::nullopt;
    g.m *= s.out[d];
  }
  const auto a_row = pixel_distance(s, s.in, s.a_spatial, s.a_batch),
             c_row = pixel_distance(s, s.out, s.out_spatial, s.out_batch);
  if (!a_row || !c_row) return std::nullopt;
  g.n = s.filters;
  g.k = s.channels;
  g.a_row = *a_row;
  g.c_row = *c_row;
  g.a_col = g.c_col = 1;
  g.epilogue = s.epilogue;
  return g;
}

class Pointwise final : public WindowKernel {
 public:
  Pointwise(const GemmShape& shape, const float* weights, Panels panels, int threads)
      : shape_(shape),
        weights_(weights),
        panels_(panels),
        threads_(useful_threads(static_cast<double>(shape.m) * shape.n * shape.k, threads)) {}
  void run(const WindowArgs& args) const override {
    const GemmArgs operands = product_args(args);
    const int64_t panels = in_blocks(shape_.n, panels_.width);
    if (shape_.m <= kStreamedRows) {
      parallel_for(
          panels, threads_ > 1,
          [&](int64_t begin, int64_t end) {
            own_kernels().run_panels(shape_, operands, weights_, panels_, begin, end);
          },
          kStreamedPanels);
    } else {
      split_tiles(threads_, shape_.m, panels, [&](const TilePart& part) {
        tile_kernels()->multiply(shape_, operands, weights_, panels_, part);
      });
    }
  }
  const char* name() const override { return "own pointwise"; }

 private:
  GemmShape shape_;
  const float* weights_;
  Panels panels_;
  int threads_;
};

// ---- depthwise

std::optional<DepthwiseShape> as_depthwise(const ConvolutionShape& s) {
  if (s.transposed || s.groups < 2 || s.channels != 1 || s.filters != 1 || s.spatial > 2) return std::nullopt;
  if (s.a_channel != 1 || s.out_channel != 1) return std::nullopt;
  DepthwiseShape out;
  out.channels = s.groups;
  out.a_batch = s.a_batch;
  out.out_batch = s.out_batch;
  const int offset = 2 - s.spatial;
  out.in = out.out = out.taps = out.stride = out.dilation = {1, 1};
  for (int d = 0; d < s.spatial; ++d) {
    out.in[offset + d] = s.in[d];
    out.out[offset + d] = s.out[d];
    out.taps[offset + d] = s.taps[d];
    out.stride[offset + d] = s.stride[d];
    out.dilation[offset + d] = s.dilation[d];
    out.pad[offset + d] = s.pad[d];
    out.a_spatial[offset + d] = s.a_spatial[d];
    out.out_spatial[offset + d] = s.out_spatial[d];
  }
  out.epilogue = s.epilogue;
  const int64_t width = out.out[1], tiles = in_blocks(width, kTilePixels);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t x = width * t / tiles, pixels = width * (t + 1) / tiles - x;
    bool border = false;
    for (int64_t tap = 0; tap < out.taps[1]; ++tap) {
      for (int64_t p = 0; p < kTilePixels; ++p) {
        const TapRange inside = taps_inside(out, 1, x + std::min(p, pixels - 1));
        const bool has = inside.begin <= tap && tap < inside.end;
        out.masks.push_back(has ? 0xffff : 0);
        border |= !has;
      }
    }
    out.tiles.push_back({x, pixels, border});
  }
  return out;
}

class Depthwise final : public WindowKernel {
 public:
  Depthwise(const DepthwiseShape& shape, int64_t batch, const float* weights, int threads)
      : shape_(shape), rows_(batch * shape.out[0]), weights_(weights) {
    const double sums = static_cast<double>(rows_) * shape.out[1] * shape.channels;
    threads_ = useful_threads(sums * shape.taps[0] * shape.taps[1], threads);
  }
  void run(const WindowArgs& args) const override {
    const GemmArgs operands = product_args(args);
    split_tiles(threads_, rows_, in_blocks(shape_.channels, kVector),
                [&](const TilePart& part) { tile_kernels()->depthwise(shape_, operands, weights_, part); });
  }
  const char* name() const override { return "own depthwise"; }

 private:
  DepthwiseShape shape_;
  int64_t rows_;
  const float* weights_;
  int threads_;
};

// Copies series whose elements are adjacent, so that their channels are.
class CopiedSeries final : public WindowKernel {
 public:
  CopiedSeries(const ConvolutionShape& shape, std::unique_ptr<WindowKernel> kernel, int threads)
      : s_(shape), kernel_(std::move(kernel)), threads_(threads) {
    copy_.resize(static_cast<size_t>(s_.batch * s_.in[0] * s_.groups));
  }
  // The same convolution of the copy.
  static ConvolutionShape copied(const ConvolutionShape& s) {
    ConvolutionShape last = s;
    last.a_channel = 1;
    last.a_spatial[0] = s.groups;
    last.a_batch = s.in[0] * s.groups;
    return last;
  }
  void run(const WindowArgs& args) const override {
    constexpr int64_t kPart = 64;
    const auto* const a = static_cast<const float*>(args.a);
    const int64_t parts = in_blocks(s_.in[0], kPart), channels = s_.groups;
    parallel_for(s_.batch * parts, threads_ > 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t image = k / parts, at = k % parts * kPart;
        tile_kernels()->transpose(copy_.data() + (image * s_.in[0] + at) * channels, channels,
                                  a + image * s_.a_batch + at, s_.a_channel, std::min(kPart, s_.in[0] - at),
                                  channels);
      }
    });
    WindowArgs last = args;
    last.a = copy_.data();
    kernel_->run(last);
  }
  const char* name() const override { return kernel_->name(); }

 private:
  ConvolutionShape s_;
  std::unique_ptr<WindowKernel> kernel_;
  int threads_;
  mutable std::vector<float> copy_;
};

}  // namespace

template <class Fill>
const float* OwnWindows::packed(Layout layout, const ConvolutionShape& s, const float* b, int64_t elements,
                                const Fill& fill) {
  ConvolutionShape weights;
  weights.spatial = s.spatial;
  weights.taps = s.taps;
  weights.groups = s.groups;
  weights.channels = s.channels;
  weights.filters = s.filters;
  weights.b_group = s.b_group;
  weights.b_channel = s.b_channel;
  weights.b_filter = s.b_filter;
  weights.b_tap = s.b_tap;
  if (s.transposed) {  // these decide which taps belong together
    weights.transposed = true;
    weights.stride = s.stride;
    weights.dilation = s.dilation;
    weights.pad = s.pad;
  }
  for (const Packed& p : packed_) {
    if (p.layout == layout && p.b == b && p.weights == weights)
      return reinterpret_cast<const float*>(p.bytes.get());
  }
  AlignedBytes bytes = aligned_bytes(static_cast<size_t>(elements) * sizeof(float));
  auto* const out = reinterpret_cast<float*>(bytes.get());
  std::fill(out, out + elements, 0.0f);
  fill(out);
  packed_.push_back({layout, b, weights, std::move(bytes)});
  return out;
}

std::unique_ptr<WindowKernel> OwnWindows::kernel(const ConvolutionShape& s, const float* constant_b,
                                                 int threads) {
  if (constant_b == nullptr || tile_kernels() == nullptr) return nullptr;
  if (const std::optional<GemmShape> g = as_product(s)) {
    const int64_t width = tile_panel_width(g->n);
    const auto elements = static_cast<int64_t>(tile_panel_bytes(g->k, g->n) / sizeof(float));
    const float* const weights = packed(Layout::panels, s, constant_b, elements, [&](float* out) {
      pack_tile_panels(g->k, g->n, constant_b, s.b_channel, s.b_filter, out);
    });
    return std::make_unique<Pointwise>(*g, weights, Panels{width, width * g->k}, threads);
  }
  if (s.spatial == 1 && s.a_channel != 1 && s.a_spatial[0] == 1) {
    const ConvolutionShape copied = CopiedSeries::copied(s);
    if (!as_depthwise(copied)) return nullptr;
    return std::make_unique<CopiedSeries>(s, kernel(copied, constant_b, threads), threads);
  }
  if (const std::optional<DepthwiseShape> d = as_depthwise(s)) {
    const int64_t padded = d->padded_channels();
    const float* const weights =
        packed(Layout::depthwise, s, constant_b, padded * d->taps[0] * d->taps[1], [&](float* out) {
          const int offset = 2 - s.spatial;
          for (int64_t y = 0; y < d->taps[0]; ++y) {
            for (int64_t x = 0; x < d->taps[1]; ++x) {
              const int64_t tap =
                  (s.spatial == 2 ? y * s.b_tap[0] : 0) + (s.spatial >= 1 ? x * s.b_tap[1 - offset] : 0);
              for (int64_t c = 0; c < d->channels; ++c)
                out[(y * d->taps[1] + x) * padded + c] = constant_b[c * s.b_group + tap];
            }
          }
        });
    return std::make_unique<Depthwise>(*d, s.batch, weights, threads);
  }
  return nullptr;
}

std::unique_ptr<WindowKernel> OwnWindows::of_taps(const ConvolutionShape& s, const float* constant_b,
                                                  int threads) {
  if (constant_b == nullptr) return nullptr;
  if (suits_winograd_tiles(s)) {
    const float* const weights = packed(Layout::winograd, s, constant_b, winograd_weights(s),
                                        [&](float* out) { pack_winograd_weights(s, constant_b, out); });
    return winograd_convolution(s, weights, threads);
  }
  if (!suits_taps(s)) return nullptr;
  const float* const weights = packed(Layout::taps, s, constant_b, tap_weights(s),
                                      [&](float* out) { pack_tap_weights(s, constant_b, out); });
  return tap_convolution(s, weights, threads);
}

}  // namespace braid::rt
