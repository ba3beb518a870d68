// The texts of BRAID_BAD_SIZE, for the tables of both kinds of programs (BraidProgram, BraidCudaProgram).
#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <utility>

namespace braid::rt {

// The dimension that is out of its bounds; empty if none is.
template <class Table>
std::string bounds_error(const Table& table, const int64_t* dims) {
  for (int32_t k = 0; k < table.dim_count; ++k) {
    const auto& dim = table.dims[k];
    if (dims[k] < dim.min || dims[k] > dim.max) {
      return std::string("dimension '") + dim.name + "' is " + std::to_string(dims[k]) +
             ", but the program was compiled for " + std::to_string(dim.min) + " to " +
             std::to_string(dim.max);
    }
  }
  return {};
}

// Whether a text names a dimension, of which no part is another name.
inline bool mentions(const std::string& text, const std::string& name) {
  const auto of_a_name = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' || text[at] == '.');
  };
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if (!(at > 0 && of_a_name(at - 1)) && !of_a_name(at + name.size())) return true;
  }
  return false;
}

// Returns the error that the relation `guard` does not hold.
template <class Table>
std::string guard_error(const Table& table, const int64_t* dims, const char* guard) {
  std::string text = std::string(guard) + " does not hold";
  bool first = true;
  for (int32_t k = 0; k < table.dim_count; ++k) {
    // Measured ones that the guard does not mention may have no value yet.
    const std::string name = table.dims[k].name;
    if (table.dims[k].measured != 0 && !mentions(guard, name)) continue;
    text += (std::exchange(first, false) ? " for " : ", ") + name + " = " + std::to_string(dims[k]);
  }
  return text;
}

// Returns the error of either kind for a BraidCudaProgram, or an empty text.
template <class Table>
std::string size_error(const Table& table, const int64_t* dims) {
  std::string error = bounds_error(table, dims);
  if (!error.empty() || table.broken_guard == nullptr) return error;
  const char* guard = table.broken_guard(dims);
  return guard == nullptr ? error : guard_error(table, dims, guard);
}

}  // namespace braid::rt
