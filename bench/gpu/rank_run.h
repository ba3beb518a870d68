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
  // Creates the instance and prepares it; the current device is used. `data` is the path of cases.data.
  RankRun(const Case& c, const BraidCudaProgram& program, const std::string& data, int rank, ncclComm_t comm);
  ~RankRun();
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  void step();  // enqueued
  void wait();  // until all steps are done, or 120 seconds
  // The same step from a CUDA graph: captured at the first call. Not on the emulated device.
  void replay();
  // Restores the inputs that a step writes, and fills the outputs with other bytes.
  void reset();
  // Throws if an output differs from what is expected.
  void compare();

  cudaStream_t stream() const { return stream_; }

 private:
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
#ifndef BRAID_EMULATED_DEVICE
  cudaGraphExec_t graph_ = nullptr;
#endif
  std::vector<void*> memory_;
  std::vector<std::vector<unsigned char>> host_inputs_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace braid::gpu_bundle
