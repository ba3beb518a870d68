// Text to schedules. The format is specified in docs/ir.md.
//
// Errors are user errors with file, line and column; the numbers are below, each has a section in
// docs/errors.md. Any input ends in a schedule or a user error: depths, sizes and the growth of expressions
// are bounded.
#pragma once

#include <string>
#include <string_view>

#include "ir/schedule.h"

namespace braid::ir {

enum ParseErrorCode : int {
  kSyntaxError = 501,     // a token that does not belong here
  kBadLiteral = 502,      // malformed or out of range: number, string
  kUnknownName = 503,     // buffer, group, storage, dimension, operation or value that nobody declared before
  kDuplicateName = 504,   // declared twice
  kWrongType = 505,       // operand or result of the wrong type
  kWrongCount = 506,      // number of operands, results, sizes or constants
  kBadExpression = 507,   // division by what may not be positive, overflow, growth without measure
  kBadIndex = 508,        // unknown loop index, value that cannot be an index
  kNestingTooDeep = 509,  // more than kMaxNesting levels
  kBadConstant = 510,     // data of a constant does not fit its type and sizes
  kBadStructure =
      511,  // what belongs together does not: wait of no collective, rank outside of the world, ...
  kShapeMismatch = 512,  // sizes of operands that cannot fit
};

inline constexpr int kMaxNesting = 64;

// The schedule that the text describes. Constants in files are not read: their data stays empty, with the
// file's name.
Schedule parse_schedule(std::string_view text, std::string file_name = {});

// An expression over the declared dimensions, i0, i1, ... and %0, %1, ... of the graph.
Expr parse_expr(std::string_view text, Graph& graph);

}  // namespace braid::ir
