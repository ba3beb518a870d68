#include "cli/cuda_library.h"

namespace braid::cli {

rt::CudaLibrary open_cuda_library(const ProgramFiles& program) {
  return {program.library, program.name, program.id};
}

}  // namespace braid::cli
