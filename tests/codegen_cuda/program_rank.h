// One rank of a program that a test drives through its table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cuda_abi.h"
#include "runtime/emulated/cuda_api.h"
#include "runtime/emulated/nccl_api.h"

namespace braid::test {

// A rank on the device of its number. Make and use it on one thread per rank. The first call that failed is
// in `error`; later ones are not made.
class ProgramRank {
 public:
  // Takes the caller's fields of `info`: time-out, graphs, the callback that names missing ranks.
  ProgramRank(const BraidCudaProgram& program, int rank, const ncclUniqueId& id, BraidCudaCreateInfo info);
  ~ProgramRank();
  ProgramRank(const ProgramRank&) = delete;
  ProgramRank& operator=(const ProgramRank&) = delete;

  void prepare(const std::vector<int64_t>& dims);
  // Device memory of its own for floats, with these values or zeros.
  float* floats(const std::vector<float>& values);
  std::vector<float> read(const float* memory, size_t count);
  // A step on the caller's stream. Returns the table's status and keeps its message.
  BraidStatus run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs);
  BraidStatus synchronize(int64_t timeout_ms);
  void destroy();             // the instance
  void abort_communicator();  // the caller's
  // Whether the caller's communicator still adds up 1 over all ranks. Collective.
  bool communicator_works();

  bool ok() const { return error.empty(); }
  BraidCudaInstance* instance() const { return instance_; }
  cudaStream_t stream() const { return stream_; }
  std::string error, message;

 private:
  void check(cudaError_t e, const char* call);
  void check(ncclResult_t e, const char* call);
  BraidStatus kept(BraidStatus status);

  const BraidCudaProgram& program_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  BraidCudaInstance* instance_ = nullptr;
  std::vector<float*> memory_;
};

}  // namespace braid::test
