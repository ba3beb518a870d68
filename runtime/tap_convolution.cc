#include "runtime/tap_convolution.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "runtime/team.h"
#include "runtime/window_parts.h"

namespace braid::rt {
namespace {

using Numbers = TapPhase::Numbers;

// Rows whose addresses are found together.
constexpr int64_t kRows = 96;

// The same shape with three spatial dimensions, of which the first ones may have one element.
ConvolutionShape in_three_dimensions(const ConvolutionShape& shape) {
  ConvolutionShape s = shape;
  s.spatial = kMaxSpatial;
  const auto align = [&](Numbers& numbers, int64_t unused) {
    const Numbers given = numbers;
    numbers.fill(unused);
    std::copy_n(given.begin(), shape.spatial, numbers.end() - shape.spatial);
  };
  for (Numbers* sizes : {&s.in, &s.out, &s.taps, &s.stride, &s.dilation}) align(*sizes, 1);
  for (Numbers* strides : {&s.pad, &s.a_spatial, &s.out_spatial, &s.b_tap}) align(*strides, 0);
  return s;
}

// The distance of rows of the result if it is the same for all of a phase, those of a batch included.
std::optional<int64_t> row_distance(const ConvolutionShape& s, const TapPhase& phase) {
  EqualDistance distance;
  for (size_t d = kMaxSpatial; d-- > 0;) {
    if (!distance.add(phase.count[d], phase.out_step[d] * s.out_spatial[d])) return std::nullopt;
  }
  return distance.add(s.batch, s.out_batch) ? std::optional(distance.get()) : std::nullopt;
}

class TapConvolution final : public WindowKernel {
 public:
  TapConvolution(const ConvolutionShape& shape, const float* packed, int threads)
      : s_(in_three_dimensions(shape)),
        packed_(packed),
        zeros_(static_cast<size_t>(s_.groups * s_.channels)) {
    panels_.width = tile_panel_width(s_.filters);
    double work = 0;
    for (TapPhase& phase : tap_phases(shape)) {
      work += static_cast<double>(s_.batch * phase.rows()) * static_cast<double>(phase.taps.size());
      std::optional<int64_t> distance = row_distance(s_, phase);
      phases_.push_back({std::move(phase), distance});
    }
    work *= static_cast<double>(s_.channels * s_.filters * s_.groups);
    threads_ = useful_threads(work, threads);
    for (const Phase& phase : phases_)
      addresses_each_ = std::max(addresses_each_, phase.taps.taps.size() * static_cast<size_t>(kRows));
    addresses_.resize(addresses_each_ * static_cast<size_t>(threads_));
  }

  void run(const WindowArgs& args) const override {
    const GemmArgs operands = product_args(args);
    const int64_t panels = in_blocks(s_.filters, panels_.width) * s_.groups;
    const float* weights = packed_;
    for (const Phase& phase : phases_) {
      if (phase.taps.rows() > 0)
        split_tiles(
            threads_, s_.batch * phase.taps.rows(), panels,
            [&](const TilePart& part, int thread) {
              run_part(phase, operands, weights, part,
                       addresses_.data() + addresses_each_ * static_cast<size_t>(thread));
            },
            panels_.width);
      weights += panels * phase_depth(phase) * panels_.width;
    }
  }
  const char* name() const override { return "own taps"; }

 private:
  struct Phase {
    TapPhase taps;
    std::optional<int64_t> distance;  // row_distance
  };

  int64_t phase_depth(const Phase& phase) const { return std::ssize(phase.taps.taps) * s_.channels; }

  void run_part(const Phase& phase, const GemmArgs& args, const float* weights, const TilePart& part,
                const float** addresses) const {
    const int64_t taps = std::ssize(phase.taps.taps), depth = phase_depth(phase);
    const int64_t line = phase.taps.count[kMaxSpatial - 1];
    for (int64_t row = part.row_begin; row < part.row_end;) {
      int64_t count = std::min(part.row_end - row, kRows);
      if (!phase.distance) count = std::min(count, line - row % line);
      TapRows rows;
      rows.taps = taps;
      rows.channels = s_.channels;
      rows.filters = s_.filters;
      rows.a = addresses;
      rows.rows = count;
      rows.out = find(phase.taps, static_cast<const float*>(args.a), row, count, addresses);
      rows.out_row =
          phase.distance.value_or(phase.taps.out_step[kMaxSpatial - 1] * s_.out_spatial[kMaxSpatial - 1]);
      const int64_t of_group = in_blocks(s_.filters, panels_.width);
      for (int64_t panel = part.column_begin; panel < part.column_end;) {
        const int64_t group = panel / of_group, end = std::min(part.column_end, (group + 1) * of_group);
        rows.first_channel = group * s_.channels;
        rows.first_filter = group * s_.filters;
        tile_kernels()->taps(rows, s_.epilogue, args, weights + group * of_group * depth * panels_.width,
                             {panels_.width, depth * panels_.width}, panel - group * of_group,
                             end - group * of_group);
        panel = end;
      }
      row += count;
    }
  }

  // Finds the addresses [taps][count] of a phase's rows from `row` on. Returns the offset of the first one in
  // the result.
  int64_t find(const TapPhase& phase, const float* a, int64_t row, int64_t count, const float** to) const {
    Numbers at = {};
    int64_t rest = row;
    for (size_t d = kMaxSpatial; d-- > 0;) {
      at[d] = rest % phase.count[d];
      rest /= phase.count[d];
    }
    int64_t image = rest, out = image * s_.out_batch;
    for (size_t d = 0; d < kMaxSpatial; ++d)
      out += (phase.out_first[d] + at[d] * phase.out_step[d]) * s_.out_spatial[d];
    constexpr size_t kLast = kMaxSpatial - 1;
    for (int64_t done = 0; done < count;) {
      const int64_t run = std::min(count - done, phase.count[kLast] - at[kLast]);
      for (size_t t = 0; t < phase.taps.size(); ++t) {
        const Numbers& offset = phase.taps[t].offset;
        const float* base = a + image * s_.a_batch;
        bool inside = true;
        for (size_t d = 0; d < kLast; ++d) {
          const int64_t in = at[d] * phase.in_step[d] + offset[d];
          inside = inside && 0 <= in && in < s_.in[d];
          base += in * s_.a_spatial[d];
        }
        const float** const own = to + static_cast<int64_t>(t) * count + done;
        for (int64_t k = 0; k < run; ++k) {
          const int64_t in = (at[kLast] + k) * phase.in_step[kLast] + offset[kLast];
          own[k] = inside && 0 <= in && in < s_.in[kLast] ? base + in * s_.a_spatial[kLast] : zeros_.data();
        }
      }
      done += run;
      at[kLast] += run;
      for (size_t d = kLast; d > 0 && at[d] == phase.count[d]; --d) at[d] = 0, ++at[d - 1];
      if (at[0] == phase.count[0]) at[0] = 0, ++image;
    }
    return out;
  }

  ConvolutionShape s_;
  const float* packed_;
  Panels panels_;
  std::vector<Phase> phases_;
  size_t addresses_each_ = 0;  // of a thread
  mutable std::vector<const float*> addresses_;
  std::vector<float> zeros_;  // channels of an element outside of the image
  int threads_ = 1;
};

}  // namespace

std::vector<TapPhase> tap_phases(const ConvolutionShape& shape) {
  const ConvolutionShape s = in_three_dimensions(shape);
  std::vector<TapPhase> phases;
  Numbers steps = {1, 1, 1};
  if (s.transposed) steps = s.stride;
  for (int64_t k = 0; k < steps[0] * steps[1] * steps[2]; ++k) {
    TapPhase phase;
    phase.out_first = {k / (steps[1] * steps[2]), k / steps[2] % steps[1], k % steps[2]};
    phase.out_step = steps;
    for (size_t d = 0; d < kMaxSpatial; ++d) {
      phase.count[d] = phase.out_first[d] < s.out[d] ? in_blocks(s.out[d] - phase.out_first[d], steps[d]) : 0;
      phase.in_step[d] = s.transposed ? 1 : s.stride[d];
    }
    for (int64_t t = 0; t < s.taps[0] * s.taps[1] * s.taps[2]; ++t) {
      const Numbers at = {t / (s.taps[1] * s.taps[2]), t / s.taps[2] % s.taps[1], t % s.taps[2]};
      TapPhase::Tap tap = {{}, 0};
      bool reaches = true;
      for (size_t d = 0; d < kMaxSpatial; ++d) {
        tap.weights += at[d] * s.b_tap[d];
        const int64_t moved = at[d] * s.dilation[d];
        if (!s.transposed) {
          tap.offset[d] = moved - s.pad[d];
          continue;
        }
        const int64_t back = phase.out_first[d] + s.pad[d] - moved;
        reaches = reaches && back % s.stride[d] == 0;
        tap.offset[d] = back / s.stride[d];
      }
      if (reaches) phase.taps.push_back(tap);
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

int64_t tap_weights(const ConvolutionShape& s) {
  const int64_t width = tile_panel_width(s.filters);
  int64_t taps = 0;
  for (const TapPhase& phase : tap_phases(s)) taps += std::ssize(phase.taps);
  return taps * s.channels * s.groups * in_blocks(s.filters, width) * width;
}

void pack_tap_weights(const ConvolutionShape& s, const float* b, float* to) {
  const int64_t width = tile_panel_width(s.filters), panels = in_blocks(s.filters, width);
  for (const TapPhase& phase : tap_phases(s)) {
    for (int64_t panel = 0; panel < s.groups * panels; ++panel) {
      const int64_t group = panel / panels, first = panel % panels * width;
      for (const TapPhase::Tap& tap : phase.taps) {
        for (int64_t c = 0; c < s.channels; ++c, to += width) {
          for (int64_t f = 0; f < width; ++f) {
            to[f] = first + f < s.filters
                        ? b[group * s.b_group + tap.weights + c * s.b_channel + (first + f) * s.b_filter]
                        : 0;
          }
        }
      }
    }
  }
}

bool suits_taps(const ConvolutionShape& s) {
  // A vector has 16 filters. The library's transposed convolutions waste more.
  const int64_t fewest = s.transposed ? 1 : 8;
  constexpr double kMostTaps = 4096, kMostPhases = 4096;  // each tap of a phase has addresses of its own
  double taps = 1, phases = 1;
  for (size_t d = 0; d < static_cast<size_t>(s.spatial); ++d) {
    taps *= static_cast<double>(s.taps[d]);
    if (s.transposed) phases *= static_cast<double>(s.stride[d]);
  }
  return tile_kernels() != nullptr && s.channels > 0 && s.filters >= fewest && taps <= kMostTaps &&
         phases <= kMostPhases && (s.channels * s.groups == 1 || s.a_channel == 1) && s.out_channel == 1;
}

std::unique_ptr<WindowKernel> tap_convolution(const ConvolutionShape& s, const float* packed, int threads) {
  return std::make_unique<TapConvolution>(s, packed, threads);
}

}  // namespace braid::rt
