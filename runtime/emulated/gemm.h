// Counts of the emulated device's matrix products, for its tests.
#pragma once

namespace braid::emulated {

// How often a product was prepared since the process began: on a GPU each costs a choice by cuBLASLt.
int gemm_preparations();
// Calls of Gemm::choose.
int gemm_choices();

}  // namespace braid::emulated
