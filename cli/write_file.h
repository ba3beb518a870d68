#pragma once

#include <string>

namespace braid::cli {

// UserError BR0010 when the file cannot be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace braid::cli
