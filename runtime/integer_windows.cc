#include "runtime/integer_windows.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace braid::rt {
namespace {

using Position = std::array<int64_t, kMaxSpatial>;

int64_t volume(const ConvolutionShape& s, const std::array<int64_t, kMaxSpatial>& sizes) {
  int64_t count = 1;
  for (int d = 0; d < s.spatial; ++d) count *= sizes[static_cast<size_t>(d)];
  return count;
}

bool is_depthwise(const ConvolutionShape& s) {
  return s.channels == 1 && s.filters == 1 && s.groups > 1 && s.a_channel == 1;
}

// Where a row of the product, one position of the result, lies.
struct RowAt {
  int64_t batch = 0;
  Position at = {};
};
RowAt row_at(const ConvolutionShape& s, int64_t row) {
  RowAt r;
  for (int d = s.spatial - 1; d >= 0; --d) {
    const auto k = static_cast<size_t>(d);
    r.at[k] = row % s.out[k];
    row /= s.out[k];
  }
  r.batch = row;
  return r;
}

// Element offset in `a` of what the tap reads, without the channel; -1 outside.
int64_t source(const ConvolutionShape& s, const RowAt& r, int64_t tap) {
  int64_t offset = r.batch * s.a_batch;
  for (int d = s.spatial - 1; d >= 0; --d) {
    const auto k = static_cast<size_t>(d);
    const int64_t t = tap % s.taps[k], q = r.at[k] * s.stride[k] + t * s.dilation[k] - s.pad[k];
    tap /= s.taps[k];
    if (q < 0 || q >= s.in[k]) return -1;
    offset += q * s.a_spatial[k];
  }
  return offset;
}

// The windows of one group.
class WindowRows final : public ByteRows {
 public:
  WindowRows(const ConvolutionShape& s, const uint8_t* a)
      : s_(s), a_(a), flip_(s.type == DType::i8 ? 0x80 : 0), taps_(volume(s, s.taps)) {
    const int last = s.spatial - 1;
    bool plain = flip_ == 0 && s.a_channel == 1 && s.channels % kByteGroup == 0 && taps_ == 1;
    int64_t next = s.a_spatial[static_cast<size_t>(last)];
    for (int d = last; d >= 0; --d) {
      const auto k = static_cast<size_t>(d);
      plain = plain && s.stride[k] == 1 && s.pad[k] == 0 && s.in[k] == s.out[k] && s.a_spatial[k] == next;
      next *= s.in[k];
    }
    direct_ = plain && (s.batch == 1 || s.a_batch == next);
    row_ = s.a_spatial[static_cast<size_t>(last)];
    // Adjacent taps of the last dimension are adjacent in memory.
    const auto k = static_cast<size_t>(last);
    along_ = s.a_channel == 1 && s.dilation[k] == 1 && s.a_spatial[k] == s.channels ? s.taps[k] : 1;
  }
  const uint8_t* direct(int64_t row) const override { return direct_ ? a_ + row * row_ : nullptr; }
  int64_t direct_stride() const override { return row_; }
  void copy(int64_t row, uint8_t* to) const override {
    const RowAt r = row_at(s_, row);
    const int64_t depth = taps_ * s_.channels;
    const auto last = static_cast<size_t>(s_.spatial - 1);
    const int64_t first = r.at[last] * s_.stride[last] - s_.pad[last];
    const bool whole = along_ > 1 && first >= 0 && first + along_ <= s_.in[last];
    const int64_t step = whole ? along_ : 1;
    for (int64_t tap = 0; tap < taps_; tap += step) {
      uint8_t* const part = to + tap * s_.channels;
      const int64_t from = source(s_, r, tap), count = step * s_.channels;
      if (from < 0) {
        std::memset(part, 0, static_cast<size_t>(count));
      } else if (s_.a_channel == 1) {
        std::memcpy(part, a_ + from, static_cast<size_t>(count));
      } else {
        for (int64_t c = 0; c < count; ++c) part[c] = a_[from + c * s_.a_channel];
      }
    }
    if (const uint8_t flip = flip_; flip != 0) {
#pragma omp simd
      for (int64_t k = 0; k < depth; ++k) to[k] ^= flip;
    }
    std::memset(to + depth, 0, static_cast<size_t>(byte_depth(depth) - depth));
  }

 private:
  const ConvolutionShape& s_;
  const uint8_t* a_;
  uint8_t flip_;
  int64_t taps_, row_ = 0, along_ = 1;
  bool direct_ = false;
};

// Stores sums, or hands them to the program.
class WindowSums final : public ByteSums {
 public:
  WindowSums(const ConvolutionShape& s, const WindowArgs& args, int64_t column)
      : s_(s), args_(args), column_(column) {}
  void put(const GemmTile& given) const override {
    GemmTile tile = given;
    tile.column += column_;
    if (s_.finished) {
      args_.finish.call(args_.finish.context, tile);
      return;
    }
    for (int64_t r = 0; r < tile.rows; ++r) {
      const RowAt at = row_at(s_, tile.row + r);
      int32_t* to = static_cast<int32_t*>(args_.out) + at.batch * s_.out_batch + tile.column * s_.out_channel;
      for (int d = 0; d < s_.spatial; ++d)
        to += at.at[static_cast<size_t>(d)] * s_.out_spatial[static_cast<size_t>(d)];
      const int32_t* const from = tile.sums + r * tile.sums_row;
      for (int64_t j = 0; j < tile.columns; ++j) to[j * s_.out_channel] = from[j];
    }
  }

 private:
  const ConvolutionShape& s_;
  const WindowArgs& args_;
  int64_t column_;
};

int64_t rows_of(const ConvolutionShape& s) { return s.batch * volume(s, s.out); }

class ByteConvolution final : public WindowKernel {
 public:
  ByteConvolution(const ConvolutionShape& shape, const std::vector<std::unique_ptr<ByteMatrix>>& groups,
                  int threads)
      : s_(shape), groups_(groups), threads_(threads), depth_(volume(shape, shape.taps) * shape.channels) {
    work_ = (byte_scratch(depth_) + 63) / 64 * 64;
    memory_ = aligned_bytes(work_ * static_cast<size_t>(threads));
  }
  void run(const WindowArgs& args) const override {
    split(threads_, rows_of(s_), [&](int64_t begin, int64_t end) {
      const auto thread = static_cast<size_t>(threads_ > 1 ? omp_get_thread_num() : 0);
      for (int64_t g = 0; g < s_.groups; ++g) {
        const WindowRows rows(s_, static_cast<const uint8_t*>(args.a) + g * s_.channels * s_.a_channel);
        const WindowSums sums(s_, args, g * s_.filters);
        multiply_bytes(
            {s_.filters, depth_, s_.type == DType::i8, groups_[static_cast<size_t>(g)]->byte_panels()}, rows,
            sums, {begin, end, 0, byte_panels(s_.filters)}, memory_.get() + work_ * thread);
      }
    });
  }
  const char* name() const override { return "bytes"; }

 private:
  ConvolutionShape s_;
  const std::vector<std::unique_ptr<ByteMatrix>>& groups_;
  int threads_;
  int64_t depth_;
  size_t work_ = 0;
  AlignedBytes memory_;
};

class ByteDepthwise final : public WindowKernel {
 public:
  ByteDepthwise(const ConvolutionShape& shape, const int16_t* weights, int threads)
      : s_(shape), weights_(weights), threads_(threads), taps_(volume(shape, shape.taps)) {
    pointers_.resize(static_cast<size_t>(taps_ * kTogether * threads));
  }
  void run(const WindowArgs& args) const override {
    const auto* a = static_cast<const uint8_t*>(args.a);
    split(threads_, rows_of(s_), [&](int64_t begin, int64_t end) {
      const auto thread = static_cast<size_t>(threads_ > 1 ? omp_get_thread_num() : 0);
      const uint8_t** const pointers = pointers_.data() + thread * static_cast<size_t>(taps_ * kTogether);
      const WindowSums sums(s_, args, 0);
      alignas(64) int32_t tile[kTogether * kBytePanel];
      ByteTaps t;
      t.taps = taps_;
      t.signed_a = s_.type == DType::i8;
      t.weights_row = s_.groups;
      for (int64_t row = begin; row < end; row += kTogether) {
        const int64_t rows = std::min(kTogether, end - row);
        for (int64_t c = 0; c < s_.groups; c += kBytePanel) {
          t.channels = std::min(kBytePanel, s_.groups - c);
          t.weights = weights_ + c;
          for (int64_t r = 0; r < rows; ++r) {
            t.a = pointers + r * taps_;
            if (c == 0) {
              const RowAt at = row_at(s_, row + r);
              for (int64_t k = 0; k < taps_; ++k) {
                const int64_t from = source(s_, at, k);
                pointers[r * taps_ + k] = from < 0 ? nullptr : a + from;
              }
            } else {
              for (int64_t k = 0; k < taps_; ++k) {
                const uint8_t*& from = pointers[r * taps_ + k];
                if (from != nullptr) from += kBytePanel;
              }
            }
            t.sums = tile + r * kBytePanel;
            byte_kernels().depthwise(t);
          }
          sums.put({tile, kBytePanel, row, rows, c, t.channels});
        }
      }
    });
  }
  const char* name() const override { return "depthwise bytes"; }

 private:
  static constexpr int64_t kTogether = 8;
  ConvolutionShape s_;
  const int16_t* weights_;
  int threads_;
  int64_t taps_;
  mutable std::vector<const uint8_t*> pointers_;  // to what each tap of a few positions reads, per thread
};

ConvolutionShape only_weights(const ConvolutionShape& s) {
  ConvolutionShape w;
  w.spatial = s.spatial;
  w.b_type = s.b_type;
  w.taps = s.taps;
  w.groups = s.groups;
  w.channels = s.channels;
  w.filters = s.filters;
  w.b_group = s.b_group;
  w.b_channel = s.b_channel;
  w.b_filter = s.b_filter;
  w.b_tap = s.b_tap;
  w.a_channel = is_depthwise(s) ? 1 : 0;  // decides the layout
  return w;
}

}  // namespace

const ByteWindows::Packed& ByteWindows::packed(const ConvolutionShape& s, const void* b) {
  const ConvolutionShape weights = only_weights(s);
  for (const auto& p : packed_) {
    if (p->b == b && p->weights == weights) return *p;
  }
  auto p = std::make_unique<Packed>();
  p->b = b;
  p->weights = weights;
  const int64_t taps = volume(s, s.taps);
  const auto* from = static_cast<const uint8_t*>(b);
  const auto tap_offset = [&](int64_t tap) {
    int64_t offset = 0;
    for (int d = s.spatial - 1; d >= 0; --d) {
      const auto k = static_cast<size_t>(d);
      offset += tap % s.taps[k] * s.b_tap[k];
      tap /= s.taps[k];
    }
    return offset;
  };
  if (is_depthwise(s)) {
    p->depthwise.resize(static_cast<size_t>(taps * s.groups));
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t g = 0; g < s.groups; ++g) {
        const uint8_t x = from[g * s.b_group + tap_offset(t)];
        p->depthwise[static_cast<size_t>(t * s.groups + g)] =
            s.b_type == DType::i8 ? static_cast<int8_t>(x) : int16_t{x};
      }
    }
  } else {
    std::vector<uint8_t> dense(static_cast<size_t>(taps * s.channels * s.filters));
    for (int64_t g = 0; g < s.groups; ++g) {
      for (int64_t t = 0; t < taps; ++t) {
        for (int64_t c = 0; c < s.channels; ++c) {
          const uint8_t* const row = from + g * s.b_group + tap_offset(t) + c * s.b_channel;
          uint8_t* const to = dense.data() + (t * s.channels + c) * s.filters;
          for (int64_t j = 0; j < s.filters; ++j) to[j] = row[j * s.b_filter];
        }
      }
      p->groups.emplace_back(pack_bytes(s.b_type, taps * s.channels, s.filters, dense.data(), s.filters, 1));
    }
  }
  packed_.push_back(std::move(p));
  return *packed_.back();
}

std::unique_ptr<WindowKernel> ByteWindows::kernel(const ConvolutionShape& s, const void* b, int threads) {
  const Packed& p = packed(s, b);
  const double work = static_cast<double>(rows_of(s)) * static_cast<double>(s.weights());
  const int useful = work < 4e5 ? 1 : threads;
  if (is_depthwise(s)) return std::make_unique<ByteDepthwise>(s, p.depthwise.data(), useful);
  return std::make_unique<ByteConvolution>(s, p.groups, useful);
}

}  // namespace braid::rt
