// How names and strings are written in the text format.
#pragma once

#include <string>
#include <string_view>

namespace braid::ir {

// [A-Za-z_][A-Za-z0-9_.]*
bool is_plain_name(std::string_view name);
// "a \"b\"": printable and UTF-8 bytes unchanged, the rest as \n, \t, \xHH.
std::string in_quotes(std::string_view text);
// The name itself if it is plain, else quoted.
std::string name_text(std::string_view name);
// A dimension in an expression: also quoted if it would read as an index (i0) or a function (min).
std::string dim_text(std::string_view name);

}  // namespace braid::ir
