// braid.explain, braid.check and braid.ops: the data; Python draws it.
#include "python/bindings.h"

namespace braid::python {
void bind_reports(nb::module_&) {}
}  // namespace braid::python
