// One rank of a compiled CPU program: joins the ranks that a launcher started, opens the program, sets
// threads.
#pragma once

#include <memory>

#include "harness/program_files.h"
#include "harness/session.h"

namespace braid::harness {

// See Program::open.
std::unique_ptr<Session> open_host(const ProgramFiles& files, const BraidProgram& table,
                                   const SessionOptions& options);

}  // namespace braid::harness
