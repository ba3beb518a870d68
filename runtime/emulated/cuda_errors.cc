// Names and texts of CUDA's errors.
#include "runtime/emulated/cuda_api.h"

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define BRAID_NAME(name) \
  case name:             \
    return #name;
    BRAID_NAME(cudaSuccess)
    BRAID_NAME(cudaErrorInvalidValue)
    BRAID_NAME(cudaErrorMemoryAllocation)
    BRAID_NAME(cudaErrorInvalidConfiguration)
    BRAID_NAME(cudaErrorInvalidDevicePointer)
    BRAID_NAME(cudaErrorInvalidMemcpyDirection)
    BRAID_NAME(cudaErrorNoDevice)
    BRAID_NAME(cudaErrorInvalidDevice)
    BRAID_NAME(cudaErrorInvalidResourceHandle)
    BRAID_NAME(cudaErrorNotReady)
    BRAID_NAME(cudaErrorIllegalAddress)
    BRAID_NAME(cudaErrorLaunchTimeout)
    BRAID_NAME(cudaErrorLaunchFailure)
    BRAID_NAME(cudaErrorNotPermitted)
    BRAID_NAME(cudaErrorNotSupported)
    BRAID_NAME(cudaErrorUnknown)
#undef BRAID_NAME
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevicePointer:
      return "invalid device pointer";
    case cudaErrorInvalidMemcpyDirection:
      return "invalid copy direction for memcpy";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchTimeout:
      return "the launch timed out and was terminated";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNotPermitted:
      return "operation not permitted";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorUnknown:
      return "unknown error";
  }
  return "unrecognized error code";
}

}  // extern "C"
