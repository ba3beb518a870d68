// Parses numbers in environment variables.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace braid::rt {

// True if `text` is a decimal number from `min` to `max`; otherwise *out is unchanged.
inline bool read_number(std::string_view text, int64_t min, int64_t max, int64_t* out) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < min || value > max) return false;
  *out = value;
  return true;
}

}  // namespace braid::rt
