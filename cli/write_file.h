#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace braid::cli {

// Writes the parts one after another. UserError BR0010 if the file cannot be written. A partial file never
// remains, not even if a signal ends the process.
void write_file(const std::string& path, std::span<const std::string_view> parts);
inline void write_file(const std::string& path, std::initializer_list<std::string_view> parts) {
  write_file(path, std::span(parts.begin(), parts.size()));
}

inline void write_file(const std::string& path, std::string_view text) { write_file(path, {text, {}}); }

}  // namespace braid::cli
