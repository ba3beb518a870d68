// From text to schedules. The format is specified in docs/ir.md.
//
// Errors are user errors with file, line and column; each number below has a section in docs/errors.md. Any
// input yields a schedule or a user error: depths, sizes and the growth of expressions are bounded.
#pragma once

#include <string>
#include <string_view>

#include "ir/schedule.h"

namespace braid::ir {

enum ParseErrorCode : int {
  kSyntaxError = 501,     // unexpected token
  kBadLiteral = 502,      // a number or string that is malformed or out of range
  kUnknownName = 503,     // buffer, group, storage, dimension, operation or value that is not declared before
  kDuplicateName = 504,   // declared twice
  kWrongType = 505,       // operand or result of the wrong type
  kWrongCount = 506,      // number of operands, results, sizes or constants
  kBadExpression = 507,   // a divisor that may not be positive, overflow, unbounded growth
  kBadIndex = 508,        // unknown loop index, value that cannot be an index
  kNestingTooDeep = 509,  // more than kMaxNesting levels
  kBadConstant = 510,     // data that does not fit the constant's type and sizes
  kBadStructure = 511,    // parts that do not fit together: a wait without a collective, a rank out of range
  kShapeMismatch = 512,   // operands whose sizes cannot agree
};

inline constexpr int kMaxNesting = 64;

// The schedule that the text describes. Constants in files are not read: they keep the file's name and have
// no data.
Schedule parse_schedule(std::string_view text, std::string file_name = {});

// Parses an expression over the graph's dimensions, i0, i1, ... and %0, %1, ...
Expr parse_expr(std::string_view text, Graph& graph);

}  // namespace braid::ir
