// The text that a user would read.
#pragma once

#include <string>

#include "ir/error.h"

namespace braid::test {

// The text of the user error that `run` ends with.
template <class Run>
std::string error_of(const Run& run) {
  try {
    run();
  } catch (const ir::UserError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace braid::test
