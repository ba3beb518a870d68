// From text to schedules. The format is specified in docs/ir.md.
//
// Errors are user errors with file, line and column; each number below has a section in docs/errors.md. Any
// input yields a schedule or a user error: depths, sizes and the growth of expressions are bounded.
#pragma once

#include <string>
#include <string_view>

#include "ir/schedule.h"

namespace braid::ir {

inline constexpr int kMaxNesting = 64;

// The schedule that the text describes. Constants in files are not read: they keep the file's name and have
// no data.
Schedule parse_schedule(std::string_view text, std::string file_name = {});

// Parses an expression over the graph's dimensions, i0, i1, ... and %0, %1, ...
Expr parse_expr(std::string_view text, Graph& graph);

}  // namespace braid::ir
