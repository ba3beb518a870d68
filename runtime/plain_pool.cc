#include "runtime/plain_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "runtime/kernel_support.h"
#include "runtime/plain_windows.h"

namespace braid::rt {

using namespace plain;

namespace {

class PlainPool final : public WindowKernel {
 public:
  PlainPool(const PoolShape& shape, int threads) : s_(in_three_dimensions(shape)), threads_(threads) {}
  void run(const WindowArgs& args) const override {
    for_each_result(s_, threads_, [&](int64_t n, const Position& at) {
      const auto* a = static_cast<const float*>(args.a) + n * s_.a_batch;
      auto* out = static_cast<float*>(args.out) + n * s_.out_batch + offset(at, s_.out_spatial);
      for (int64_t c = 0; c < s_.channels; ++c)
        out[c * s_.out_channel] = one_element(a + c * s_.a_channel, at);
    });
  }
  const char* name() const override { return "plain"; }

 private:
  float one_element(const float* a, const Position& at) const {
    float sum = 0, most = -std::numeric_limits<float>::infinity();
    int64_t count = 0;
    for (int64_t t = 0; t < volume(s_.taps); ++t) {
      Position in;
      if (!source(s_, false, at, position(t, s_.taps), &in)) continue;
      const float x = a[offset(in, s_.a_spatial)];
      sum += x;
      most = vmax(most, x);
      ++count;
    }
    return s_.average ? sum / static_cast<float>(std::max<int64_t>(count, 1)) : most;
  }

  PoolShape s_;
  int threads_;
};

// Finds out whether an image holds NaN. Its rows are those of the last dimension or, where channels are
// adjacent, of the channels.
class NanSearch {
 public:
  NanSearch(const PoolShape& shape, int threads) : threads_(threads) {
    sizes_ = {shape.batch, shape.channels, 1, 1, 1};
    strides_ = {shape.a_batch, shape.a_channel, 0, 0, 0};
    for (int d = 0; d < shape.spatial; ++d) {
      sizes_[static_cast<size_t>(d) + 2] = shape.in[d];
      strides_[static_cast<size_t>(d) + 2] = shape.a_spatial[d];
    }
    for (size_t d = 0; d + 1 < sizes_.size(); ++d) {
      if (strides_[d] != 1 || sizes_[d] == 1) continue;
      std::swap(sizes_[d], sizes_.back());
      std::swap(strides_[d], strides_.back());
    }
    for (size_t d = 0; d + 1 < sizes_.size(); ++d) rows_ *= sizes_[d];
  }

  bool any(const float* image) const {
    std::atomic<bool> found = false;
    split(threads_, rows_, [&](int64_t begin, int64_t end) {
      bool own = false;
      for (int64_t row = begin; row < end; ++row) own |= in_row(image + start(row));
      if (own) found.store(true, std::memory_order_relaxed);
    });
    return found.load(std::memory_order_relaxed);
  }

 private:
  int64_t start(int64_t row) const {
    int64_t at = 0;
    for (size_t d = sizes_.size() - 1; d-- > 0; row /= sizes_[d]) at += row % sizes_[d] * strides_[d];
    return at;
  }
  bool in_row(const float* row) const {
    const int64_t count = sizes_.back(), step = strides_.back();
    int any = 0;
    if (step == 1) {
#pragma omp simd reduction(| : any)
      for (int64_t k = 0; k < count; ++k) any |= row[k] != row[k];
    } else {
      for (int64_t k = 0; k < count; ++k) any |= row[k * step] != row[k * step];
    }
    return any != 0;
  }

  int threads_;
  std::array<int64_t, 2 + kMaxSpatial> sizes_ = {}, strides_ = {};
  int64_t rows_ = 1;
};

class MaxPool final : public WindowKernel {
 public:
  MaxPool(std::unique_ptr<WindowKernel> library, const PoolShape& shape, int threads)
      : library_(std::move(library)), plain_(plain_pool(shape, threads)), nan_(shape, threads) {}
  void run(const WindowArgs& args) const override {
    const bool plain = nan_.any(static_cast<const float*>(args.a));
    (plain ? *plain_ : *library_).run(args);
  }
  const char* name() const override { return library_->name(); }

 private:
  std::unique_ptr<WindowKernel> library_, plain_;
  NanSearch nan_;
};

}  // namespace

std::unique_ptr<WindowKernel> plain_pool(const PoolShape& shape, int threads) {
  return std::make_unique<PlainPool>(shape, threads);
}

std::unique_ptr<WindowKernel> max_pool_with_nan(std::unique_ptr<WindowKernel> library, const PoolShape& shape,
                                                int threads) {
  return std::make_unique<MaxPool>(std::move(library), shape, threads);
}

}  // namespace braid::rt
