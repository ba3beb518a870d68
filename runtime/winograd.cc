#include "runtime/winograd.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "runtime/kernel_variables.h"
#include "runtime/team.h"
#include "runtime/tile_kernels.h"
#include "runtime/window_parts.h"

namespace braid::rt {
namespace {

constexpr int64_t kElements = 16;              // of a tile
constexpr int64_t kCachedWeights = 256 * 256;  // channels times filters whose weights stay in some cache

class Winograd final : public WindowKernel {
 public:
  Winograd(const ConvolutionShape& shape, const float* packed, int threads)
      : s_(shape),
        packed_(packed),
        lines_(in_blocks(s_.out[0], 2)),
        columns_(in_blocks(s_.out[1], 2)),
        tiles_(s_.batch * lines_ * columns_),
        zeros_(static_cast<size_t>(s_.channels)) {
    panels_.width = tile_panel_width(s_.filters);
    panels_.panel_stride = panels_.width * s_.channels;
    product_.n = s_.filters;
    product_.k = s_.channels;
    product_.a_row = s_.channels;
    product_.c_row = s_.filters;
    product_.a_col = product_.c_col = 1;
    const double work =
        static_cast<double>(tiles_ * kElements) * static_cast<double>(s_.channels * s_.filters);
    threads_ = useful_threads(work, threads);
    // Tiles of a block: their transformed elements and their products stay in the second-level cache, unless
    // the weights, which every block reads, do not.
    constexpr int64_t kBytes = 192 * 1024, kFewest = 24, kMost = 96;
    const int64_t bytes = kElements * (s_.channels + s_.filters) * static_cast<int64_t>(sizeof(float));
    block_ = s_.channels * s_.filters > kCachedWeights
                 ? kMost
                 : std::clamp(kBytes / bytes / kFewest * kFewest, kFewest, kMost);
    work_ = static_cast<size_t>(block_ * kElements * (s_.channels + s_.filters));
    memory_.resize(work_ * static_cast<size_t>(threads_));
  }

  void run(const WindowArgs& args) const override {
    const GemmArgs operands = product_args(args);
    parallel_for(
        tiles_, threads_ > 1,
        [&](int64_t begin, int64_t end, int thread) {
          for (int64_t t = begin; t < end; t += block_)
            run_block(operands, t, std::min(block_, end - t),
                      memory_.data() + work_ * static_cast<size_t>(thread));
        },
        std::min(block_, in_blocks(tiles_, threads_)));
  }
  const char* name() const override { return "own winograd"; }

 private:
  void run_block(const GemmArgs& args, int64_t first, int64_t count, float* elements) const {
    float* const products = elements + kElements * count * s_.channels;
    std::array<const float*, kElements> pixels;
    for (int64_t t = 0; t < count; ++t) {
      find(static_cast<const float*>(args.a), first + t, pixels);
      tile_kernels()->winograd_in(pixels.data(), s_.channels, elements + t * s_.channels,
                                  count * s_.channels);
    }
    GemmShape product = product_;
    product.m = count;
    const int64_t panels = in_blocks(s_.filters, panels_.width);
    for (int64_t e = 0; e < kElements; ++e) {
      GemmArgs own;
      own.a = elements + e * count * s_.channels;
      own.c = products + e * count * s_.filters;
      tile_kernels()->multiply(product, own, packed_ + e * panels * panels_.panel_stride, panels_,
                               {0, count, 0, panels});
    }
    // Tiles of one line of the image.
    for (int64_t t = 0; t < count;) {
      const int64_t at = first + t, x = at % columns_, run = std::min(count - t, columns_ - x),
                    line = at / columns_ % lines_, image = at / (columns_ * lines_);
      const int64_t out = image * s_.out_batch + 2 * line * s_.out_spatial[0] + 2 * x * s_.out_spatial[1];
      tile_kernels()->winograd_out(
          {products + t * s_.filters, count * s_.filters, run, s_.filters,
           std::min<int64_t>(2, s_.out[0] - 2 * line), std::min(2 * run, s_.out[1] - 2 * x), out,
           s_.out_spatial[0], s_.out_spatial[1]},
          s_.epilogue, args);
      t += run;
    }
  }

  // The channels of the elements that a tile reads.
  void find(const float* a, int64_t tile, std::array<const float*, kElements>& pixels) const {
    const int64_t x = 2 * (tile % columns_) - s_.pad[1], y = 2 * (tile / columns_ % lines_) - s_.pad[0];
    const float* const image = a + tile / (columns_ * lines_) * s_.a_batch;
    for (int64_t e = 0; e < kElements; ++e) {
      const int64_t in_y = y + e / 4, in_x = x + e % 4;
      const bool inside = 0 <= in_y && in_y < s_.in[0] && 0 <= in_x && in_x < s_.in[1];
      pixels[static_cast<size_t>(e)] =
          inside ? image + in_y * s_.a_spatial[0] + in_x * s_.a_spatial[1] : zeros_.data();
    }
  }

  ConvolutionShape s_;
  const float* packed_;
  int64_t lines_, columns_, tiles_;  // of tiles
  std::vector<float> zeros_;         // channels of an element outside of the image
  Panels panels_;
  GemmShape product_;
  int threads_ = 1;
  int64_t block_ = 0;
  size_t work_ = 0;  // of a thread
  mutable std::vector<float> memory_;
};

}  // namespace

bool suits_winograd_tiles(const ConvolutionShape& s) {
  // Transforming tiles costs as much as some tens of channels and filters. Many weights are read from memory,
  // 16 / 9 times as many as there were, so each needs enough tiles.
  constexpr int64_t kFewest = 16, kMostWeights = 512 * 512, kSmallest = 7, kManyElements = 4 * 32;
  bool suits = tile_kernels() != nullptr && s.spatial == 2 && !s.transposed && s.groups == 1 &&
               s.a_channel == 1 && s.out_channel == 1 && std::min(s.channels, s.filters) >= kFewest &&
               s.channels * s.filters <= kMostWeights &&
               (s.channels * s.filters <= kCachedWeights || s.batch * s.out[0] * s.out[1] >= kManyElements);
  for (size_t d = 0; d < 2 && suits; ++d)
    suits = s.taps[d] == 3 && s.stride[d] == 1 && s.dilation[d] == 1 && s.out[d] >= kSmallest;
  return suits && word_of(kWinogradVariable) != "0";
}

int64_t winograd_weights(const ConvolutionShape& s) {
  const int64_t width = tile_panel_width(s.filters);
  return kElements * s.channels * in_blocks(s.filters, width) * width;
}

void pack_winograd_weights(const ConvolutionShape& s, const float* b, float* to) {
  constexpr double kG[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  const int64_t width = tile_panel_width(s.filters), panels = in_blocks(s.filters, width);
  for (int64_t f = 0; f < s.filters; ++f) {
    for (int64_t c = 0; c < s.channels; ++c) {
      const float* const w = b + f * s.b_filter + c * s.b_channel;
      double half[4][3] = {};
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 3; ++j) {
          for (int k = 0; k < 3; ++k)
            half[i][j] += kG[i][k] * static_cast<double>(w[k * s.b_tap[0] + j * s.b_tap[1]]);
        }
      }
      for (int64_t e = 0; e < kElements; ++e) {
        double sum = 0;
        for (int k = 0; k < 3; ++k) sum += half[e / 4][k] * kG[e % 4][k];
        to[((e * panels + f / width) * s.channels + c) * width + f % width] = static_cast<float>(sum);
      }
    }
  }
}

std::unique_ptr<WindowKernel> winograd_convolution(const ConvolutionShape& s, const float* packed,
                                                   int threads) {
  return std::make_unique<Winograd>(s, packed, threads);
}

}  // namespace braid::rt
