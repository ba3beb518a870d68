// The parts of the module, a file each.
#pragma once

#include "python/nanobind.h"

namespace braid::python {

void bind_errors(nb::module_& module);
void bind_tensor(nb::module_& module);
void bind_compile(nb::module_& module);
void bind_session(nb::module_& module);
void bind_reports(nb::module_& module);
void bind_ranks(nb::module_& module);

}  // namespace braid::python
