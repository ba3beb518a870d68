// A planned schedule as a CUDA program: one readable .cu, its header, and the layout of its weights.
// docs/cuda.md shows the output and how it runs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda/memory.h"
#include "codegen/cuda/streams.h"
#include "codegen/weights.h"
#include "ir/schedule.h"

namespace braid::codegen::cuda {

inline constexpr const char* kTargetName = "cuda";

struct CudaOptions {
  std::string name = "model";  // made an identifier; the entry point is braid_cuda_program_<name>
  // Maximum bytes of rows in shared memory, per block: the shared memory of Hopper, less 2 KiB for
  // reductions.
  std::int64_t max_shared_bytes = 225 * 1024;
  // The same on every device from sm_80 on. A kernel that may need more is emitted in two variants.
  std::int64_t portable_shared_bytes = 97 * 1024;
  bool precise = false;  // every operation is computed as IEEE says (codegen/cuda/forms.h)
  PlantedFault fault;    // tests only
};

struct CudaProgram {
  std::string name;  // as in the entry point
  std::string
      body;  // kernels, tables and step, in their own namespace, so that one file can hold several programs
  std::vector<std::string> externs;      // sources of the extern kernels that it calls
  std::set<std::string> device_headers;  // that its kernels need besides those of runtime/cuda_instance.h
  std::string header;                    // declares the entry point
  std::uint64_t id = 0;                  // of the compilation
  WeightLayout weights;
  std::map<int, int> aliased_outputs;  // output -> the input whose memory it shares
  std::int64_t arena_bytes = 0, comm_bytes = 0;
  StreamPlan streams;
  int kernels = 0;            // equal ones counted once
  bool precise = false;       // CudaOptions::precise
  bool peer_kernels = false;  // kernels read peers' memory: needs NCCL's device API
};

// Deterministic: equal schedules give equal bytes. Requires a memory plan. Errors: 602 (constants without
// data), 640 (an unsupported operation), 641 (a collective that NCCL lacks for this type), 642 (a channel
// policy other than `global` and `communicator`), 645 (an unsupported kernel for a collective).
CudaProgram emit_cuda(const ir::Schedule& planned, const CudaOptions& options = {});

// The translation unit of one or more programs.
std::string cuda_source(std::span<const CudaProgram> programs);

}  // namespace braid::codegen::cuda
