// Texts of libraries' exceptions, for our messages.
#pragma once

#include <exception>
#include <string>

namespace braid::frontend {

// Returns the text of the error without its place in the library's source, which is of no use to a user:
// "/there/onnx/common/ir.h:12: f: Assertion `n` failed: no name" becomes "no name".
std::string foreign_text(const std::exception& error);

}  // namespace braid::frontend
