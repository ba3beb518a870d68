// The variable in which a loop of a generated C++ kernel accumulates a reduction, as text.
#pragma once

#include <functional>
#include <string>

#include "ir/graph.h"

namespace braid::codegen::cpp {

// How one reduction is accumulated.
struct Accumulator {
  std::string type;
  std::string init;
  std::string clause;  // OpenMP's name of the operation
  std::function<std::string(const std::string&, const std::string&)>
      combine;                                            // (accumulator, value) -> expression
  std::function<std::string(const std::string&)> finish;  // accumulator -> value
  // A statement that adds the accumulator `part` to `all`. The order of parts changes no bit if is_exact().
  std::string merged(const std::string& all, const std::string& part) const;
  bool is_exact() const { return type != "float" && type != "double"; }
};

// `node` is named where the kind cannot be accumulated.
Accumulator accumulator(ir::ReduceKind kind, ir::DType dtype, const std::string& node);

}  // namespace braid::codegen::cpp
