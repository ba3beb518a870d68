// The scalar ops that a test goes through, from the table: an op that is added is tested without a further
// row.
#pragma once

#include <vector>

#include "ir/typing.h"

namespace braid::test {

// Those of so many operands, all of the type, which say all there is to the instruction.
inline std::vector<ir::OpCode> ops_of(ir::DType dtype, int operands) {
  std::vector<ir::OpCode> ops;
  for (const ir::OpRow& row : ir::kOps) {
    const bool itself = row.result_type == ir::ResultType::given || row.code == ir::OpCode::check_index;
    if (row.operands == operands && !itself && accepts(row.operand_types, dtype)) ops.push_back(row.code);
  }
  return ops;
}

}  // namespace braid::test
