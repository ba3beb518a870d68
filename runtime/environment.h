// Environment variables: each is declared once, with its name and its valid values, and read by these
// functions. An empty value counts as unset. An invalid one is an error that names the variable: for example,
// a mistyped time-out is not silently replaced. docs/communication.md lists all variables.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

namespace braid::rt {

// True if `text` is a decimal number from `least` to `most`; otherwise *out is unchanged.
inline bool read_number(std::string_view text, int64_t least, int64_t most, int64_t* out) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) return false;
  *out = value;
  return true;
}

// Null if it is unset or empty.
inline const char* environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

inline std::string wrong_value(const char* name, const char* value, const std::string& why) {
  return std::string(name) + "='" + value + "' is " + why;
}

struct NumberVariable {
  const char* name;
  int64_t least, most;
};

// Sets *out if the variable has a value. Returns what is wrong with it, or an empty string.
inline std::string read_variable(const NumberVariable& variable, int64_t* out) {
  const char* value = environment_value(variable.name);
  if (value == nullptr || read_number(value, variable.least, variable.most, out)) return {};
  return wrong_value(
      variable.name, value,
      "not a number from " + std::to_string(variable.least) + " to " + std::to_string(variable.most));
}

struct WordVariable {
  const char* name;
  std::array<const char*, 4> words;  // the rest is null
};

inline std::string read_variable(const WordVariable& variable, std::string_view* out) {
  const char* value = environment_value(variable.name);
  if (value == nullptr) return {};
  std::string known;
  for (const char* word : variable.words) {
    if (word == nullptr) break;
    if (std::string_view(word) == value) {
      *out = word;
      return {};
    }
    known += std::string(known.empty() ? "" : ", ") + word;
  }
  return wrong_value(variable.name, value, "not one of " + known);
}

// The value of a variable that check_environment() has passed; empty if it is unset.
inline std::string_view word_of(const WordVariable& variable) {
  std::string_view word;
  read_variable(variable, &word);
  return word;
}

}  // namespace braid::rt
