// RoiAlign: regions of images, resampled to equal sizes.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

bool half_pixel(OpContext& c) {
  if (c.version() < 16) return false;
  const std::string mode = c.string_attribute("coordinate_transformation_mode", "half_pixel");
  if (mode != "half_pixel" && mode != "output_half_pixel") {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'coordinate_transformation_mode' is '{}', expected half_pixel "
                       "or output_half_pixel",
                       mode));
  }
  return mode == "half_pixel";
}

void lower_roi_align(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::string mode = c.string_attribute("mode", "avg");
  if (mode != "avg" && mode != "max")
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'mode' is '{}', expected avg or max", mode));
  const std::int64_t height = c.int_attribute("output_height", 1), width = c.int_attribute("output_width", 1),
                     sampling_ratio = c.int_attribute("sampling_ratio", 0);
  if (height < 1 || width < 1 || sampling_ratio < 0) {
    c.fail(errors::kInvalidAttribute,
           fmt::format(
               "attributes 'output_height', 'output_width' and 'sampling_ratio' are {}, {} and {}, expected "
               "at least 1, 1 and 0",
               height, width, sampling_ratio));
  }
  constexpr std::int64_t kMostSamples = 1024;  // along an axis of each bin
  if (sampling_ratio > kMostSamples)
    c.fail(errors::kUnsupportedForm,
           fmt::format("attribute 'sampling_ratio' is {}, which is above {}", sampling_ratio, kMostSamples));
  if (c.rank(0) != 4 || c.rank(1) != 2 || c.rank(2) != 1) {
    c.fail(errors::kShapeMismatch, fmt::format("inputs of ranks {}, {} and {}, expected 4, 2 and 1",
                                               c.rank(0), c.rank(1), c.rank(2)));
  }
  const std::vector<Expr>& sizes = c.sizes(0);
  if (sizes[2].is_constant(0) || sizes[3].is_constant(0))
    c.fail(errors::kShapeMismatch, "the images have no pixels");
  for (const std::size_t axis : {std::size_t{2}, std::size_t{3}})
    l.require_equal(ir::max(sizes[axis], 1), sizes[axis]);
  const DType dtype = c.dtype(0), compute = compute_type(dtype);
  const TensorBox x = l.cast(c.input(0), compute), batch = c.input(2);
  const Expr regions = c.size(1, 0);
  l.require_equal(c.size(1, 1), 4);
  l.require_equal(batch.sizes()[0], regions);
  const TensorBox boxes = l.reshape(l.cast(c.input(1), compute), {regions, 4});
  const TensorBox images = l.generate({regions}, [&](BodyBuilder& b, std::span<const Expr> at) {
    return b.check_index(b.cast(l.load(b, batch, at), DType::i64), sizes[0]);
  });
  const TensorBox y =
      l.extern_call("roi_align", {x, boxes, images}, {{compute, {regions, sizes[1], height, width}}},
                    {{"half_pixel", std::int64_t{half_pixel(c)}},
                     {"maximum", std::int64_t{mode == "max"}},
                     {"sampling_ratio", sampling_ratio},
                     {"spatial_scale", double{c.float_attribute("spatial_scale", 1)}}})[0];
  c.set_output(0, l.cast(y, dtype));
}

}  // namespace

std::span<const OpSpec> roi_align_ops() {
  static const OpSpec ops[] = {
      {"", "RoiAlign", 10, kNewestOpset, kFloats, lower_roi_align, work::regions(), rule::kRoiAlign, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
