// The only way to launch a kernel, and the label that names the ONNX node of the next calls.
//
//   BRAID_LABEL("decoder.0.mlp.gelu (Gelu)");
//   cudaError_t error = BRAID_LAUNCH(gelu_kernel, grid, block, shared_bytes, stream, x, y, n);
//
// Arguments are converted to the kernel's parameter types and copied at the call. A kernel template needs
// parentheses: BRAID_LAUNCH((copy_kernel<float, 4>), ...).
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#ifdef BRAID_EMULATED_DEVICE
#include "runtime/emulated/launch_result.h"
#include "runtime/emulated/step_scope.h"
#endif

namespace braid::rt::cuda {

// Returns the bytes of a kernel's parameters, each at its alignment. CUDA 12.1 and later pass up to 32,764 on
// every device that Braid supports.
template <class... Parameters>
constexpr size_t parameter_bytes() {
  size_t bytes = 0;
  ((bytes =
        (bytes + alignof(Parameters) - 1) / alignof(Parameters) * alignof(Parameters) + sizeof(Parameters)),
   ...);
  return bytes;
}
constexpr size_t kMaxParameterBytes = 32764;

// How many kernels, products and groups of collectives this thread has launched: for profiles.
inline int64_t& launches_of_thread() {
  thread_local int64_t count = 0;
  return count;
}

#ifdef BRAID_EMULATED_DEVICE

template <class... Parameters, class... Arguments>
emulated::LaunchResult launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                              size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "as many arguments as the kernel has parameters");
  static_assert(parameter_bytes<Parameters...>() <= kMaxParameterBytes, "too many parameters for a kernel");
  ++launches_of_thread();
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> parameters;
  };
  const auto call = [](const void* memory) {
    const Call& made = *static_cast<const Call*>(memory);
    std::apply(made.kernel, made.parameters);
  };
  const auto destroy = [](const void* memory) { delete static_cast<const Call*>(memory); };
  const auto* const made = new Call{kernel, std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)};
  return {name, emulated::launch_kernel(name, reinterpret_cast<const void*>(kernel), grid, block,
                                        shared_bytes, stream, {made, sizeof(Call), call, destroy})};
}

// Names the ONNX node (or other origin) of this thread's next launches, copies and collectives.
// `node`: where a program's table has it.
inline void set_label(const char* label, int node = -1) { emulated::set_label(label, node); }
using emulated::StepScope;

#else

template <class... Parameters, class... Arguments>
cudaError_t launch(const char*, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "as many arguments as the kernel has parameters");
  static_assert(parameter_bytes<Parameters...>() <= kMaxParameterBytes, "too many parameters for a kernel");
  ++launches_of_thread();
  std::tuple<Parameters...> parameters(std::forward<Arguments>(arguments)...);
  return std::apply(
      [&](auto&... each) {
        void* pointers[sizeof...(Parameters) + 1] = {
            const_cast<void*>(static_cast<const volatile void*>(&each))..., nullptr};
        return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared_bytes,
                                stream);
      },
      parameters);
}

inline void set_label(const char*, int = -1) {}

// From its construction to done() a step is enqueued, before and after other work of the stream; see
// runtime/emulated/step_scope.h.
struct StepScope {
  explicit StepScope(cudaStream_t) {}
  void done() {}
};

#endif

}  // namespace braid::rt::cuda

#define BRAID_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  ::braid::rt::cuda::launch(#kernel, kernel, grid, block, shared_bytes, stream __VA_OPT__(, ) __VA_ARGS__)
#define BRAID_LABEL(label) ::braid::rt::cuda::set_label(label)
