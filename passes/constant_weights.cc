#include "passes/constant_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "ir/element.h"

namespace braid::passes {

using namespace ir;

namespace {

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

// Calls f(value, column) for all elements in row-major order.
template <class F>
void for_each(const ConstantWeights& w, std::span<const std::byte> bytes, const F& f) {
  std::vector<std::int64_t> at(w.sizes.size(), 0);
  std::int64_t offset = w.offset, column = 0;
  for (std::int64_t left = w.elements(); left > 0; --left) {
    float value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    f(value, count(column));
    for (std::size_t d = at.size(); d-- > 0;) {
      offset += w.strides[d];
      column += w.column[d];
      if (++at[d] < w.sizes[d]) break;
      offset -= at[d] * w.strides[d];
      column -= at[d] * w.column[d];
      at[d] = 0;
    }
  }
}

}  // namespace

std::int64_t ConstantWeights::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

std::int64_t ConstantWeights::columns() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * column[d];
  return last + 1;
}

std::optional<ConstantWeights> constant_weights(const Graph& graph, const Product& product) {
  const TensorRef& ref = product.b;
  const MemoryRegion where = region(graph, ref.buffer);
  if (graph[ref.buffer].dtype != DType::f32 || !where.storage.valid() ||
      graph[where.storage].kind != StorageKind::constant || !where.offset.is_constant() ||
      !ref.offset.is_constant())
    return std::nullopt;
  const bool convolution = ref.sizes.size() > product.out.sizes.size();
  const std::size_t rank = ref.sizes.size(), first = convolution ? 0 : rank - 2;
  for (std::size_t d = 0; d < first; ++d) {
    if (!ref.strides[d].is_constant(0) && !ref.sizes[d].is_constant(1)) return std::nullopt;
  }
  constexpr std::int64_t kItem = sizeof(float);
  ConstantWeights weights;
  weights.offset = where.offset.constant() + ref.offset.constant() * kItem;
  std::int64_t end = weights.offset + kItem;
  for (std::size_t d = first; d < rank; ++d) {
    if (!ref.sizes[d].is_constant() || ref.sizes[d].constant() < 1 || !ref.strides[d].is_constant() ||
        ref.strides[d].constant() < 0)
      return std::nullopt;
    weights.sizes.push_back(ref.sizes[d].constant());
    weights.strides.push_back(ref.strides[d].constant() * kItem);
    end += (weights.sizes.back() - 1) * weights.strides.back();
  }
  weights.column.assign(weights.sizes.size(), 0);
  weights.column.back() = 1;
  if (convolution) weights.column.front() = weights.sizes.back();
  weights.data = &graph[where.storage].data;
  if (weights.data->per_rank.empty() || weights.offset < 0) return std::nullopt;
  for (const std::span<const std::byte> bytes : weights.data->per_rank) {
    if (end > std::ssize(bytes)) return std::nullopt;
  }
  return weights;
}

std::optional<ConstantData> rounded(const ConstantWeights& weights, DType type) {
  constexpr std::uint16_t kInfinity = 0x7f80, kHalfInfinity = 0x7c00;
  const bool half = type == DType::f16;
  bool fits = true;
  std::vector<std::vector<std::byte>> out;
  for (const std::span<const std::byte> bytes : weights.data->per_rank) {
    std::vector<std::byte>& to = out.emplace_back(count(weights.elements()) * sizeof(std::uint16_t));
    std::byte* at = to.data();
    for_each(weights, bytes, [&](float value, std::size_t) {
      const std::uint16_t bits = half ? float_to_half(value) : float_to_bfloat(value);
      fits = fits && ((bits & 0x7fffu) != (half ? kHalfInfinity : kInfinity) || !std::isfinite(value));
      std::memcpy(at, &bits, sizeof bits);
      at += sizeof bits;
    });
  }
  if (!fits) return std::nullopt;
  return own_bytes_of_ranks(std::move(out));
}

std::optional<QuantisedColumns> quantised_columns(const ConstantWeights& weights) {
  constexpr float kSteps = 127;
  std::vector<std::vector<std::byte>> bytes, scales;
  for (const std::span<const std::byte> from : weights.data->per_rank) {
    std::vector<float> scale(count(weights.columns()), 0.0f);
    bool finite = true;
    for_each(weights, from, [&](float value, std::size_t column) {
      finite = finite && std::isfinite(value);
      scale[column] = std::max(scale[column], std::fabs(value));
    });
    if (!finite) return std::nullopt;
    for (float& s : scale) s /= kSteps;
    std::vector<std::byte>& to = bytes.emplace_back(count(weights.elements()));
    std::size_t at = 0;
    for_each(weights, from, [&](float value, std::size_t column) {
      // A scale that underflows to 0 belongs to numbers below what its products could be told from 0.
      const float steps = scale[column] > 0 ? std::nearbyint(value / scale[column]) : 0.0f;
      to[at++] = static_cast<std::byte>(static_cast<std::int8_t>(std::clamp(steps, -kSteps, kSteps)));
    });
    std::vector<std::byte>& packed = scales.emplace_back(scale.size() * sizeof(float));
    std::memcpy(packed.data(), scale.data(), packed.size());
  }
  return QuantisedColumns{own_bytes_of_ranks(std::move(bytes)), own_bytes_of_ranks(std::move(scales))};
}

}  // namespace braid::passes
