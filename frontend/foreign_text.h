// Texts of libraries' exceptions, for our messages.
#pragma once

#include <exception>
#include <string>

namespace braid::frontend {

// Without the place in the library's source, which says nothing to a user:
// "/there/onnx/common/ir.h:12: f: Assertion `n` failed: no name" becomes "no name".
std::string foreign_text(const std::exception& error);

}  // namespace braid::frontend
