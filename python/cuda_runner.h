// One rank of a CUDA program, on a GPU or on the emulated device (runtime/cuda_session.h).
#pragma once

#include <memory>
#include <string>

#include "python/program.h"
#include "runtime/cuda_library.h"

namespace braid::python {

struct CudaFiles {
  std::shared_ptr<const rt::CudaLibrary> library;
  std::string dir;
  bool emulated = false;
};

// See Program::open.
std::unique_ptr<Runner> open_cuda(const CudaFiles& files, const SessionOptions& options);

}  // namespace braid::python
