// The options of braid.compile, braid.explain and braid.check, as a dictionary (python/braid/_options.py makes it).
#pragma once

#include "driver/compile.h"
#include "python/nanobind.h"

namespace braid::python {

// Loads the plug-ins among them. "interpreter" as the target gives the options of "cpu".
CompileOptions compile_options(const nb::dict& options);

}  // namespace braid::python
