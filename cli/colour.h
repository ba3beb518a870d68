// Colour on a terminal's standard error.
#pragma once

#include <string>

namespace braid::cli {

// Whether standard error is a terminal that follows escape sequences.
bool terminal_has_escapes();

// Returns the text of an error with "error BR0003:" and "hint:" coloured, on a terminal unless NO_COLOR is
// set and not empty (https://no-color.org).
std::string coloured_error(const std::string& text);

}  // namespace braid::cli
