#include "frontend/fold.h"

namespace braid::frontend {

bool fold_constants(OpContext&, const OpSpec&) { return false; }

}  // namespace braid::frontend
