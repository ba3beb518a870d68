#include "harness/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/element.h"

namespace braid::harness {
namespace {

double value_at(const ir::Tensor& t, std::int64_t k) {
  return std::get<double>(ir::read_element(t.dtype, t.bytes.data() + k * ir::size_of(t.dtype)));
}

// Floats in the order of their values, as integers.
std::int64_t ordered(float f) {
  const auto bits = std::bit_cast<std::int32_t>(f);
  return bits < 0 ? -static_cast<std::int64_t>(bits & 0x7fffffff) : bits;
}

// "f32[2, 3]"
std::string type_text(const ir::Tensor& t) {
  return fmt::format("{}[{}]", to_string(t.dtype), fmt::join(t.sizes, ", "));
}

}  // namespace

Difference compare(const ir::Tensor& a, const ir::Tensor& b, const Tolerance& tolerance) {
  Difference d;
  d.same_type = a.dtype == b.dtype && a.sizes == b.sizes && a.bytes.size() == b.bytes.size();
  if (!d.same_type) {
    d.types = fmt::format("{} instead of {}", type_text(a), type_text(b));
    return d;
  }
  const std::int64_t item = ir::size_of(a.dtype);
  d.elements = static_cast<std::int64_t>(a.bytes.size()) / item;
  double scale = 0, worst = 0;
  for (std::int64_t k = 0; ir::is_float(b.dtype) && k < d.elements; ++k) {
    const double y = std::fabs(value_at(b, k));
    if (std::isfinite(y)) scale = std::max(scale, y);
  }
  const double absolute = std::max(tolerance.absolute, tolerance.of_largest * scale);
  for (std::int64_t k = 0; k < d.elements; ++k) {
    if (!ir::is_float(a.dtype)) {
      if (std::memcmp(a.bytes.data() + k * item, b.bytes.data() + k * item, static_cast<std::size_t>(item)) !=
          0) {
        if (d.mismatches++ == 0) d.worst = k;
      }
      continue;
    }
    const double x = value_at(a, k), y = value_at(b, k);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) continue;
    // A NaN on one side is the largest error.
    const double difference = std::fabs(x - y);
    const double error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
    if (!(error <= absolute + tolerance.relative * std::fabs(y))) {
      ++d.mismatches;
      if (d.worst < 0 || error > worst) {
        worst = error;
        d.worst = k;
      }
    }
    d.max_absolute = std::max(d.max_absolute, error);
    if (a.dtype == ir::DType::f32 && std::isfinite(x) && std::isfinite(y)) {
      d.max_ulp =
          std::max(d.max_ulp, std::abs(ordered(static_cast<float>(x)) - ordered(static_cast<float>(y))));
    }
  }
  d.max_relative = d.max_absolute == 0 ? 0 : d.max_absolute / std::max(scale, 1e-300);
  return d;
}

Tolerance tolerance_for(Tolerance tolerance, ir::DType dtype) {
  if (dtype == ir::DType::f16 || dtype == ir::DType::bf16) {
    tolerance.relative = std::max(tolerance.relative, 1e-2);
    tolerance.absolute = std::max(tolerance.absolute, 1e-3);
  }
  return tolerance;
}

std::string worst_text(const ir::Tensor& a, const ir::Tensor& b, const Difference& d) {
  if (d.worst < 0) return {};
  std::vector<std::int64_t> index(a.sizes.size());
  std::int64_t rest = d.worst;
  for (std::size_t k = index.size(); k-- > 0; rest /= a.sizes[k]) index[k] = rest % a.sizes[k];
  const std::int64_t at = d.worst * ir::size_of(a.dtype);
  return fmt::format("[{}]: {} instead of {}", fmt::join(index, ", "),
                     ir::element_text(a.dtype, a.bytes.data() + at),
                     ir::element_text(b.dtype, b.bytes.data() + at));
}

std::string to_string(const Difference& d) {
  if (!d.same_type) return "type or shape differs: " + d.types;
  std::string text =
      fmt::format("max relative error {:.3g}, max absolute {:.3g}", d.max_relative, d.max_absolute);
  if (d.max_ulp > 0) text += fmt::format(", max ulp {}", d.max_ulp);
  if (d.mismatches > 0) {
    text +=
        fmt::format("; {} of {} elements beyond tolerance, worst at {}", d.mismatches, d.elements, d.worst);
  }
  return text;
}

}  // namespace braid::harness
