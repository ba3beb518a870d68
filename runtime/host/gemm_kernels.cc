// The matrix kernels of CPU programs, built with the compiler, flags and target machine of the program;
// programs for one machine share one build (codegen/cpp/gemm_object.h, braid_add_model).
#include "runtime/gemm_kernels.h"

namespace braid::rt {

const HostGemm kHostGemm = {run_rows, run_panels, finish_rows};

}  // namespace braid::rt
