// From an emitted program to files, and from files to a library.
//
//   emit_cuda -> write_cuda -> DIR/{name.cu, name.h, weights*.bin, manifest.json}
//                              -> build_emulated -> DIR/name.emulated.so    runs on the emulated device
//                              -> build_nvcc     -> DIR/name.cuda.so        runs on GPUs
//
// Both libraries export braid_cuda_program_<name> (runtime/cuda_abi.h) and braid_cuda_host_run
// (runtime/cuda_host.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/program_folder.h"

namespace braid::codegen::cuda {

struct CudaBuildOptions {
  std::string runtime_dir;  // see codegen/toolchain.h
  std::string compiler;     // host compiler; empty: $CXX, else c++
  bool verbose = false;     // print the command
};

// Builds with the host compiler for the emulated device and returns the library's path. User errors BR0603
// with the compiler's first lines, BR0604 if the emulated device is not found.
std::string build_emulated(const std::string& dir, const std::string& name,
                           const CudaBuildOptions& options = {});

// Looks for nvcc in $CUDA_HOME and $CUDA_PATH, on the PATH, and in the usual places.
std::optional<std::string> find_nvcc();

// Builds with nvcc for architectures such as "sm_80" (empty: sm_80 and sm_90). Links the CUDA runtime,
// cuBLASLt and NCCL (from $NCCL_ROOT or $NCCL_HOME, otherwise from the toolkit). User errors BR0643 (no nvcc,
// or not an architecture), BR0644 with nvcc's first lines.
std::string build_nvcc(const std::string& dir, const std::string& name,
                       std::vector<std::string> architectures = {}, const CudaBuildOptions& options = {});

}  // namespace braid::codegen::cuda
