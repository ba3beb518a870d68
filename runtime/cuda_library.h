// The library of a CUDA program, opened by a process that is not linked with CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/cuda_host.h"
#include "runtime/cuda_session.h"
#include "runtime/kernel_counts.h"

namespace braid::rt {

class CudaLibrary {
 public:
  // `id`: of the compilation. The library stays loaded, as threads of the device may still run. Throws
  // ProgramError kCannotOpen.
  CudaLibrary(const std::string& path, const std::string& name, uint64_t id);

  const BraidCudaProgram& table() const { return *table_; }
  decltype(&braid_cuda_host_run) host_run() const;
  const BraidCudaSessionCalls& session_calls() const;
  // Returns the findings of the emulated device's checkers since the last call, for all programs of this
  // process. Empty on GPUs.
  std::string take_findings() const;
  // The emulated device only: runs `steps` and calls `visit` with the counts of each kernel meanwhile. Call
  // when nothing runs.
  void count_kernels(const std::function<void()>& steps,
                     const std::function<void(const BraidKernelCounts&)>& visit) const;
  // The emulated device only: from now on, resources that programs of this process have not released are
  // findings. Call when no program is open.
  void report_leaks() const;

 private:
  // Null if it is not there.
  void* find(const std::string& name) const;
  void* symbol(const std::string& name) const;

  std::string path_;
  void* handle_ = nullptr;
  const BraidCudaProgram* table_ = nullptr;
};

}  // namespace braid::rt
