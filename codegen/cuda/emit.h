// A planned schedule as a CUDA program: one readable .cu, its header, and where its weights lie. docs/cuda.md
// shows what comes out and how it runs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda/memory.h"
#include "codegen/cuda/streams.h"
#include "codegen/weights.h"
#include "ir/schedule.h"

namespace braid::codegen::cuda {

struct CudaOptions {
  std::string name = "model";  // made an identifier; the entry point is braid_cuda_program_<name>
  std::int64_t max_shared_bytes = 160 * 1024;  // per block: what sm_80 and later have
  PlantedFault fault;                          // tests only
};

struct CudaProgram {
  std::string name;      // as in the entry point
  std::string body;      // kernels, tables and step, in a namespace of its own: several fit in one file
  std::string header;    // declares the entry point
  std::uint64_t id = 0;  // of the compilation
  WeightLayout weights;
  std::map<int, int> aliased_outputs;  // output -> the input whose memory it is
  std::int64_t arena_bytes = 0, comm_bytes = 0;
  StreamPlan streams;
  int kernels = 0;            // after equal ones have become one
  bool peer_kernels = false;  // kernels read peers' memory: needs NCCL's device API
};

// Deterministic: equal schedules give equal bytes. Requires a memory plan. Errors: 602 (constants without
// data), 640 (an operation that the target does not have), 641 (a collective that NCCL does not have for this
// type), 642 (a channel policy other than one order for all or per communicator), 645 (a kernel for a
// collective that the target does not have).
CudaProgram emit_cuda(const ir::Schedule& planned, const CudaOptions& options = {});

// The translation unit of one or more programs.
std::string cuda_source(std::span<const CudaProgram> programs);

}  // namespace braid::codegen::cuda
