// Before every case (CMakeLists.txt): calls that a test can leave out (planted.h).
#pragma once

// CUDA's qualifiers are macros: the standard headers that follow would not survive them.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda_program.h"
#include "tests/codegen_cuda/planted.h"

#define cudaStreamWaitEvent(stream, event, flags)                        \
  (braid::test::is_left_out("cudaStreamWaitEvent", #event) ? cudaSuccess \
                                                           : (cudaStreamWaitEvent)(stream, event, flags))
#define ncclMemAlloc(pointer, bytes) \
  (braid::test::is_left_out("ncclMemAlloc", "any") ? ncclSystemError : (ncclMemAlloc)(pointer, bytes))
#define cudaEventRecord(event, stream) \
  (braid::test::is_left_out("cudaEventRecord", #event) ? cudaSuccess : (cudaEventRecord)(event, stream))
