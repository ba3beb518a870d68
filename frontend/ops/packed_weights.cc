#include "frontend/ops/packed_weights.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace braid::frontend {
namespace {

constexpr std::int64_t kGroup = 32;  // numbers of 4 bits; of 8 bits, 16 (runtime/block_product.h)

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

class Packer {
 public:
  Packer(const QuantisedMatrix& matrix, bool transposed)
      : m_(matrix),
        by_rows_(matrix.transposed != transposed),
        bits_(ir::bits_of(matrix.x.dtype) == 8 ? 8 : 4) {
    k_ = m_.x.sizes[by_rows_ ? 1 : 0];
    n_ = m_.x.sizes[by_rows_ ? 0 : 1];
    const DType type = m_.x.dtype;
    signed_ = ir::is_signed_integer(ir::byte_type(type));
    offset_ = signed_ ? (bits_ == 8 ? 128 : 8) : 0;
    const bool along_k = m_.scale.count() != 1 && (m_.axis == 1) == by_rows_;
    one_ = m_.scale.count() == 1 && m_.block == 0;
    suits_ = k_ > 0 && n_ > 0 && integers(type);
    if (m_.block > 0) {
      // In blocks along n, or of odd sizes, loops make the matrix.
      suits_ = suits_ && (m_.axis == 1) == by_rows_ && m_.block % (bits_ == 8 ? kGroup / 2 : kGroup) == 0;
      block_ = m_.block;
    } else {
      suits_ = suits_ && bits_ == 4 && !along_k;
      block_ = (k_ + kGroup - 1) / kGroup * kGroup;
    }
    if (suits_) blocks_ = (k_ + block_ - 1) / block_;
  }

  std::int64_t k() const { return k_; }
  std::int64_t n() const { return n_; }

  // Whether the kernel takes them, zero points included.
  bool suits() {
    if (!suits_) return false;
    const std::int64_t middle = bits_ == 8 ? 128 : 8;
    zeros_.assign(count(n_ * blocks_), std::byte{});
    for (std::int64_t c = 0; c < n_; ++c) {
      for (std::int64_t b = 0; b < blocks_; ++b) {
        const std::int64_t zero = (m_.zero ? integer_at(*m_.zero, parameter(c, b)) : 0) + offset_;
        if (zero < 0 || zero > 255) return false;
        has_zeros_ = has_zeros_ || zero != middle;
        zeros_[count(c * blocks_ + b)] = static_cast<std::byte>(zero);
      }
    }
    return true;
  }

  TensorBox product(OpContext& c, const TensorBox& rows) {
    ir::Lowering& l = c.lowering();
    const std::string& name = c.value(1).name;
    const std::int64_t per_row = blocks_ * block_ * bits_ / 8;
    std::vector<TensorBox> operands = {
        rows, l.constant(name + "_packed", DType::u8, {n_, per_row}, ir::own_bytes(packed(per_row))),
        l.constant(name + "_scales", DType::f32, {n_, blocks_}, ir::own_bytes(scales()))};
    if (has_zeros_)
      operands.push_back(
          l.constant(name + "_zeros", DType::u8, {n_, blocks_}, ir::own_bytes(std::move(zeros_))));
    const Expr m = rows.sizes()[0];
    return l.extern_call("block_product", operands,
                         {{DType::f32, {m, n_}}, {DType::f32, {m, blocks_ * block_}}},
                         {{"bits", bits_}, {"block", block_}})[0];
  }

 private:
  static bool integers(DType type) {
    return type == DType::i8 || type == DType::u8 || type == DType::i4 || type == DType::u4 ||
           type == DType::i2 || type == DType::u2;
  }
  // Where scale and zero point of a column's block are.
  std::int64_t parameter(std::int64_t column, std::int64_t block) const {
    if (one_) return 0;
    if (m_.block == 0) return column;
    return by_rows_ ? column * blocks_ + block : block * n_ + column;
  }

  std::vector<std::byte> packed(std::int64_t per_row) const {
    const std::span<const std::byte> x = m_.x.data.of_rank(0);
    std::vector<std::byte> out(count(n_ * per_row));
    for (std::int64_t i = 0; i < k_; ++i) {
      for (std::int64_t c = 0; c < n_; ++c) {
        const std::byte byte = x[count(by_rows_ ? c * k_ + i : i * n_ + c)];
        const int number = signed_ ? static_cast<std::int8_t>(byte) : static_cast<std::uint8_t>(byte);
        const int code = number + static_cast<int>(offset_);
        std::byte& to = out[count(c * per_row + i * bits_ / 8)];
        to |= static_cast<std::byte>(bits_ == 4 && i % 2 != 0 ? code << 4 : code);
      }
    }
    return out;
  }
  std::vector<std::byte> scales() const {
    std::vector<std::byte> out(count(n_ * blocks_) * sizeof(float));
    for (std::int64_t c = 0; c < n_; ++c) {
      for (std::int64_t b = 0; b < blocks_; ++b) {
        const auto value = static_cast<float>(float_at(m_.scale, parameter(c, b)));
        std::memcpy(out.data() + count(c * blocks_ + b) * sizeof value, &value, sizeof value);
      }
    }
    return out;
  }

  const QuantisedMatrix& m_;
  bool by_rows_;  // x has a row for each column of the product
  std::int64_t bits_, k_ = 0, n_ = 0, block_ = 0, blocks_ = 0, offset_ = 0;
  bool signed_ = false, one_ = false, suits_ = false, has_zeros_ = false;
  std::vector<std::byte> zeros_;
};

}  // namespace

std::optional<TensorBox> packed_product(OpContext& c, const TensorBox& a, bool transposed) {
  const std::optional<QuantisedMatrix>& matrix = c.value(1).quantised;
  if (!matrix || a.dtype() != DType::f32 || a.rank() == 0) return std::nullopt;
  Packer packer(*matrix, transposed);
  if (!packer.suits()) return std::nullopt;
  ir::Lowering& l = c.lowering();
  std::vector<Expr> sizes = a.sizes();
  l.require_equal(sizes.back(), packer.k());
  const Expr m = ir::product(std::span(sizes).first(sizes.size() - 1));
  sizes.back() = packer.n();
  return l.reshape(packer.product(c, l.reshape(a, {m, packer.k()})), sizes);
}

}  // namespace braid::frontend
