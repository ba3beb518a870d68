// Replaces gemm_onednn.cc where oneDNN is not installed: our own kernels compute all products, slowly if they
// have many rows.
#include "runtime/gemm_library.h"

namespace braid::rt {

std::unique_ptr<LibraryGemm> make_library_gemm() { return nullptr; }

}  // namespace braid::rt
