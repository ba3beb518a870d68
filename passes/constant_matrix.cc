#include "passes/constant_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "ir/element.h"

namespace braid::passes {

using namespace ir;

namespace {

// Keeps the bytes of all ranks alive.
ConstantData owned(std::vector<std::vector<std::byte>> per_rank) {
  auto memory = std::make_shared<std::vector<std::vector<std::byte>>>(std::move(per_rank));
  ConstantData data;
  for (const std::vector<std::byte>& bytes : *memory) data.per_rank.emplace_back(bytes);
  data.owner = memory;
  return data;
}

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

float ConstantMatrix::at(std::span<const std::byte> bytes, std::int64_t i, std::int64_t j) const {
  float value = 0;
  std::memcpy(&value, bytes.data() + offset + i * row + j * column, sizeof value);
  return value;
}

std::optional<ConstantMatrix> constant_matrix(const Graph& graph, const TensorRef& ref) {
  const std::size_t rank = ref.sizes.size();
  if (rank < 2 || graph[ref.buffer].dtype != DType::f32) return std::nullopt;
  const MemoryRegion where = region(graph, ref.buffer);
  if (!where.storage.valid() || graph[where.storage].kind != StorageKind::constant) return std::nullopt;
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    if (!ref.strides[d].is_constant(0) && !ref.sizes[d].is_constant(1)) return std::nullopt;
  }
  for (std::size_t d = rank - 2; d < rank; ++d) {
    if (!ref.sizes[d].is_constant() || ref.sizes[d].constant() < 1 || !ref.strides[d].is_constant() ||
        ref.strides[d].constant() < 0)
      return std::nullopt;
  }
  if (!where.offset.is_constant() || !ref.offset.is_constant()) return std::nullopt;
  constexpr std::int64_t kItem = sizeof(float);
  ConstantMatrix matrix;
  matrix.k = ref.sizes[rank - 2].constant();
  matrix.n = ref.sizes[rank - 1].constant();
  matrix.offset = where.offset.constant() + ref.offset.constant() * kItem;
  matrix.row = ref.strides[rank - 2].constant() * kItem;
  matrix.column = ref.strides[rank - 1].constant() * kItem;
  matrix.data = &graph[where.storage].data;
  if (matrix.data->per_rank.empty() || matrix.offset < 0) return std::nullopt;
  const std::int64_t end =
      matrix.offset + (matrix.k - 1) * matrix.row + (matrix.n - 1) * matrix.column + kItem;
  for (const std::span<const std::byte> bytes : matrix.data->per_rank) {
    if (end > std::ssize(bytes)) return std::nullopt;
  }
  return matrix;
}

std::optional<ConstantData> rounded(const ConstantMatrix& matrix, DType type) {
  constexpr std::uint16_t kInfinity = 0x7f80, kHalfInfinity = 0x7c00;
  const bool half = type == DType::f16;
  std::vector<std::vector<std::byte>> out;
  for (const std::span<const std::byte> bytes : matrix.data->per_rank) {
    std::vector<std::byte>& to = out.emplace_back(count(matrix.k * matrix.n) * sizeof(std::uint16_t));
    std::byte* at = to.data();
    for (std::int64_t i = 0; i < matrix.k; ++i) {
      for (std::int64_t j = 0; j < matrix.n; ++j, at += sizeof(std::uint16_t)) {
        const float value = matrix.at(bytes, i, j);
        const std::uint16_t bits = half ? float_to_half(value) : float_to_bfloat(value);
        if ((bits & 0x7fffu) == (half ? kHalfInfinity : kInfinity) && std::isfinite(value))
          return std::nullopt;
        std::memcpy(at, &bits, sizeof bits);
      }
    }
  }
  return owned(std::move(out));
}

std::optional<QuantisedColumns> quantised_columns(const ConstantMatrix& matrix) {
  constexpr float kSteps = 127;
  std::vector<std::vector<std::byte>> bytes, scales;
  for (const std::span<const std::byte> from : matrix.data->per_rank) {
    std::vector<float> largest(count(matrix.n), 0.0f);
    for (std::int64_t i = 0; i < matrix.k; ++i) {
      for (std::int64_t j = 0; j < matrix.n; ++j) {
        const float value = std::fabs(matrix.at(from, i, j));
        if (!std::isfinite(value)) return std::nullopt;
        largest[count(j)] = std::max(largest[count(j)], value);
      }
    }
    std::vector<std::byte>& to = bytes.emplace_back(count(matrix.k * matrix.n));
    std::vector<float> scale(largest.size());
    for (std::size_t j = 0; j < scale.size(); ++j) scale[j] = largest[j] / kSteps;
    std::size_t at = 0;
    for (std::int64_t i = 0; i < matrix.k; ++i) {
      for (std::int64_t j = 0; j < matrix.n; ++j, ++at) {
        // A scale that underflows to 0 belongs to numbers below what its products could be told from 0.
        const float step = scale[count(j)];
        const float steps = step > 0 ? std::nearbyint(matrix.at(from, i, j) / step) : 0.0f;
        to[at] = static_cast<std::byte>(static_cast<std::int8_t>(std::clamp(steps, -kSteps, kSteps)));
      }
    }
    std::vector<std::byte>& packed = scales.emplace_back(scale.size() * sizeof(float));
    std::memcpy(packed.data(), scale.data(), packed.size());
  }
  return QuantisedColumns{owned(std::move(bytes)), owned(std::move(scales))};
}

}  // namespace braid::passes
