// Weights of a few bits, quantised in blocks: MatMulNBits and GatherBlockQuantized of com.microsoft.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "frontend/ops/index.h"
#include "frontend/ops/matmul.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/schemas.h"
#include "ir/element.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

std::int64_t bits_attribute(OpContext& c) {
  const std::int64_t bits = c.int_attribute("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'bits' is {}, expected 2, 4 or 8", bits));
  return bits;
}

std::int64_t block_size_attribute(OpContext& c, std::int64_t size) {
  if (size < 16 || (size & (size - 1)) != 0)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'block_size' is {}, expected a power of two from 16 on", size));
  return size;
}

// Returns number `position` of those that are packed along the last axis of `bytes`, in u8. The first number
// lies in the lowest bits.
ValueId unpacked(OpContext& c, BodyBuilder& b, const TensorBox& bytes, std::vector<Expr> row,
                 const Expr& position, std::int64_t bits, std::optional<ValueId> mask = std::nullopt) {
  const std::int64_t per_byte = 8 / bits;
  row.push_back(ir::floor_div(position, per_byte));
  ValueId v = c.lowering().load(b, bytes, row, mask);
  if (per_byte == 1) return v;
  const ValueId shift = b.index(ir::mod(position, per_byte) * bits, DType::u8);
  v = b.binary(OpCode::shift_right, v, shift);
  return b.binary(OpCode::bit_and, v, b.constant(DType::u8, std::int64_t{(1 << bits) - 1}));
}

// Inputs of MatMulNBits. The weights are N rows of K numbers.
enum Input { input, weights, scales, zero_points, group_index, bias };

class QuantizedRows {
 public:
  explicit QuantizedRows(OpContext& c)
      : c_(c),
        columns_(positive(c, "K")),
        rows_(positive(c, "N")),
        bits_(bits_attribute(c)),
        block_(block_size_attribute(c, c.int_attribute("block_size"))),
        blocks_((columns_ + block_ - 1) / block_) {
    if (c.int_attribute("weight_prepacked", 0) != 0)
      c.fail(errors::kUnsupportedForm,
             "attribute 'weight_prepacked': weights in the layout of a device are not supported");
    const std::int64_t blob = block_ * bits_ / 8, zeros = (blocks_ * bits_ + 7) / 8;
    require_count(weights, {rows_, blocks_, blob});
    require_count(scales, {rows_, blocks_});
    if (c.has_input(zero_points)) require_count(zero_points, {rows_, packed_zeros() ? zeros : blocks_});
    if (c.has_input(group_index)) {
      require_rank(c, group_index, {1});
      const std::int64_t given = known_size(c, c.size(group_index, 0), "the length of g_idx");
      if (given != columns_ && given != blocks_ * block_)
        c.fail(errors::kShapeMismatch,
               fmt::format("input 4 (g_idx) has {} numbers, expected {}", given, columns_));
    }
  }

  std::int64_t columns() const { return columns_; }
  std::int64_t rows() const { return rows_; }

  // Rows [m, K] times the weights as they are packed; nullopt if no kernel takes them.
  std::optional<TensorBox> packed_product(const TensorBox& x) {
    const std::int64_t group = bits_ == 4 ? 32 : 16;
    if (bits_ == 2 || block_ % group != 0 || c_.has_input(group_index) || !all_constant())
      return std::nullopt;
    if (c_.has_input(zero_points) && !packed_zeros()) return std::nullopt;
    ir::Lowering& l = c_.lowering();
    const std::int64_t in_block = block_ * bits_ / 8;
    std::vector<TensorBox> operands = {x, shaped(weights, {rows_, blocks_ * in_block}), float_scales()};
    if (c_.has_input(zero_points)) operands.push_back(byte_zeros());
    const Expr m = x.sizes()[0];
    return l.extern_call("block_product", operands,
                         {{DType::f32, {m, rows_}}, {DType::f32, {m, blocks_ * block_}}},
                         {{"bits", bits_}, {"block", block_}})[0];
  }

  // [N, K] in f32: computed now if everything is constant, and else a loop.
  TensorBox weights_as_floats() { return all_constant() ? folded() : loop(); }

 private:
  bool all_constant() {
    for (const int k : {weights, scales, zero_points, group_index}) {
      if (c_.has_input(k) && !c_.value(k).constant) return false;
    }
    return true;
  }

  // Returns a constant whose bytes `compute` writes: once, or for each rank if a constant input differs by
  // rank.
  TensorBox computed(int named_after, const char* what, DType dtype, std::vector<std::int64_t> sizes,
                     const std::function<void(std::byte*)>& compute) {
    int versions = 1;
    std::size_t bytes = static_cast<std::size_t>(ir::size_of(dtype));
    for (const std::int64_t s : sizes) bytes *= static_cast<std::size_t>(s);
    for (const int k : {weights, scales, zero_points, group_index}) {
      if (c_.has_input(k) && c_.value(k).constant)
        versions = std::max(versions, static_cast<int>(c_.value(k).constant->data.per_rank.size()));
    }
    const auto owned = std::make_shared<std::vector<std::vector<std::byte>>>();
    ir::ConstantData data;
    for (rank_ = 0; rank_ < versions; ++rank_) {
      owned->emplace_back(bytes);
      compute(owned->back().data());
    }
    for (const std::vector<std::byte>& version : *owned) data.per_rank.emplace_back(version);
    data.owner = owned;
    return c_.lowering().constant(c_.value(named_after).name + what, dtype, std::move(sizes),
                                  std::move(data));
  }
  // A constant input as `rank_` has it.
  Tensor of_rank(int k) {
    const Tensor& all = *c_.value(k).constant;
    return {all.dtype, all.sizes, {{all.data.of_rank(rank_)}, all.data.owner}};
  }

  TensorBox float_scales() {
    if (c_.dtype(scales) == DType::f32) return shaped(scales, {rows_, blocks_});
    return computed(scales, "_as_floats", DType::f32, {rows_, blocks_}, [&](std::byte* bytes) {
      const Tensor own = of_rank(scales);
      for (std::int64_t i = 0; i < rows_ * blocks_; ++i) {
        const auto value = static_cast<float>(float_at(own, i));
        std::memcpy(bytes + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
      }
    });
  }

  // One byte for each block.
  TensorBox byte_zeros() {
    if (bits_ == 8) return shaped(zero_points, {rows_, blocks_});
    return computed(zero_points, "_as_bytes", DType::u8, {rows_, blocks_}, [&](std::byte* bytes) {
      const Tensor own = of_rank(zero_points);
      const std::int64_t per_row = (blocks_ * bits_ + 7) / 8;
      for (std::int64_t row = 0; row < rows_; ++row) {
        for (std::int64_t b = 0; b < blocks_; ++b)
          *bytes++ = static_cast<std::byte>(packed_at(own, row, per_row, b));
      }
    });
  }

  static std::int64_t positive(OpContext& c, const char* name) {
    const std::int64_t value = c.int_attribute(name);
    if (value < 1)
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute '{}' is {}, expected at least 1", name, value));
    return value;
  }
  bool packed_zeros() { return c_.dtype(zero_points) == DType::u8; }

  // Older models flatten these tensors.
  void require_count(int k, std::vector<std::int64_t> sizes) {
    std::int64_t count = 1;
    for (const std::int64_t s : sizes) count *= s;
    if (ir::numel(c_.sizes(k)).is_constant(count)) return;
    require_sizes(c_, k, {sizes.begin(), sizes.end()}, "what N, K, bits and block_size require");
  }

  TensorBox shaped(int k, std::vector<Expr> sizes) {
    return c_.lowering().reshape(c_.input(k), std::move(sizes));
  }

  TensorBox loop() {
    ir::Lowering& l = c_.lowering();
    const std::int64_t in_block = block_ * bits_ / 8;
    const TensorBox w = shaped(weights, {rows_, blocks_ * in_block}), s = shaped(scales, {rows_, blocks_});
    TensorBox z;
    if (c_.has_input(zero_points))
      z = shaped(zero_points, {rows_, packed_zeros() ? Expr((blocks_ * bits_ + 7) / 8) : Expr(blocks_)});
    return l.generate({rows_, columns_}, [&](BodyBuilder& b, std::span<const Expr> at) {
      const Expr row = at[0], column = at[1];
      Expr block = ir::floor_div(column, block_);
      if (c_.has_input(group_index)) {
        const ValueId group = l.load(b, c_.input(group_index), std::vector<Expr>{column});
        block = b.as_index(b.check_index(b.cast(group, DType::i64), blocks_));
      }
      const ValueId q = b.cast(unpacked(c_, b, w, {row}, column, bits_), DType::f32);
      ValueId zero = b.constant_of(DType::f32, static_cast<double>(1 << (bits_ - 1)));
      if (z.valid()) zero = b.cast(zero_point(b, z, row, block), DType::f32);
      const ValueId scale = b.cast(l.load(b, s, std::vector<Expr>{row, block}), DType::f32);
      return b.binary(OpCode::mul, b.binary(OpCode::sub, q, zero), scale);
    });
  }

  ValueId zero_point(BodyBuilder& b, const TensorBox& z, const Expr& row, const Expr& block) {
    if (packed_zeros()) return unpacked(c_, b, z, {row}, block, bits_);
    return c_.lowering().load(b, z, std::vector<Expr>{row, block});
  }

  std::int64_t packed_at(const Tensor& packed, std::int64_t row, std::int64_t bytes_per_row,
                         std::int64_t position) {
    const std::int64_t byte = integer_at(packed, row * bytes_per_row + position * bits_ / 8);
    return (byte >> (position * bits_ % 8)) & ((1 << bits_) - 1);
  }

  TensorBox folded() {
    return computed(weights, "_as_floats", DType::f32, {rows_, columns_}, [&](std::byte* bytes) {
      const std::int64_t bytes_per_row = blocks_ * (block_ * bits_ / 8),
                         zeros_per_row = (blocks_ * bits_ + 7) / 8;
      const Tensor w = of_rank(weights), s = of_rank(scales);
      const std::optional<Tensor> zeros =
          c_.has_input(zero_points) ? std::optional(of_rank(zero_points)) : std::nullopt;
      const std::optional<Tensor> groups =
          c_.has_input(group_index) ? std::optional(of_rank(group_index)) : std::nullopt;
      for (std::int64_t row = 0; row < rows_; ++row) {
        for (std::int64_t column = 0; column < columns_; ++column) {
          const std::int64_t block = groups ? integer_at(*groups, column) : column / block_;
          if (block < 0 || block >= blocks_)
            c_.fail(errors::kIndexOutOfRange,
                    fmt::format("g_idx has {} at {}, but there are {} blocks", block, column, blocks_));
          float zero = static_cast<float>(1 << (bits_ - 1));
          if (zeros) {
            zero = packed_zeros() ? static_cast<float>(packed_at(*zeros, row, zeros_per_row, block))
                                  : static_cast<float>(float_at(*zeros, row * blocks_ + block));
          }
          const float q = static_cast<float>(packed_at(w, row, bytes_per_row, column));
          const float value = (q - zero) * static_cast<float>(float_at(s, row * blocks_ + block));
          std::memcpy(bytes, &value, sizeof value);
          bytes += sizeof value;
        }
      }
    });
  }

  OpContext& c_;
  std::int64_t columns_, rows_, bits_, block_, blocks_;
  int rank_ = 0;  // whose constants are read
};

void lower_matmul_nbits(OpContext& c) {
  ir::Lowering& l = c.lowering();
  QuantizedRows rows(c);
  if (c.rank(input) == 0) c.fail(errors::kShapeMismatch, "the input is a scalar");
  const Expr inner = c.size(input, -1);
  check_product(c, inner, rows.columns());
  l.require_equal(inner, rows.columns());
  const TensorBox x = l.cast(c.input(input), DType::f32);
  std::vector<Expr> sizes = x.sizes();
  const Expr m = ir::product(std::span(sizes).first(sizes.size() - 1));
  TensorBox y;
  if (const auto packed = rows.packed_product(l.reshape(x, {m, rows.columns()}))) {
    sizes.back() = rows.rows();
    y = l.reshape(*packed, sizes);
  } else {
    y = l.matmul(x, l.permute(rows.weights_as_floats(), {1, 0}));
  }
  if (c.has_input(bias)) {
    require_sizes(c, bias, {rows.rows()}, "N");
    y = binary(l, OpCode::add, y, l.cast(c.input(bias), DType::f32));
  }
  c.set_output(0, l.cast(y, c.dtype(input)));
}

// Rows of a table of numbers that are packed and quantised along the last axis. An index out of range gives
// zeros.
void lower_gather_block_quantized(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int rank = c.rank(0);
  if (rank < 2)
    c.fail(errors::kShapeMismatch, fmt::format("the data have rank {}, expected at least 2", rank));
  const std::int64_t bits = bits_attribute(c),
                     block = block_size_attribute(c, c.int_attribute("block_size", 128));
  const int quantized =
      c.normalize_axis(c.int_attribute("quantize_axis", 1), rank, "attribute 'quantize_axis'");
  if (c.normalize_axis(c.int_attribute("gather_axis", 0), rank, "attribute 'gather_axis'") != 0 ||
      quantized != rank - 1)
    c.fail(errors::kUnsupportedForm,
           "only rows of data that are quantised along the last axis can be gathered");
  const TensorBox data = c.input(0), indices = c.input(1), scales = c.input(2);
  const std::int64_t size = known_size(c, data.sizes().back(), "the last size of the data") * (8 / bits);
  const std::int64_t blocks = (size + block - 1) / block;
  std::vector<Expr> expected(data.sizes().begin(), data.sizes().end() - 1);
  expected.emplace_back(blocks);
  require_sizes(c, 2, expected, "one scale per block");
  if (c.has_input(3)) {
    expected.back() = (blocks * bits + 7) / 8;
    require_sizes(c, 3, expected, "the packed zero points of the blocks");
  }
  std::vector<Expr> sizes = indices.sizes();
  sizes.insert(sizes.end(), data.sizes().begin() + 1, data.sizes().end() - 1);
  sizes.emplace_back(size);
  const std::size_t q = indices.rank();
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId zero = b.constant(DType::i64, std::int64_t{0}), count = b.index(data.sizes()[0]);
    ValueId index = b.cast(l.load(b, indices, at.first(q)), DType::i64);
    index = b.where(b.binary(OpCode::lt, index, zero), b.binary(OpCode::add, index, count), index);
    const ValueId inside =
        b.binary(OpCode::logical_and, b.binary(OpCode::ge, index, zero), b.binary(OpCode::lt, index, count));
    std::vector<Expr> row = {b.as_index(index)};
    row.insert(row.end(), at.begin() + static_cast<std::ptrdiff_t>(q), at.end() - 1);
    const Expr element = at.back(), group = ir::floor_div(element, block);
    const ValueId number_read = b.cast(unpacked(c, b, data, row, element, bits, inside), DType::f32);
    ValueId origin = b.constant_of(DType::f32, static_cast<double>(1 << (bits - 1)));
    if (c.has_input(3)) origin = b.cast(unpacked(c, b, c.input(3), row, group, bits, inside), DType::f32);
    row.push_back(group);
    const ValueId scale = b.cast(l.load(b, scales, row, inside), DType::f32);
    const ValueId value = b.binary(OpCode::mul, b.binary(OpCode::sub, number_read, origin), scale);
    return b.cast(value, scales.dtype());  // a scale that is not read is 0
  }));
}

constexpr TypeSet kTypes = {DType::f32, DType::f16, DType::bf16};

}  // namespace

std::span<const OpSpec> block_quantized_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "GatherBlockQuantized", 1, 1, TypeSet{DType::u8}, lower_gather_block_quantized,
       work::gather(11), rule::kGatherBlockQuantized, kNoState, kNoSizes},
      {kMicrosoftDomain, "MatMulNBits", 1, 1, kTypes, lower_matmul_nbits, work::product(0, 1),
       rule::kMatMulNBits, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
