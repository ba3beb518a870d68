#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace braid::cli {

// Writes the parts, one after the other. UserError BR0010 when the file cannot be written: nothing
// half-written stays, not where a signal ends the process either.
void write_file(const std::string& path, std::initializer_list<std::string_view> parts);

inline void write_file(const std::string& path, std::string_view text) { write_file(path, {text, {}}); }

}  // namespace braid::cli
