#include <optional>

#include "runtime/cuda/core.h"
#include "runtime/device/launch.h"

namespace braid::rt::cuda {

BraidStatus InstanceCore::run(const void* const* inputs, void* const* outputs, cudaStream_t stream) {
  failure_.node = nullptr;
  if (broken_ || !healthy() || !check_operands(inputs, outputs)) return failure_.status;
  PlannedMemory& plan = program_.plan_;
  program_.workspace_ = products_.workspace();
  plan.workspace = program_.workspace_;
  program_.inputs_ = plan.inputs = inputs;
  program_.outputs_ = plan.outputs = outputs;
  if (enqueue(stream)) return BRAID_OK;
  // Streams and peers are in an unknown state after half a step.
  broken_ = true;
  (void)lost_peer();
  return failure_.status;
}

bool InstanceCore::check_operands(const void* const* inputs, void* const* outputs) {
  if (current_ == nullptr) return fail(BRAID_INVALID_ARGUMENT, "run: not prepared");
  const auto is_null = [&](const char* what, const BraidTensorInfo& tensor) {
    return fail(BRAID_INVALID_ARGUMENT, std::string("run: ") + what + " '" + tensor.name + "' is null");
  };
  known_memory_.resize(static_cast<size_t>(table_.input_count + table_.output_count));
  for (int k = 0; k < table_.input_count; ++k) {
    const BraidTensorInfo& input = table_.inputs[k];
    if (inputs == nullptr || inputs[k] == nullptr) return is_null("input", input);
    const auto at = static_cast<size_t>(k);
    if (!check_memory("input", input, current_->empty[at], inputs[k], &known_memory_[at])) return false;
  }
  for (int k = 0; k < table_.output_count; ++k) {
    const BraidTensorInfo& output = table_.outputs[k];
    if (outputs == nullptr || outputs[k] == nullptr) return is_null("output", output);
    if (output.alias_of_input >= 0 && outputs[k] != inputs[output.alias_of_input]) {
      return fail(BRAID_INVALID_ARGUMENT, std::string("run: output '") + output.name +
                                              "' must be the memory of input '" +
                                              table_.inputs[output.alias_of_input].name + "'");
    }
    const auto at = static_cast<size_t>(table_.input_count + k);
    if (!check_memory("output", output, current_->empty[at], outputs[k], &known_memory_[at])) return false;
  }
  return true;
}

// Checks that the pointer is memory of this device: otherwise the first access would end the process's use of
// the GPU.
bool InstanceCore::check_memory(const char* what, const BraidTensorInfo& tensor, bool empty,
                                const void* pointer, const void** known) {
  if (empty || pointer == *known) return true;
  const auto wrong = [&](const std::string& why) {
    return fail(BRAID_INVALID_ARGUMENT, std::string("run: ") + what + " '" + tensor.name + "' " + why);
  };
  cudaPointerAttributes attributes = {};
  const bool found = cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess;
  if (!found) (void)cudaGetLastError();
  if (!found || (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged))
    return wrong("is not device memory");
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != device_) {
    return wrong("is memory of device " + std::to_string(attributes.device) +
                 ", but the instance is on device " + std::to_string(device_));
  }
  // Kernels and the matrix library move 16 bytes at once.
  if (reinterpret_cast<uintptr_t>(pointer) % BRAID_CUDA_ALIGNMENT != 0)
    return wrong("is not a multiple of " + std::to_string(BRAID_CUDA_ALIGNMENT) + " bytes");
  *known = pointer;
  return true;
}

bool InstanceCore::enqueue(cudaStream_t stream) {
  const cudaStream_t compute = program_.compute_, communication = program_.communication_;
  BRAID_TRY(cudaSetDevice(device_));
  // If the caller's stream is being captured, this step becomes part of the capture.
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (stream != nullptr) BRAID_TRY(cudaStreamIsCapturing(stream, &capture));
  const bool executed = capture == cudaStreamCaptureStatusNone;
  watched_ = executed;
  collectives_ = Collectives::kCalled;
  const cudaGraphExec_t graph = graphs_ && executed && !profile_.on() ? captured_step() : nullptr;
  // Capturing collectives allocates memory, so such a run has no StepScope.
  std::optional<StepScope> scope;
  if (collectives_ != Collectives::kCaptured) scope.emplace(stream != nullptr ? stream : compute);
  if (stream != nullptr) {
    BRAID_TRY(cudaEventRecord(caller_, stream));
    BRAID_TRY(cudaStreamWaitEvent(compute, caller_, 0));
  }
  if (executed && !watch_.begins(compute)) return false;
  if (graph != nullptr) {
    BRAID_TRY(cudaGraphLaunch(graph, compute));
  } else {
    if (layout_.collectives) {
      // Collectives of this step must follow the kernels of the step before it.
      BRAID_TRY(cudaEventRecord(fork_, compute));
      BRAID_TRY(cudaStreamWaitEvent(communication, fork_, 0));
    }
    if (!enqueue_calls()) return false;
  }
  if (executed && !watch_.ends(compute)) return false;
  if (stream != nullptr) {
    BRAID_TRY(cudaEventRecord(join_, compute));
    BRAID_TRY(cudaStreamWaitEvent(stream, join_, 0));
  }
  if (scope) scope->done();
  return !executed || watch_.announce();
}

int InstanceCore::begin_node() {
  if (profile_.on()) profile_.next_node(program_.compute_, profiled_communication());
  return next_node_++;
}

// The step's own calls, from the streams' meeting at its beginning to that at its end.
bool InstanceCore::enqueue_calls() {
  next_node_ = 0;
  next_collective_ = 0;
  collective_ = 0;
  if (watched_ && layout_.collectives) watch_.comes_to(0, program_.communication_);
  if (profile_.on()) profile_.begin();
  const bool good =
      program_.step() && (!profile_.on() || profile_.end(program_.compute_, profiled_communication()));
  BRAID_STEPS_END(program_.plan_, program_.compute_, good);
  if (!good) return false;
  failure_.node = nullptr;
  BRAID_LABEL("");
  if (layout_.index_site_count > 0) {
    BRAID_TRY(cudaMemcpyAsync(host_flag_, program_.error_flag_, sizeof(int), cudaMemcpyDeviceToHost,
                              program_.compute_));
  }
  return true;
}

}  // namespace braid::rt::cuda
