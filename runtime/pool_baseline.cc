// Pools, for any processor.
#include <algorithm>
#include <cstring>

#include "runtime/pool.h"

namespace braid::rt::baseline {

#include "runtime/pool_kernels.inc"

}  // namespace braid::rt::baseline
