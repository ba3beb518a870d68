// Attention kernels for any processor.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/attention_isa.h"
#include "runtime/kernel_support.h"

#define BRAID_ATTENTION_LANES 4

namespace braid::rt::baseline {
#include "runtime/attention_kernels.inc"
}  // namespace braid::rt::baseline
