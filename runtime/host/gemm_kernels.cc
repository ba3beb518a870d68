// The matrix kernels of CPU programs. Built for the machine that the program is built for, with its compiler
// and its flags; no two programs of one machine need it built twice (codegen/cpp/gemm_object.h,
// braid_add_model).
#include "runtime/gemm_kernels.h"

namespace braid::rt {

const HostGemm kHostGemm = {run_rows, run_panels, finish_rows};

}  // namespace braid::rt
