// The options of braid.compile, braid.explain and braid.check, as a dictionary (python/braid/_options.py
// makes it).
#pragma once

#include <list>

#include "codegen/leftovers.h"
#include "driver/compile.h"
#include "python/nanobind.h"

namespace braid::python {

// A tuple for each keyword of driver/option_table.h: its name, type, default, help, least, most, choices, and
// whether only braid.compile has it.
nb::list option_rows();

// Loads the plug-ins among them. "interpreter" as the target gives the options of "cpu".
CompileOptions compile_options(const nb::dict& options);

// While it lives, a signal that ends the process removes the files that compiling has made so far
// (codegen/leftovers.h), and the folders of the option "temporary".
class Unfinished {
 public:
  explicit Unfinished(const nb::dict& options);

 private:
  codegen::EndsCleanly end_;
  std::list<codegen::Leftover> folders_;
};

}  // namespace braid::python
