// Signal processing: window functions, the discrete Fourier transform as a product with a matrix of sines and
// cosines, its short-time form, and the weights of mel scales.
#include <cmath>
#include <numbers>

#include "frontend/ops/constant_input.h"
#include "frontend/ops/real.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// ---- windows

// Sum of cosine terms: a[0] - a[1] cos(p) + a[2] cos(2 p) for the phase p of an element.
void lower_window(OpContext& c, const std::vector<double>& a) {
  const std::vector<Expr> size = c.shape_values(0, "the size");
  if (size.size() != 1)
    c.fail(errors::kShapeMismatch, fmt::format("the size must be one number, got {}", size.size()));
  if (ir::bounds(size[0]).min < 0)
    c.fail(errors::kInvalidNode, fmt::format("the size is {}", to_string(size[0])));
  constexpr std::int64_t kOnnxFloat = 1;
  const DType dtype = c.dtype_of(c.int_attribute("output_datatype", kOnnxFloat));
  const Expr period = c.int_attribute("periodic", 1) != 0 ? size[0] : size[0] - 1;
  c.set_output(0, c.lowering().generate(size, [&](BodyBuilder& b, std::span<const Expr> at) {
    const Real phase = real(b, at[0]) * (2 * std::numbers::pi) / real(b, period);
    Real sum = literal(phase, a[0]);
    for (std::size_t k = 1; k < a.size(); ++k) {
      const Real term = apply(OpCode::cos, phase * static_cast<double>(k)) * a[k];
      sum = k % 2 == 1 ? sum - term : sum + term;
    }
    return b.cast(sum.v, dtype);
  }));
}

void lower_hann(OpContext& c) { lower_window(c, {0.5, 0.5}); }
void lower_hamming(OpContext& c) { lower_window(c, {25.0 / 46.0, 21.0 / 46.0}); }
void lower_blackman(OpContext& c) { lower_window(c, {0.42, 0.5, 0.08}); }

// ---- Fourier transform

// Which transform of `length` points: `inputs` points are given, `outputs` wanted, each real or complex.
struct Transform {
  std::int64_t length, inputs, outputs;
  bool complex_input, complex_output;
  bool inverse;
  bool half_spectrum = false;  // given: the other half is its mirror image

  std::int64_t rows() const { return inputs * (complex_input ? 2 : 1); }
  std::int64_t columns() const { return outputs * (complex_output ? 2 : 1); }
};

// The entry of the matrix by which part `p` (0 real, 1 imaginary) of input n contributes to part q of output
// k.
double entry(const Transform& t, std::int64_t n, int p, std::int64_t k, int q) {
  const double sign = t.inverse ? 1 : -1;
  const double phase =
      2 * std::numbers::pi * static_cast<double>(n * k % t.length) / static_cast<double>(t.length);
  const double cosine = std::cos(phase), sine = sign * std::sin(phase);
  double value = p == q ? cosine : p == 0 ? sine : -sine;
  if (t.half_spectrum) {
    const bool has_mirror = n != 0 && 2 * n != t.length;
    if (has_mirror) value *= 2;
    if (!has_mirror && p == 1) value = 0;  // real in the spectrum of a real signal, whatever is given
  }
  return t.inverse ? value / static_cast<double>(t.length) : value;
}

TensorBox matrix_of(OpContext& c, const Transform& t, DType dtype) {
  constexpr std::int64_t kMostEntries = std::int64_t{1} << 25;
  if (t.rows() > 0 && t.columns() > kMostEntries / t.rows()) {
    c.fail(errors::kUnsupportedForm,
           fmt::format("a transform of {} points is too long, its matrix would have more than {} "
                       "entries",
                       t.length, kMostEntries));
  }
  std::vector<double> entries;
  for (std::int64_t n = 0; n < t.inputs; ++n) {
    for (int p = 0; p < (t.complex_input ? 2 : 1); ++p) {
      for (std::int64_t k = 0; k < t.outputs; ++k) {
        for (int q = 0; q < (t.complex_output ? 2 : 1); ++q) entries.push_back(entry(t, n, p, k, q));
      }
    }
  }
  return constant_table(c, "fourier_matrix", dtype, {t.rows(), t.columns()}, entries);
}

// The transform of the last two axes of x, [..., points, parts].
TensorBox transformed(OpContext& c, const Transform& t, const TensorBox& x) {
  ir::Lowering& l = c.lowering();
  std::vector<Expr> sizes = x.sizes();
  const Expr batch = ir::product(std::span(sizes).first(sizes.size() - 2));
  const TensorBox product =
      l.matmul(l.reshape(l.slice(x, static_cast<int>(x.rank()) - 2, 0, t.inputs), {batch, t.rows()}),
               matrix_of(c, t, x.dtype()));
  sizes[sizes.size() - 2] = t.outputs;
  sizes.back() = t.complex_output ? 2 : 1;
  return l.reshape(product, sizes);
}

std::int64_t fixed(OpContext& c, Expr size, const char* what) {
  if (!size.is_constant()) {
    c.fail(errors::kDataDependentSize, fmt::format("{} {} depends on a dimension", what, to_string(size)),
           "fix the dimension to one value");
  }
  return size.constant();
}

bool is_complex(OpContext& c, const std::vector<Expr>& sizes) {
  const std::int64_t parts = fixed(c, sizes.back(), "the last size");
  if (parts != 1 && parts != 2)
    c.fail(errors::kShapeMismatch,
           fmt::format("the last axis has size {}, expected 1 (real) or 2 (complex)", parts));
  return parts == 2;
}

int transform_axis(OpContext& c) {
  const int rank = c.rank(0);
  std::int64_t axis = c.version() < 20 ? c.int_attribute("axis", 1) : -2;
  if (c.version() >= 20 && c.has_input(2)) {
    const std::vector<std::int64_t> given = c.constant_ints(2, "the axis");
    if (given.size() != 1) c.fail(errors::kShapeMismatch, "the axis must be one number");
    axis = given[0];
  }
  const int normal = c.normalize_axis(axis, rank);
  if (normal == rank - 1)
    c.fail(errors::kInvalidAttribute, "the axis is the last one, which holds the parts of numbers");
  return normal;
}

void lower_dft(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) < 2)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected at least 2", c.rank(0)));
  const int axis = transform_axis(c), last = c.rank(0) - 1;
  const bool inverse = c.int_attribute("inverse", 0) != 0, onesided = c.int_attribute("onesided", 0) != 0;
  const std::int64_t given = fixed(c, c.sizes(0)[static_cast<std::size_t>(axis)], "the length of the signal");
  Transform t{};
  t.inverse = inverse;
  t.complex_input = is_complex(c, c.sizes(0));
  if (onesided && t.complex_input != inverse) {
    c.fail(errors::kInvalidNode, inverse ? "attribute 'onesided' of an inverse transform needs complex input"
                                         : "attribute 'onesided' needs real input");
  }
  t.half_spectrum = onesided && inverse;
  t.complex_output = !t.half_spectrum;
  t.length = t.half_spectrum ? 2 * (given - 1) : given;
  if (c.has_input(1)) {
    const std::vector<std::int64_t> length = c.constant_ints(1, "the length of the transform");
    if (length.size() != 1) c.fail(errors::kShapeMismatch, "the length of the transform must be one number");
    t.length = length[0];
  }
  if (t.length < 1)
    c.fail(errors::kInvalidNode, fmt::format("the transform has length {}, expected at least 1", t.length));
  // A shorter signal is followed by zeros, which contribute nothing.
  t.inputs = std::min(given, t.half_spectrum ? t.length / 2 + 1 : t.length);
  t.outputs = onesided && !inverse ? t.length / 2 + 1 : t.length;

  std::vector<int> order, back;
  for (int d = 0; d < last; ++d) {
    if (d != axis) order.push_back(d);
    back.push_back(d < axis ? d : d == axis ? last - 1 : d - 1);
  }
  order.push_back(axis);
  order.push_back(last);
  back.push_back(last);
  const DType dtype = c.dtype(0);
  const TensorBox x = l.permute(l.cast(c.input(0), compute_type(dtype)), order);
  c.set_output(0, l.cast(l.permute(transformed(c, t, x), back), dtype));
}

void lower_stft(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) != 3)
    c.fail(errors::kShapeMismatch, fmt::format("the signal has rank {}, expected 3", c.rank(0)));
  const TensorBox signal = c.input(0);
  const auto scalar = [&](int k, const char* what) {
    const std::vector<std::int64_t> given = c.constant_ints(k, what);
    if (given.size() != 1 || given[0] < 1)
      c.fail(errors::kInvalidNode, fmt::format("{} must be one positive number", what));
    return given[0];
  };
  const std::int64_t step = scalar(1, "the step");
  const bool has_window = c.has_input(2);
  if (has_window && c.rank(2) != 1)
    c.fail(errors::kShapeMismatch, fmt::format("the window has rank {}, expected 1", c.rank(2)));
  const std::int64_t length = c.has_input(3) ? scalar(3, "the length of a frame")
                              : has_window   ? fixed(c, c.size(2, 0), "the length of the window")
                                             : fixed(c, c.size(0, 1), "the length of the signal");
  if (has_window) l.require_equal(c.size(2, 0), length);
  const Expr frames = ir::floor_div(c.size(0, 1) - length, step) + 1;
  if (ir::bounds(frames).max < 1)
    c.fail(errors::kShapeMismatch, fmt::format("the signal of length {} is shorter than a frame of length {}",
                                               to_string(c.size(0, 1)), length));
  Transform t{};
  t.complex_input = is_complex(c, c.sizes(0));
  t.complex_output = true;
  const bool onesided = c.int_attribute("onesided", 1) != 0;
  if (onesided && t.complex_input) c.fail(errors::kInvalidNode, "attribute 'onesided' needs real input");
  t.length = t.inputs = length;
  t.outputs = onesided ? length / 2 + 1 : length;
  const DType dtype = signal.dtype(), compute = compute_type(dtype);
  const std::vector<Expr> sizes{signal.sizes()[0], frames, length, t.complex_input ? 2 : 1};
  const TensorBox framed = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const std::vector<Expr> source{at[0], at[1] * step + at[2], at[3]};
    const ValueId value = b.cast(l.load(b, signal, source), compute);
    if (!has_window) return value;
    return b.binary(OpCode::mul, value, b.cast(l.load(b, c.input(2), at.subspan(2, 1)), compute));
  });
  c.set_output(0, l.cast(transformed(c, t, framed), dtype));
}

// ---- mel scales

// The spectrogram bin of each mel bin's lower edge, and of the two edges after the last one.
std::vector<std::int64_t> edges_of(OpContext& c, std::int64_t bins, std::int64_t length) {
  const double rate = constant_number(c, 2, "the sample rate"),
               lowest = constant_number(c, 3, "the lower edge"),
               highest = constant_number(c, 4, "the upper edge");
  const auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.0); };
  const double low = mel(lowest), step = (mel(highest) - low) / static_cast<double>(bins + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t k = 0; k < bins + 2; ++k) {
    const double at = static_cast<double>(k) * step + low;
    const double hertz = 700 * std::expm1(at / 2595 * std::log(10.0));
    const double edge = std::floor(static_cast<double>(length + 1) * hertz / rate);
    if (!(edge >= 0) || !(edge <= static_cast<double>(length / 2))) {
      c.fail(errors::kInvalidNode,
             fmt::format("mel bin {} lies at spectrogram bin {}, expected 0 to {}", k, edge, length / 2),
             "the edges must lie between 0 and half of the sample rate");
    }
    edges.push_back(static_cast<std::int64_t>(edge));
  }
  return edges;
}

void lower_mel_weight_matrix(OpContext& c) {
  constexpr std::int64_t kMostEntries = std::int64_t{1} << 25;
  const auto whole = [&](int k, const char* what) {
    const double number = constant_number(c, k, what);
    if (!(number >= 0) || !(number <= static_cast<double>(kMostEntries)))
      c.fail(errors::kInvalidNode, fmt::format("{} is {}, expected 0 to {}", what, number, kMostEntries));
    return static_cast<std::int64_t>(number);
  };
  const std::int64_t bins = whole(0, "the number of mel bins"),
                     length = whole(1, "the length of the transform");
  const std::int64_t rows = length / 2 + 1;
  if (bins > kMostEntries / rows)
    c.fail(errors::kSizeOverflow, fmt::format("{} times {} weights are too many", rows, bins));
  const std::vector<std::int64_t> edges = edges_of(c, bins, length);
  std::vector<double> weights(static_cast<std::size_t>(rows * bins), 0);
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    const auto k = static_cast<std::size_t>(bin);
    const std::int64_t left = edges[k], center = edges[k + 1], right = edges[k + 2];
    const auto weight = [&](std::int64_t row) -> double& {
      return weights[static_cast<std::size_t>(row * bins + bin)];
    };
    if (left == center) weight(center) = 1;
    for (std::int64_t row = left; left != center && row <= center; ++row)
      weight(row) = static_cast<double>(row - left) / static_cast<double>(center - left);
    for (std::int64_t row = center; row < right; ++row)
      weight(row) = static_cast<double>(right - row) / static_cast<double>(right - center);
  }
  constexpr std::int64_t kOnnxFloat = 1;
  const DType dtype = c.dtype_of(c.int_attribute("output_datatype", kOnnxFloat));
  c.set_output(0, rounded_tensor(dtype, {rows, bins}, weights));
}

constexpr TypeSet kSizeTypes = {DType::i32, DType::i64};

}  // namespace

std::span<const OpSpec> signal_ops() {
  static const OpSpec ops[] = {
      {"", "BlackmanWindow", 17, kNewestOpset, kSizeTypes, lower_blackman, work::pointwise(45), rule::kTable,
       kNoState, kNoSizes},
      {"", "DFT", 17, kNewestOpset, kFloats, lower_dft, work::transform(), rule::kFourier, kNoState,
       kNoSizes},
      {"", "HammingWindow", 17, kNewestOpset, kSizeTypes, lower_hamming, work::pointwise(27), rule::kTable,
       kNoState, kNoSizes},
      {"", "HannWindow", 17, kNewestOpset, kSizeTypes, lower_hann, work::pointwise(27), rule::kTable,
       kNoState, kNoSizes},
      {"", "MelWeightMatrix", 17, kNewestOpset, kSizeTypes, lower_mel_weight_matrix, work::constant(),
       rule::kTable, kNoState, kNoSizes},
      {"", "STFT", 17, kNewestOpset, kFloats, lower_stft, work::short_transform(), rule::kShortFourier,
       kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
