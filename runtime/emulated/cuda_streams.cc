// Streams and events of the emulated CUDA runtime, under CUDA's names.
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <system_error>

#include "runtime/emulated/graph.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/step_scope.h"
#include "runtime/emulated/stream.h"

using namespace braid::emulated;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  if (stream == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0)
    return result(cudaErrorInvalidValue);
  not_within_step("cudaStreamCreate");
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  Device& device = current_device();
  int ordinal = 0;
  {
    std::lock_guard lock(device.mutex);
    const auto taken = [&](const CUstream_st* stream) { return stream->ordinal == ordinal; };
    while (std::any_of(device.streams.begin(), device.streams.end(), taken)) ++ordinal;
  }
  try {
    *stream = new CUstream_st(device, ordinal, flags, std::clamp(priority, -5, 0));
  } catch (const std::system_error&) {  // no thread for it
    return result(cudaErrorMemoryAllocation);
  }
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr || priority == nullptr) return result(cudaErrorInvalidResourceHandle);
  *priority = stream->priority;
  return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr || flags == nullptr) return result(cudaErrorInvalidResourceHandle);
  *flags = stream->flags;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  CUstream_st* stream = reinterpret_cast<uintptr_t>(handle) <= 2 ? nullptr : find_stream(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  not_within_step();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  not_within_step();
  if (const cudaError_t error = not_while_capturing(*stream); error != cudaSuccess) return error;
  stream->must_be_launched("cudaStreamSynchronize");
  return result(stream->synchronize());
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = not_while_capturing(*stream); error != cudaSuccess) return error;
  if (!stream->idle()) return cudaErrorNotReady;
  return result(stream->synchronize());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned int) {
  CUstream_st* stream = find_stream(handle);
  CUevent_st* event = find_event(event_handle);
  if (stream == nullptr || event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  std::shared_ptr<Recording> recording;
  {
    std::lock_guard lock(event->mutex);
    recording = event->latest;
  }
  if (!recording) return cudaSuccess;  // never recorded: nothing to wait for, as on a GPU
  const std::shared_ptr<Capture> capture = stream->capture();
  if (recording->capture == nullptr) {
    if (capture != nullptr)
      return capture_error(
          capture.get(), cudaErrorStreamCaptureIsolation, __func__,
          "the event was recorded outside of the capture of stream " + std::to_string(stream->ordinal));
    stream->wait_for(std::move(recording));
    return cudaSuccess;
  }
  if (recording->capture->ended())
    return capture_error(capture.get(), cudaErrorCapturedEvent, __func__,
                         "the event was last recorded in a capture, which has ended");
  if (capture != nullptr && capture != recording->capture)
    return capture_error(
        capture.get(), cudaErrorStreamCaptureMerge, __func__,
        "the event was recorded in another capture than that of stream " + std::to_string(stream->ordinal));
  recording->capture->join(*stream, recording->nodes);
  if (capture == nullptr) stream->set_capture(recording->capture);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (function == nullptr) return result(cudaErrorInvalidValue);
  stream->must_be_launched("cudaLaunchHostFunc");
  stream->enqueue({WorkKind::kHostFunction, __func__, [function, data](TaskContext&) {
                     function(data);
                     return true;
                   }});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (event == nullptr) return result(cudaErrorInvalidValue);
  not_within_step("cudaEventCreate");
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  *event = make_event(flags);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  not_within_step();
  return destroy_event(event) ? cudaSuccess : result(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  CUstream_st* stream = find_stream(stream_handle);
  CUevent_st* event = find_event(handle);
  if (stream == nullptr || event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  stream->must_be_launched("cudaEventRecord");
  auto recording = stream->record();
  std::lock_guard lock(event->mutex);
  event->latest = std::move(recording);
  return cudaSuccess;
}

static std::shared_ptr<Recording> latest_of(CUevent_st* event) {
  std::lock_guard lock(event->mutex);
  return event->latest;
}

static cudaError_t captured_event(const Recording& recording, const char* call) {
  return capture_error(recording.capture.get(), cudaErrorCapturedEvent, call,
                       "the event was last recorded in a capture");
}

static void follow(const Recording& recording) {
  host_thread().follow(recording.clock);
  host_thread().issued.join(recording.issued);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  CUevent_st* event = find_event(handle);
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  not_within_step();
  if (const auto recording = latest_of(event)) {
    if (recording->capture != nullptr) return captured_event(*recording, __func__);
    recording->wait();
    follow(*recording);
  }
  return result(sticky_error());
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  CUevent_st* event = find_event(handle);
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  const auto recording = latest_of(event);
  if (!recording) return cudaSuccess;
  if (recording->capture != nullptr) return captured_event(*recording, __func__);
  if (!recording->is_done()) return cudaErrorNotReady;
  follow(*recording);
  return result(sticky_error());
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  CUevent_st* start = find_event(start_handle);
  CUevent_st* end = find_event(end_handle);
  if (start == nullptr || end == nullptr || ms == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (((start->flags | end->flags) & cudaEventDisableTiming) != 0)
    return result(cudaErrorInvalidResourceHandle);
  const auto from = latest_of(start), to = latest_of(end);
  if (!from || !to) return result(cudaErrorInvalidResourceHandle);
  if (from->capture != nullptr || to->capture != nullptr)
    return captured_event(from->capture != nullptr ? *from : *to, __func__);
  if (!from->is_done() || !to->is_done()) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return cudaSuccess;
}

}  // extern "C"
