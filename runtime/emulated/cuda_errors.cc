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
    BRAID_NAME(cudaErrorIllegalState)
    BRAID_NAME(cudaErrorNotReady)
    BRAID_NAME(cudaErrorIllegalAddress)
    BRAID_NAME(cudaErrorLaunchTimeout)
    BRAID_NAME(cudaErrorLaunchFailure)
    BRAID_NAME(cudaErrorNotPermitted)
    BRAID_NAME(cudaErrorNotSupported)
    BRAID_NAME(cudaErrorStreamCaptureUnsupported)
    BRAID_NAME(cudaErrorStreamCaptureInvalidated)
    BRAID_NAME(cudaErrorStreamCaptureMerge)
    BRAID_NAME(cudaErrorStreamCaptureUnmatched)
    BRAID_NAME(cudaErrorStreamCaptureUnjoined)
    BRAID_NAME(cudaErrorStreamCaptureIsolation)
    BRAID_NAME(cudaErrorStreamCaptureImplicit)
    BRAID_NAME(cudaErrorCapturedEvent)
    BRAID_NAME(cudaErrorStreamCaptureWrongThread)
    BRAID_NAME(cudaErrorGraphExecUpdateFailure)
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
    case cudaErrorIllegalState:
      return "the operation cannot be performed in the present state";
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
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge:
      return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched:
      return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit:
      return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorStreamCaptureWrongThread:
      return "attempt to terminate a thread-local capture sequence from another thread";
    case cudaErrorGraphExecUpdateFailure:
      return "the graph update was not performed because it included changes which violated constraints "
             "specific to instantiated graph update";
    case cudaErrorUnknown:
      return "unknown error";
  }
  return "unrecognized error code";
}

}  // extern "C"
