// Checks of option values beyond those of CLI11. Each returns a reason, or an empty text.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace braid::cli {

// A number from `least` to `most`. Messages do not name a limit that is the type's own.
template <class Number>
CLI::Validator number_from(Number least, Number most = std::numeric_limits<Number>::max()) {
  const bool open = most == std::numeric_limits<Number>::max();
  const char* kind = std::is_integral_v<Number> ? "whole number" : "number";
  const auto check = [=](const std::string& text) {
    Number value{};
    const bool read = CLI::detail::lexical_cast(text, value);
    if (read && value >= least && value <= most) return std::string();  // NaN is not
    // Too large for the type: then the message names its limit.
    const bool too_large = open && std::is_integral_v<Number> && !read && !text.empty() &&
                           text.find_first_not_of("0123456789") == std::string::npos;
    return open && !too_large ? fmt::format("must be a {} of at least {}, got {}", kind, least, text)
                              : fmt::format("must be a {} from {} to {}, got {}", kind, least, most, text);
  };
  return {check, open ? fmt::format("{} or more", least) : fmt::format("{} to {}", least, most)};
}

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
