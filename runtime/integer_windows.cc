#include "runtime/integer_windows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/team.h"
#include "runtime/transpose.h"

namespace braid::rt {
namespace {

using Position = std::array<int64_t, kMaxSpatial>;

int64_t volume(const ConvolutionShape& s, const std::array<int64_t, kMaxSpatial>& sizes) {
  int64_t count = 1;
  for (int d = 0; d < s.spatial; ++d) count *= sizes[static_cast<size_t>(d)];
  return count;
}

bool is_depthwise(const ConvolutionShape& s) { return s.channels == 1 && s.filters == 1 && s.groups > 1; }

// Images with their channels last: those that are given, or copies.
class ChannelsLast {
 public:
  explicit ChannelsLast(const ConvolutionShape& given) : given_(given), shape_(given) {
    channels_ = given.groups * given.channels;
    shape_.a_channel = 1;
    if (given.a_channel == 1 || channels_ == 1) return;
    int64_t elements = channels_;
    for (int d = given.spatial - 1; d >= 0; --d) {
      shape_.a_spatial[static_cast<size_t>(d)] = elements;
      elements *= given.in[static_cast<size_t>(d)];
    }
    shape_.a_batch = elements;
    copied_.resize(static_cast<size_t>(given.batch * elements));
  }

  const ConvolutionShape& shape() const { return shape_; }
  const uint8_t* images(const uint8_t* a, bool parallel) const {
    if (copied_.empty()) return a;
    const auto last = static_cast<size_t>(given_.spatial - 1);
    const int64_t lines = given_.batch * volume(given_, given_.in) / std::max<int64_t>(given_.in[last], 1);
    parallel_for(lines, parallel, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) copy_line(a, line);
    });
    return copied_.data();
  }

 private:
  // Copies the pixels along the last dimension.
  void copy_line(const uint8_t* a, int64_t line) const {
    const auto last = static_cast<size_t>(given_.spatial - 1);
    const int64_t pixels = given_.in[last], step = given_.a_spatial[last];
    int64_t rest = line, from = 0;
    for (int d = given_.spatial - 2; d >= 0; --d) {
      const auto k = static_cast<size_t>(d);
      from += rest % given_.in[k] * given_.a_spatial[k];
      rest /= given_.in[k];
    }
    const uint8_t* const x = a + from + rest * given_.a_batch;
    uint8_t* const y = copied_.data() + line * pixels * channels_;
    if (step == 1) {
      transpose_block(y, channels_, x, given_.a_channel, pixels, channels_);
      return;
    }
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (int64_t c = 0; c < channels_; ++c)
        y[pixel * channels_ + c] = x[pixel * step + c * given_.a_channel];
    }
  }

  ConvolutionShape given_, shape_;
  int64_t channels_ = 1;
  mutable std::vector<uint8_t> copied_;
};

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

// The next row, which is far cheaper than to compute it from its number.
void advance(const ConvolutionShape& s, RowAt& r) {
  for (int d = s.spatial - 1; d >= 0; --d) {
    const auto k = static_cast<size_t>(d);
    if (++r.at[k] < s.out[k]) return;
    r.at[k] = 0;
  }
  ++r.batch;
}

}  // namespace

// The elements that each tap of a window reads, counted from the window's first element: distances along the
// dimensions, and in elements.
struct WindowTaps {
  explicit WindowTaps(const ConvolutionShape& s) : along(static_cast<size_t>(volume(s, s.taps))) {
    for (size_t t = 0; t < along.size(); ++t) {
      auto tap = static_cast<int64_t>(t);
      int64_t elements = 0;
      for (int d = s.spatial - 1; d >= 0; --d) {
        const auto k = static_cast<size_t>(d);
        along[t][k] = tap % s.taps[k] * s.dilation[k];
        elements += along[t][k] * s.a_spatial[k];
        tap /= s.taps[k];
      }
      offset.push_back(elements);
    }
  }
  std::vector<Position> along;
  std::vector<int64_t> offset;
};

namespace {

// The window of a row: its first element, which may be outside, and whether all of it is inside.
struct WindowAt {
  WindowAt(const ConvolutionShape& s, const RowAt& r) : offset(r.batch * s.a_batch) {
    for (int d = 0; d < s.spatial; ++d) {
      const auto k = static_cast<size_t>(d);
      first[k] = r.at[k] * s.stride[k] - s.pad[k];
      inside = inside && first[k] >= 0 && first[k] + (s.taps[k] - 1) * s.dilation[k] < s.in[k];
      offset += first[k] * s.a_spatial[k];
    }
  }
  bool has(const ConvolutionShape& s, const Position& along) const {
    for (int d = 0; d < s.spatial; ++d) {
      const auto k = static_cast<size_t>(d);
      const int64_t q = first[k] + along[k];
      if (q < 0 || q >= s.in[k]) return false;
    }
    return true;
  }
  int64_t offset;
  Position first = {};
  bool inside = true;
};

// The windows of one group; images have their channels last.
class WindowRows final : public ByteRows {
 public:
  WindowRows(const ConvolutionShape& s, const WindowTaps& taps, const uint8_t* a)
      : s_(s),
        window_(taps),
        a_(a),
        flip_(s.type == DType::i8 ? 0x80 : 0),
        taps_(static_cast<int64_t>(taps.offset.size())) {
    const int last = s.spatial - 1;
    bool plain = flip_ == 0 && s.channels % kByteGroup == 0 && taps_ == 1;
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
    along_ = s.dilation[k] == 1 && s.a_spatial[k] == s.channels ? s.taps[k] : 1;
  }
  const uint8_t* direct(int64_t row) const override { return direct_ ? a_ + row * row_ : nullptr; }
  int64_t direct_stride() const override { return row_; }
  void copy(int64_t row, uint8_t* to) const override {
    if (row != next_) at_ = row_at(s_, row);
    const WindowAt window(s_, at_);
    next_ = row + 1;
    advance(s_, at_);
    const int64_t depth = taps_ * s_.channels;
    const auto last = static_cast<size_t>(s_.spatial - 1);
    const bool whole = along_ > 1 && window.first[last] >= 0 && window.first[last] + along_ <= s_.in[last];
    const int64_t step = whole ? along_ : 1;
    for (int64_t tap = 0; tap < taps_; tap += step) {
      uint8_t* const part = to + tap * s_.channels;
      const auto t = static_cast<size_t>(tap);
      const int64_t from = window.offset + window_.offset[t], count = step * s_.channels;
      if (!window.inside && !window.has(s_, window_.along[t])) {
        std::memset(part, 0, static_cast<size_t>(count));
      } else {
        std::memcpy(part, a_ + from, static_cast<size_t>(count));
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
  const WindowTaps& window_;
  const uint8_t* a_;
  uint8_t flip_;
  int64_t taps_, row_ = 0, along_ = 1;
  bool direct_ = false;
  mutable int64_t next_ = -1;  // rows are mostly copied in their order
  mutable RowAt at_;           // of row next_
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
      : input_(shape),
        s_(input_.shape()),
        groups_(groups),
        threads_(threads),
        depth_(volume(shape, shape.taps) * shape.channels),
        taps_(s_) {
    work_ = (byte_scratch(depth_) + 63) / 64 * 64;
    memory_ = aligned_bytes(work_ * static_cast<size_t>(threads));
  }
  void run(const WindowArgs& args) const override {
    const uint8_t* const a = input_.images(static_cast<const uint8_t*>(args.a), threads_ > 1);
    parallel_for(rows_of(s_), threads_ > 1, [&](int64_t begin, int64_t end, int own) {
      const auto thread = static_cast<size_t>(own);
      for (int64_t g = 0; g < s_.groups; ++g) {
        const WindowRows rows(s_, taps_, a + g * s_.channels);
        const WindowSums sums(s_, args, g * s_.filters);
        multiply_bytes(
            {s_.filters, depth_, s_.type == DType::i8, groups_[static_cast<size_t>(g)]->byte_panels()}, rows,
            sums, {begin, end, 0, byte_panels(s_.filters)}, memory_.get() + work_ * thread);
      }
    });
  }
  const char* name() const override { return "bytes"; }

 private:
  ChannelsLast input_;
  ConvolutionShape s_;
  const std::vector<std::unique_ptr<ByteMatrix>>& groups_;
  int threads_;
  int64_t depth_;
  WindowTaps taps_;
  size_t work_ = 0;
  AlignedBytes memory_;
};

class ByteDepthwise final : public WindowKernel {
 public:
  ByteDepthwise(const ConvolutionShape& given, const int32_t* weights, int threads)
      : input_(given),
        s_(input_.shape()),
        weights_(weights),
        threads_(threads),
        taps_(volume(s_, s_.taps)),
        window_(s_),
        zeros_(static_cast<size_t>(s_.groups)) {
    pointers_.resize(static_cast<size_t>(taps_ * kTogether * threads));
    sums_.resize(static_cast<size_t>(kTogether * kChannels * threads));
  }
  void run(const WindowArgs& args) const override {
    const uint8_t* const a = input_.images(static_cast<const uint8_t*>(args.a), threads_ > 1);
    parallel_for(rows_of(s_), threads_ > 1, [&](int64_t begin, int64_t end, int own) {
      const auto thread = static_cast<size_t>(own);
      const uint8_t** const pointers = pointers_.data() + thread * static_cast<size_t>(taps_ * kTogether);
      int32_t* const tile = sums_.data() + thread * static_cast<size_t>(kTogether * kChannels);
      const WindowSums sums(s_, args, 0);
      ByteTaps t;
      t.a = pointers;
      t.taps = taps_;
      t.signed_a = s_.type == DType::i8;
      t.weights_row = s_.groups;
      t.sums_row = kChannels;
      RowAt at = row_at(s_, begin);
      for (int64_t row = begin; row < end; row += kTogether) {
        t.positions = std::min(kTogether, end - row);
        for (int64_t r = 0; r < t.positions; ++r, advance(s_, at)) point_to_taps(a, at, pointers + r * taps_);
        for (int64_t first = 0; first < s_.groups; first += kChannels) {
          const int64_t last = std::min(first + kChannels, s_.groups);
          for (t.first = first; t.first < last; t.first += kBytePanel) {
            t.channels = std::min(kBytePanel, last - t.first);
            t.weights = weights_ + t.first;
            t.sums = tile + t.first - first;
            byte_kernels().depthwise(t);
          }
          sums.put({tile, kChannels, row, t.positions, first, last - first});
        }
      }
    });
  }
  const char* name() const override { return "depthwise bytes"; }

 private:
  void point_to_taps(const uint8_t* a, const RowAt& at, const uint8_t** to) const {
    const WindowAt window(s_, at);
    for (size_t k = 0; k < window_.offset.size(); ++k) {
      const bool there = window.inside || window.has(s_, window_.along[k]);
      to[k] = there ? a + window.offset + window_.offset[k] : zeros_.data();
    }
  }

  static constexpr int64_t kTogether = 8, kChannels = kTileColumns;  // of a tile
  static_assert(kChannels >= kWholeColumns && kBytePanel >= kWholeColumns && kBytePanel <= kTileColumns);
  ChannelsLast input_;
  ConvolutionShape s_;
  const int32_t* weights_;
  int threads_;
  int64_t taps_;
  WindowTaps window_;
  std::vector<uint8_t> zeros_;  // the elements of taps outside of the image
  // per thread: the addresses of the elements that each tap of a few positions reads
  mutable std::vector<const uint8_t*> pointers_;
  mutable std::vector<int32_t> sums_;  // per thread
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
        const int16_t weight = s.b_type == DType::i8 ? static_cast<int8_t>(x) : int16_t{x};
        p->depthwise[static_cast<size_t>(t * s.groups + g)] = static_cast<uint16_t>(weight);
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
