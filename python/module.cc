// The extension module behind python/braid: thin bindings of the compiler and of the runtime.
#include "python/bindings.h"

NB_MODULE(_braid, module) {
  module.doc() = "Braid's compiler and runtime; use the package braid.";
  module.attr("version") = BRAID_VERSION;
  braid::python::bind_errors(module);
  braid::python::bind_tensor(module);
  braid::python::bind_compile(module);
  braid::python::bind_session(module);
  braid::python::bind_reports(module);
  braid::python::bind_ranks(module);
}
