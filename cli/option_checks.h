// What values of options must be, beside what CLI11 checks: each a reason, or empty.
#pragma once

#include <cmath>
#include <cstdlib>
#include <string>

namespace braid::cli {

// For options of unsigned numbers, which CLI11 would wrap around.
inline std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? "must be at least 0, got " + text : std::string();
}

inline std::string not_empty(const std::string& text) {
  return text.empty() ? std::string("must not be empty") : std::string();
}

// A tolerance: also not NaN, with which nothing would differ.
inline std::string finite_not_negative(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && std::isfinite(value) && value >= 0
             ? std::string()
             : "must be a finite number of at least 0, got " + text;
}

}  // namespace braid::cli
