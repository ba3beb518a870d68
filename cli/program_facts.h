// Facts about a compiled program, read from its folder.
#pragma once

#include <string>

#include "cli/report.h"

namespace braid::cli {

// Each prints and adds to the JSON; user errors of read_manifest.
void tell_program(const std::string& dir, Report& report);      // interface, files, weights, memory
void tell_collectives(const std::string& dir, Report& report);  // in the order of issue
// The program's kernels and communication steps in order; CPU programs whose library is built.
void tell_nodes(const std::string& dir, Report& report);

}  // namespace braid::cli
