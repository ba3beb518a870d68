// Col2Im: overlapping blocks, given as columns, are added up to the image that they cover.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// One spatial axis.
struct Window {
  std::int64_t block, stride, dilation, pad_begin, pad_end;
  Expr image;

  // Blocks along the axis.
  Expr blocks() const {
    return ir::floor_div(image + pad_begin + pad_end - dilation * (block - 1) - 1, stride) + 1;
  }
};

std::vector<Window> windows_of(OpContext& c) {
  const std::vector<Expr> image = c.shape_values(1, "the sizes of the image");
  const std::vector<std::int64_t> block = c.constant_ints(2, "the sizes of a block");
  const std::size_t n = block.size();
  if (image.size() != n || n == 0)
    c.fail(errors::kShapeMismatch,
           fmt::format("{} sizes of the image for {} sizes of a block", image.size(), n));
  const auto list = [&](const char* name, std::size_t count, std::int64_t fallback) {
    const auto given = c.ints_attribute(name).value_or(std::vector<std::int64_t>(count, fallback));
    if (given.size() != count)
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute '{}' has {} elements, expected {}", name, given.size(), count));
    return given;
  };
  const auto strides = list("strides", n, 1), dilations = list("dilations", n, 1),
             pads = list("pads", 2 * n, 0);
  std::vector<Window> windows;
  for (std::size_t k = 0; k < n; ++k) {
    if (strides[k] < 1 || dilations[k] < 1 || block[k] < 1 || pads[k] < 0 || pads[k + n] < 0)
      c.fail(errors::kInvalidAttribute, "strides, dilations and blocks must be at least 1, pads at least 0");
    windows.push_back({block[k], strides[k], dilations[k], pads[k], pads[k + n], image[k]});
    if (ir::bounds(windows.back().blocks()).min < 0)
      c.fail(errors::kShapeMismatch,
             fmt::format("a block is larger than the image along spatial axis {}", k));
  }
  return windows;
}

void lower_col2im(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) != 3)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected 3", c.rank(0)));
  const std::vector<Window> windows = windows_of(c);
  const std::size_t n = windows.size();
  const std::vector<Expr>& in = c.sizes(0);
  Expr block = 1, columns = 1;
  for (const Window& w : windows) {
    block = block * w.block;
    columns = columns * w.blocks();
  }
  const Expr channels = ir::floor_div(in[1], block);
  l.require_equal(channels * block, in[1]);
  l.require_equal(columns, in[2]);

  std::vector<Expr> sizes{in[0], channels};
  for (const Window& w : windows) sizes.push_back(w.image);
  for (const Window& w : windows) sizes.emplace_back(w.block);
  const DType dtype = c.dtype(0);
  const bool boolean = dtype == DType::boolean;  // "or" instead of a sum
  const DType compute = boolean ? DType::u8 : compute_type(dtype);
  const TensorBox x = c.input(0);
  const TensorBox terms = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    Expr in_block = 0, column = 0;
    std::optional<ValueId> covered;
    const auto require = [&](ValueId condition) {
      covered = covered ? b.binary(OpCode::logical_and, *covered, condition) : condition;
    };
    const ValueId zero = b.constant(DType::i64, std::int64_t{0});
    for (std::size_t k = 0; k < n; ++k) {
      const Window& w = windows[k];
      const Expr start = at[2 + k] + w.pad_begin - at[2 + n + k] * w.dilation;
      const Expr index = ir::floor_div(start, w.stride);
      require(b.binary(OpCode::ge, b.index(start), zero));
      require(b.binary(OpCode::lt, b.index(index), b.index(w.blocks())));
      if (w.stride > 1) require(b.binary(OpCode::eq, b.index(ir::mod(start, w.stride)), zero));
      in_block = in_block * w.block + at[2 + n + k];
      column = column * w.blocks() + index;
    }
    const std::vector<Expr> source{at[0], at[1] * block + in_block, column};
    return b.cast(l.load(b, x, source, covered), compute);
  });
  std::vector<int> reduced;
  for (std::size_t k = 0; k < n; ++k) reduced.push_back(static_cast<int>(2 + n + k));
  const ir::ReduceKind kind = boolean ? ir::ReduceKind::max : ir::ReduceKind::sum;
  c.set_output(0, l.cast(l.reduce(terms, kind, reduced, false), dtype));
}

}  // namespace

std::span<const OpSpec> col2im_ops() {
  static const OpSpec ops[] = {
      {"", "Col2Im", 18, kNewestOpset, kAllTypes, lower_col2im, work::columns(), rule::kCol2Im, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
