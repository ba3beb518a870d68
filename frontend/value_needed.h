// The user error of a value that the compiler must know and that only a run would tell.
#pragma once

#include <string>
#include <utility>

#include "ir/error.h"

namespace braid::frontend {

// A UserError that also names the value, so that the import can start again with the inputs behind it bound
// to constants (ImportOptions::bindable).
class ValueNeeded final : public ir::UserError {
 public:
  ValueNeeded(int code, ir::Location at, std::string message, std::string hint, std::string value)
      : UserError(code, std::move(at), std::move(message), std::move(hint)), value_(std::move(value)) {}
  const std::string& value() const { return value_; }  // its name in the graph that was lowered

 private:
  std::string value_;
};

}  // namespace braid::frontend
