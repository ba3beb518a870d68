// One rank of a case on a device: makes its weights and inputs, runs the program, compares its outputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "case_file.h"
#include "device_api.h"
#include "runtime/cuda_abi.h"

namespace braid::gpu_bundle {

class RankRun {
 public:
  // Creates the instance and prepares it on the current device. `data` is the path of cases.data. `graphs` is
  // that of BraidCudaCreateInfo: -1 enqueues each step.
  RankRun(const Case& c, const BraidCudaProgram& program, const std::string& data, int rank, ncclComm_t comm,
          int graphs = 0);
  ~RankRun();
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  void step(size_t copy = 0);  // enqueued
  void wait();                 // until all steps are done, or 120 seconds
  // The same step from a CUDA graph of this copy: captured at the first call. Not on the emulated device.
  void replay(size_t copy = 0);
  // Restores the inputs, which a step may write, and fills the outputs with other bytes, in all copies.
  void reset();
  // Throws if an output of the first copy differs from what is expected.
  void compare();

  // Gives inputs and outputs so many copies, one at first.
  void rotate(size_t copies);
  uint64_t rotated_bytes() const;  // of one copy of inputs and outputs
  uint64_t weight_bytes() const { return program_.weights_bytes + program_.rank_weights_bytes; }

  cudaStream_t stream() const { return stream_; }

 private:
  struct Copy {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
#ifndef BRAID_EMULATED_DEVICE
    cudaGraphExec_t graph = nullptr;
#endif
  };
  void ok(BraidStatus status) const;
  void* allocate(size_t bytes);
  std::vector<unsigned char> image(const char* what, int index);
  std::vector<size_t> output_bytes() const;

  const Case& case_;
  const BraidCudaProgram& program_;
  const std::string data_;
  const int rank_;
  BraidCudaInstance* instance_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<void*> memory_;
  std::vector<std::vector<unsigned char>> host_inputs_;
  std::vector<Copy> copies_;
};

}  // namespace braid::gpu_bundle
