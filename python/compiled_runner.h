// One rank of a compiled CPU program: joins the ranks that a launcher started, opens the program, sets
// threads.
#pragma once

#include <memory>
#include <string>

#include "python/program.h"
#include "runtime/program_abi.h"

namespace braid::python {

struct CompiledFiles {
  const BraidProgram* table = nullptr;
  std::string library, dir;
};

// See Program::open.
std::unique_ptr<Runner> open_compiled(const CompiledFiles& files, int threads);

}  // namespace braid::python
