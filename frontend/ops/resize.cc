// Resize and Upsample: interprets their attributes and inputs, which differ between versions.
#include <algorithm>
#include <cmath>

#include "frontend/ops/constant_input.h"
#include "frontend/ops/resample.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void require_one_of(OpContext& c, const char* name, const std::string& value,
                    std::initializer_list<std::string_view> allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  c.fail(errors::kInvalidAttribute,
         fmt::format("attribute '{}' is '{}', expected {}", name, value, fmt::join(allowed, ", ")));
}

ResizeMode mode_of(OpContext& c, bool with_cubic) {
  const std::string mode = c.string_attribute("mode", "nearest");
  if (with_cubic)
    require_one_of(c, "mode", mode, {"nearest", "linear", "cubic"});
  else
    require_one_of(c, "mode", mode, {"nearest", "linear"});
  return mode == "nearest" ? ResizeMode::nearest : mode == "linear" ? ResizeMode::linear : ResizeMode::cubic;
}

ResizeOptions options_of(OpContext& c) {
  ResizeOptions o;
  o.mode = mode_of(c, true);
  o.coordinates = c.string_attribute("coordinate_transformation_mode", "half_pixel");
  require_one_of(c, "coordinate_transformation_mode", o.coordinates,
                 {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                  "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  o.nearest_mode = c.string_attribute("nearest_mode", "round_prefer_floor");
  require_one_of(c, "nearest_mode", o.nearest_mode,
                 {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  o.antialias = c.int_attribute("antialias", 0) != 0;
  o.exclude_outside = c.int_attribute("exclude_outside", 0) != 0;
  o.cubic_a = c.float_attribute("cubic_coeff_a", -0.75F);
  o.extrapolation = c.float_attribute("extrapolation_value", 0);
  if (!std::isfinite(o.cubic_a))
    c.fail(errors::kInvalidAttribute, "attribute 'cubic_coeff_a' is not a finite number");
  if (o.mode == ResizeMode::nearest && (o.antialias || o.exclude_outside)) {
    c.fail(errors::kUnsupportedForm,
           fmt::format("attribute '{}' is 1 in mode nearest, which has no weights",
                       o.antialias ? "antialias" : "exclude_outside"),
           "use mode linear or cubic");
  }
  return o;
}

// The axes that `scales`, `sizes` and `roi` describe, in their order.
std::vector<std::size_t> listed_axes(OpContext& c) {
  std::vector<std::size_t> axes;
  if (const auto given = c.ints_attribute("axes")) {
    for (const std::int64_t axis : *given)
      axes.push_back(static_cast<std::size_t>(c.normalize_axis(axis, c.rank(0), "an axis")));
    std::vector<std::size_t> sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      c.fail(errors::kInvalidAttribute, "an axis is given twice");
  } else {
    for (int k = 0; k < c.rank(0); ++k) axes.push_back(static_cast<std::size_t>(k));
  }
  return axes;
}

// floor(size * scale), exactly: a binary fraction has a power of two as its denominator.
Expr scaled_size(OpContext& c, Expr size, double scale) {
  if (!(scale > 0) || !(scale < 1e6))
    c.fail(errors::kInvalidNode,
           fmt::format("a scale is {}, expected a positive number below 1000000", scale));
  if (size.is_constant()) {
    const double scaled = std::floor(static_cast<double>(size.constant()) * scale);
    if (!(scaled < 9e15))
      c.fail(errors::kSizeOverflow, fmt::format("size {} times {} is too large", size.constant(), scale));
    return static_cast<std::int64_t>(scaled);
  }
  int exponent = 0;
  auto numerator = static_cast<std::int64_t>(std::ldexp(std::frexp(scale, &exponent), 24));
  int shift = 24 - exponent;
  while (shift > 0 && numerator % 2 == 0) {
    numerator /= 2;
    --shift;
  }
  if (shift <= 0) return size * (numerator << -shift);
  constexpr int kLongestShift = 40;
  if (shift > kLongestShift)
    c.fail(errors::kInvalidNode, fmt::format("a scale is {}, which is too small", scale));
  return ir::floor_div(size * numerator, std::int64_t{1} << shift);
}

void require_count(OpContext& c, const char* what, std::size_t count, std::size_t axes) {
  if (count != axes) c.fail(errors::kShapeMismatch, fmt::format("{} {} for {} axes", count, what, axes));
}

// The sizes asked for, with the ratio of all axes the same if the policy says so.
void apply_sizes(OpContext& c, std::vector<ResizeAxis>& axes, const std::vector<Expr>& wanted) {
  require_count(c, "sizes", wanted.size(), axes.size());
  const std::string policy = c.string_attribute("keep_aspect_ratio_policy", "stretch");
  require_one_of(c, "keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"});
  for (std::size_t k = 0; k < axes.size(); ++k) {
    axes[k].out = wanted[k];
    if (ir::bounds(wanted[k]).max < 0)
      c.fail(errors::kShapeMismatch,
             fmt::format("axis {} would have size {}", axes[k].index, to_string(wanted[k])));
  }
  if (policy == "stretch" || axes.empty()) return;
  std::optional<double> scale;
  for (const ResizeAxis& axis : axes) {
    if (!axis.is_static()) {
      c.fail(errors::kUnsupportedForm,
             fmt::format("attribute 'keep_aspect_ratio_policy' is '{}', but the size of axis {} depends on a "
                         "dimension",
                         policy, axis.index),
             "fix the dimension to one value");
    }
    if (axis.in.is_constant(0))
      c.fail(errors::kShapeMismatch, fmt::format("axis {} has no elements", axis.index));
    const double own = axis.known_scale();
    scale = !scale ? own : policy == "not_larger" ? std::min(*scale, own) : std::max(*scale, own);
  }
  for (ResizeAxis& axis : axes) {
    axis.scale = scale;
    const double size = std::floor(*scale * static_cast<double>(axis.in.constant()) + 0.5);
    if (!(size < 9e15)) c.fail(errors::kSizeOverflow, fmt::format("axis {} becomes too large", axis.index));
    axis.out = static_cast<std::int64_t>(size);
  }
}

void apply_scales(OpContext& c, std::vector<ResizeAxis>& axes, const std::vector<double>& scales) {
  require_count(c, "scales", scales.size(), axes.size());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    axes[k].scale = scales[k];
    axes[k].out = scaled_size(c, axes[k].in, scales[k]);
  }
}

void apply_roi(OpContext& c, std::vector<ResizeAxis>& axes) {
  if (!has_elements(c, 1)) c.fail(errors::kInvalidNode, "mode tf_crop_and_resize needs the input 'roi'");
  const std::vector<double> roi = constant_numbers(c, 1, "the regions");
  require_count(c, "ends of regions", roi.size(), 2 * axes.size());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    axes[k].roi_start = roi[k];
    axes[k].roi_end = roi[k + axes.size()];
  }
}

bool unchanged(const ResizeAxis& axis) {
  const bool same_scale = !axis.scale || std::abs(*axis.scale - 1) < 1e-9;
  return axis.in == axis.out && same_scale && axis.roi_start == 0 && axis.roi_end == 1;
}

std::vector<ResizeAxis> axes_of(OpContext& c) {
  std::vector<ResizeAxis> axes;
  for (const std::size_t index : listed_axes(c)) axes.push_back({index, c.sizes(0)[index], 0, std::nullopt});
  return axes;
}

void lower_resize(OpContext& c) {
  const ResizeOptions o = options_of(c);
  std::vector<ResizeAxis> axes = axes_of(c);
  const bool by_scales = has_elements(c, 2), by_sizes = has_elements(c, 3);
  if (by_scales == by_sizes)
    c.fail(errors::kInvalidNode, "exactly one of the inputs 'scales' and 'sizes' must be given");
  if (by_scales)
    apply_scales(c, axes, constant_numbers(c, 2, "the scales"));
  else
    apply_sizes(c, axes, c.shape_values(3, "the sizes"));
  if (o.coordinates == "tf_crop_and_resize") apply_roi(c, axes);
  std::erase_if(axes, unchanged);
  c.set_output(0, resized(c, o, axes));
}

// Version 10 of Resize and all of Upsample.
template <bool kUpsample>
void lower_by_scales(OpContext& c) {
  ResizeOptions o;
  o.mode = mode_of(c, false);
  o.coordinates = "asymmetric";
  o.nearest_mode = "simple";
  std::vector<double> scales;
  if (const auto given = c.floats_attribute("scales"))
    scales.assign(given->begin(), given->end());
  else
    scales = constant_numbers(c, 1, "the scales");
  for (const double scale : scales) {
    if (kUpsample && !(scale >= 1))
      c.fail(errors::kInvalidNode, fmt::format("a scale is {}, expected at least 1", scale));
  }
  std::vector<ResizeAxis> axes = axes_of(c);
  apply_scales(c, axes, scales);
  std::erase_if(axes, unchanged);
  c.set_output(0, resized(c, o, axes));
}

}  // namespace

std::span<const OpSpec> resize_ops() {
  static const OpSpec ops[] = {
      {"", "Resize", 10, 10, kAllTypes, lower_by_scales<false>, work::resize(), rule::kResize, kNoState,
       kNoSizes},
      {"", "Resize", 11, kNewestOpset, kAllTypes, lower_resize, work::resize(), rule::kResize, kNoState,
       kNoSizes},
      {"", "Upsample", 7, 9, kAllTypes, lower_by_scales<true>, work::resize(), rule::kUpsample, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
