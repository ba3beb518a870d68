#include "ir/element.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace braid::ir {
namespace {

template <class T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Shortest decimal; always recognisable as a float.
template <class T>
std::string float_text(T value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1f;
  const std::uint32_t mantissa = h & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t float_to_half(float value) {
  const auto x = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((x >> 16) & 0x8000);
  const std::uint32_t magnitude = x & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520 and above
  if (magnitude < 0x38800000U) {  // below the smallest normal 2^-14: a multiple of 2^-24
    const float scaled = std::ldexp(std::bit_cast<float>(magnitude), 24);
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(scaled)));
  }
  const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

float bfloat_to_float(std::uint16_t b) { return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16); }

std::uint16_t float_to_bfloat(float value) {
  const auto x = std::bit_cast<std::uint32_t>(value);
  if ((x & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((x >> 16) | 0x40);
  return static_cast<std::uint16_t>((x + 0x7fff + ((x >> 16) & 1)) >> 16);
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::f16:
      return static_cast<double>(half_to_float(float_to_half(static_cast<float>(value))));
    case DType::bf16:
      return static_cast<double>(bfloat_to_float(float_to_bfloat(static_cast<float>(value))));
    default:
      return value;
  }
}

Literal read_element(DType dtype, const std::byte* at) {
  switch (byte_type(dtype)) {
    case DType::f32:
      return static_cast<double>(get<float>(at));
    case DType::f64:
      return get<double>(at);
    case DType::f16:
      return static_cast<double>(half_to_float(get<std::uint16_t>(at)));
    case DType::bf16:
      return static_cast<double>(bfloat_to_float(get<std::uint16_t>(at)));
    case DType::i8:
      return static_cast<std::int64_t>(get<std::int8_t>(at));
    case DType::i16:
      return static_cast<std::int64_t>(get<std::int16_t>(at));
    case DType::i32:
      return static_cast<std::int64_t>(get<std::int32_t>(at));
    case DType::i64:
      return get<std::int64_t>(at);
    case DType::u8:
      return static_cast<std::int64_t>(get<std::uint8_t>(at));
    case DType::u16:
      return static_cast<std::int64_t>(get<std::uint16_t>(at));
    case DType::u32:
      return static_cast<std::int64_t>(get<std::uint32_t>(at));
    case DType::u64:
      return get<std::int64_t>(at);
    case DType::boolean:
      return static_cast<std::int64_t>(get<std::uint8_t>(at) != 0);
    default:
      break;
  }
  return std::int64_t{0};
}

void write_element(DType dtype, std::byte* at, Literal value) {
  const double d = is_float(dtype) ? std::get<double>(value) : 0;
  const std::int64_t i = is_float(dtype) ? 0 : std::get<std::int64_t>(value);
  switch (byte_type(dtype)) {
    case DType::f32:
      return put(at, static_cast<float>(d));
    case DType::f64:
      return put(at, d);
    case DType::f16:
      return put(at, float_to_half(static_cast<float>(d)));
    case DType::bf16:
      return put(at, float_to_bfloat(static_cast<float>(d)));
    case DType::i8:
    case DType::u8:
      return put(at, static_cast<std::uint8_t>(i));
    case DType::i16:
    case DType::u16:
      return put(at, static_cast<std::uint16_t>(i));
    case DType::i32:
    case DType::u32:
      return put(at, static_cast<std::uint32_t>(i));
    case DType::i64:
    case DType::u64:
      return put(at, i);
    case DType::boolean:
      return put(at, static_cast<std::uint8_t>(i != 0));
    default:
      break;
  }
}

std::string element_text(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f32: {
      const auto bits = get<std::uint32_t>(at);
      const auto value = std::bit_cast<float>(bits);
      if (std::isnan(value)) return bits == 0x7fc00000U ? "nan" : fmt::format("bits(0x{:08x})", bits);
      return float_text(value);
    }
    case DType::f64: {
      const auto bits = get<std::uint64_t>(at);
      const auto value = std::bit_cast<double>(bits);
      if (std::isnan(value))
        return bits == 0x7ff8000000000000ULL ? "nan" : fmt::format("bits(0x{:016x})", bits);
      return float_text(value);
    }
    case DType::f16:
    case DType::bf16: {
      const auto bits = get<std::uint16_t>(at);
      const float value = dtype == DType::f16 ? half_to_float(bits) : bfloat_to_float(bits);
      const std::uint16_t quiet = dtype == DType::f16 ? 0x7e00 : 0x7fc0;
      if (std::isnan(value)) return bits == quiet ? "nan" : fmt::format("bits(0x{:04x})", bits);
      return float_text(value);
    }
    case DType::u64:
      return fmt::format("{}", get<std::uint64_t>(at));
    case DType::boolean: {
      const auto byte = get<std::uint8_t>(at);
      return byte == 0 ? "false" : byte == 1 ? "true" : fmt::format("bits(0x{:02x})", byte);
    }
    default:
      return fmt::format("{}", std::get<std::int64_t>(read_element(dtype, at)));
  }
}

std::string literal_text(DType dtype, Literal value) {
  if (const auto* d = std::get_if<double>(&value)) {
    const auto bits = std::bit_cast<std::uint64_t>(*d);
    if (std::isnan(*d)) return bits == 0x7ff8000000000000ULL ? "nan" : fmt::format("bits(0x{:016x})", bits);
    return dtype == DType::f64 ? float_text(*d) : float_text(static_cast<float>(*d));
  }
  const std::int64_t i = std::get<std::int64_t>(value);
  if (dtype == DType::boolean && (i == 0 || i == 1)) return i ? "true" : "false";
  if (dtype == DType::u64) return fmt::format("{}", static_cast<std::uint64_t>(i));
  return fmt::format("{}", i);
}

std::uint64_t fnv1a(const std::byte* data, std::size_t size) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < size; ++i) h = (h ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3ULL;
  return h;
}

}  // namespace braid::ir
