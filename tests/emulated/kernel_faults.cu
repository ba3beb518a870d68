// Kernels that touch the host's memory, fault, or never end.
#undef NDEBUG  // one of them asserts
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "runtime/cuda_program.h"
#include "tests/emulated/block_faults.h"
#include "tests/emulated/check.h"

namespace {

float host_variable[64] = {1.0f};
int host_counter = 0;
const float kTable[64] = {1.0f, 2.0f, 3.0f};
const int* const kPointers[] = {&host_counter, nullptr};

// The compiler does not know what it is.
template <class T>
__device__ T hidden(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

// ---- the host's memory

__global__ void read_kernel(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void write_kernel(float* in) { in[threadIdx.x] = 1.0f; }
__global__ void add_kernel(int* counter) { atomicAdd(counter, 1); }
__global__ void swap_kernel(int* counter) { atomicCAS(counter, 0, 1); }
__global__ void read_vectors_kernel(const float* in, float* out) {
  out[threadIdx.x] = reinterpret_cast<const float4*>(in)[threadIdx.x].x;
}
__global__ void memcpy_kernel(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, hidden(bytes));
}
__global__ void memset_kernel(void* to, size_t bytes) { std::memset(to, 0, hidden(bytes)); }
struct Views {
  const float* in;
  float* out;
  int64_t strides[6];
};
__global__ void views_kernel(Views views) {
  views.out[threadIdx.x] = views.in[threadIdx.x * static_cast<size_t>(views.strides[threadIdx.x % 6])];
}
__global__ void read_variable_kernel(float* out) { out[threadIdx.x] = host_variable[threadIdx.x]; }
__global__ void write_variable_kernel() { host_variable[threadIdx.x] = 2.0f; }
__global__ void count_variable_kernel() { ++host_counter; }
__global__ void write_constant_kernel() { const_cast<float*>(hidden(kTable))[threadIdx.x] = 1.0f; }
__global__ void through_constant_kernel(float* out) {
  out[threadIdx.x] = static_cast<float>(*hidden(kPointers)[0]);
}
__global__ void others_local_kernel(float* out) {
  BRAID_SHARED(float*, shared, 1);
  float mine[4] = {1.0f, 2.0f, 3.0f, 4.0f};
  if (threadIdx.x == 0) shared[0] = hidden(&mine[0]);
  __syncthreads();
  out[threadIdx.x] = shared[0][threadIdx.x % 4];
  __syncthreads();
}

// ---- what is not the host's

__global__ void constants_kernel(float* out) { out[threadIdx.x] = hidden(kTable)[threadIdx.x]; }
__global__ void local_static_kernel(float* out) {
  static const float kLocal[] = {1.0f, 2.0f, 3.0f, 4.0f};
  out[threadIdx.x] = hidden(kLocal)[threadIdx.x % 4];
}
__device__ void fill(float* row, int n) {
  for (int i = 0; i < n; ++i) row[i] = static_cast<float>(i);
}
__global__ void local_kernel(float* out) {
  float row[256];
  fill(hidden(&row[0]), 256);
  out[threadIdx.x] = row[threadIdx.x];
}
__device__ __attribute__((noinline)) int nested(int depth) {
  volatile int local[16] = {depth};
  return depth == 0 ? local[0] : nested(depth - 1) + local[0];
}
__global__ void nested_kernel(float* out, int depth) {
  out[threadIdx.x] = static_cast<float>(nested(hidden(depth)));
}

// ---- no memory at all

struct Node {
  float pad[5];
  float value;
};
__global__ void null_member_kernel(const Node* node, float* out) { out[threadIdx.x] = node->value; }
__global__ void call_kernel(void (*function)(float*), float* out) { function(out); }

// ---- faults

__global__ void trap_kernel(float* out) {
  if (threadIdx.x == 3) __trap();
  out[threadIdx.x] = 1.0f;
}
__global__ void builtin_trap_kernel(float* out) {
  if (out[0] == 0.0f) __builtin_trap();
}
__global__ void assert_kernel(float* out) { assert(out[0] != 0.0f); }
__global__ void abort_kernel(const float* in) {
  if (in[0] == 0.0f) std::abort();
}
__global__ void throw_kernel(const float* in) {
  if (in[0] == 0.0f) throw std::runtime_error("in a kernel");
}
__global__ void divide_kernel(float* out, int by) { out[threadIdx.x] = static_cast<float>(100 / hidden(by)); }
__global__ void remainder_kernel(float* out, int64_t by) {
  out[threadIdx.x] = static_cast<float>(100 % hidden(by));
}
__global__ void large_local_kernel(float* out) {
  volatile float row[40000];
  for (int i = 0; i < 40000; i += 100) row[i] = 1.0f;
  out[threadIdx.x] = row[threadIdx.x];
}

// ---- kernels that do not end

__global__ void idle_kernel() {
  for (;;) asm volatile("");
}
__global__ void only_one_kernel(float* out) {
  out[threadIdx.x] = 1.0f;
  if (threadIdx.x == 5) {
    for (;;) asm volatile("");
  }
}
__global__ void read_for_ever_kernel(float* out) {
  const volatile float* flag = out;
  while (flag[0] == 0.0f) {
  }
}
__global__ void count_for_ever_kernel(int* counter) {
  while (atomicAdd(counter, 1) >= 0 || hidden(true)) {
  }
}
__global__ void compute_for_ever_kernel(float* out) {
  float x = out[0];
  while (x < 2.0f) x = std::sin(hidden(x));
  out[0] = x;
}
__global__ void shared_flag_kernel(float* out) {
  BRAID_SHARED(int, ready, 1);
  if (threadIdx.x == 0) ready[0] = 0;
  __syncthreads();
  while (*static_cast<volatile int*>(&ready[0]) == 0) {
  }
  out[threadIdx.x] = 1.0f;
}
__global__ void barriers_for_ever_kernel() {
  for (;;) __syncthreads();
}
__global__ void shuffles_for_ever_kernel(float* out) {
  for (float x = 1.0f; hidden(x) != 0.0f; x = __shfl_xor_sync(0xffffffffu, x, 1)) out[threadIdx.x] = x;
}
__global__ void wrong_step_kernel(float* out, int n, int step) {
  for (int i = 0; i < n; i += step) out[i] = 1.0f;
}
__global__ void one_waits_kernel(float* out) {
  if (threadIdx.x == 0) {
    const volatile float* flag = out;
    while (flag[0] == 0.0f) {
    }
  }
  __syncthreads();
  out[threadIdx.x] = 1.0f;
}

const char* kIllegal = "illegal access";
const char* kFault = "kernel fault";
const char* kEndless = "kernel time-out";
const char* const kHost = "host memory in a kernel: ";
const char* const kFirst = "thread (0,0,0) of block (0,0,0): ";

template <class... Parameters, class... Arguments>
const char* go(const char* name, void (*kernel)(Parameters...), unsigned threads, void* stream,
               Arguments... arguments) {
  BRAID_LABEL("node");
  const cudaError_t error =
      braid::rt::cuda::launch(name, kernel, 1, threads, 0, static_cast<cudaStream_t>(stream), arguments...);
  // The memory that the kernel gets a pointer to may be the caller's.
  const cudaError_t ended = cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
  return error != cudaSuccess   ? cudaGetErrorName(error)
         : ended != cudaSuccess ? cudaGetErrorName(ended)
                                : nullptr;
}

#define KERNEL(kernel, threads, ...)                                        \
  [](float* memory, void* stream) {                                         \
    (void)memory;                                                           \
    return go(#kernel, kernel, threads, stream __VA_OPT__(, ) __VA_ARGS__); \
  }
// With `heap`, 64 floats of it, and `local`, as many of the host's stack.
#define KERNEL_AND_HOST(kernel, threads, ...)                               \
  [](float* memory, void* stream) {                                         \
    (void)memory;                                                           \
    const auto heap = std::make_unique<float[]>(64);                        \
    float local[64] = {};                                                   \
    (void)local;                                                            \
    return go(#kernel, kernel, threads, stream __VA_OPT__(, ) __VA_ARGS__); \
  }

template <class T = float>
T* at(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace

const std::vector<BlockFault>& kernel_faults() {
  static const std::vector<BlockFault> faults = {
      {"reads the heap", KERNEL_AND_HOST(read_kernel, 64, heap.get(), memory), kIllegal,
       "thread (0,0,0) of block (0,0,0): host memory in a kernel: read of 4 bytes"},
      {"writes the heap", KERNEL_AND_HOST(write_kernel, 64, heap.get()), kIllegal,
       "host memory in a kernel: write of 4 bytes"},
      {"reads the host's stack", KERNEL_AND_HOST(read_kernel, 64, &local[0], memory), kIllegal,
       "host memory in a kernel: read of 4 bytes"},
      {"writes the host's stack", KERNEL_AND_HOST(write_kernel, 64, &local[0]), kIllegal,
       "host memory in a kernel: write of 4 bytes"},
      {"adds to the heap", KERNEL_AND_HOST(add_kernel, 1, reinterpret_cast<int*>(heap.get())), kIllegal,
       "host memory in a kernel: atomic access of 4 bytes"},
      {"swaps on the host's stack", KERNEL_AND_HOST(swap_kernel, 1, reinterpret_cast<int*>(local)), kIllegal,
       "host memory in a kernel: atomic access of 4 bytes"},
      {"reads vectors of the heap", KERNEL_AND_HOST(read_vectors_kernel, 8, heap.get(), memory), kIllegal,
       kHost},
      {"copies from the heap", KERNEL_AND_HOST(memcpy_kernel, 1, memory, heap.get(), size_t{256}), kIllegal,
       "host memory in a kernel: read of 256 bytes"},
      {"copies to the host's stack", KERNEL_AND_HOST(memcpy_kernel, 1, &local[0], memory, size_t{256}),
       kIllegal, "host memory in a kernel: write of 256 bytes"},
      {"clears the heap", KERNEL_AND_HOST(memset_kernel, 1, heap.get(), size_t{256}), kIllegal,
       "host memory in a kernel: write of 256 bytes"},
      {"gets a pointer within a struct",
       KERNEL_AND_HOST(views_kernel, 64, Views{heap.get(), memory, {1, 1, 1, 1, 1, 1}}), kIllegal, kHost},
      {"reads a variable of the host", KERNEL(read_variable_kernel, 64, memory), kIllegal,
       "host memory in a kernel: read of 4 bytes of a variable of host code"},
      {"writes a variable of the host", KERNEL(write_variable_kernel, 64), kIllegal,
       "host memory in a kernel: write of 4 bytes of a variable of host code"},
      {"counts in a variable of the host", KERNEL(count_variable_kernel, 64), kIllegal,
       "of a variable of host code"},
      {"reads a variable through a constant", KERNEL(through_constant_kernel, 64, memory), kIllegal,
       "of a variable of host code"},
      {"writes a constant", KERNEL(write_constant_kernel, 64), kIllegal,
       "write of 4 bytes of a constant of the program"},
      {"reads another thread's local memory", KERNEL(others_local_kernel, 64, memory), kIllegal,
       "read of 4 bytes of another thread's local memory"},
      {"reads through a null pointer", KERNEL(read_kernel, 64, at(0), memory), kIllegal,
       "thread (0,0,0) of block (0,0,0): read of 4 bytes through a null pointer"},
      {"writes through a null pointer", KERNEL(write_kernel, 64, at(0)), kIllegal,
       "write of 4 bytes through a null pointer"},
      {"adds through a null pointer", KERNEL(add_kernel, 1, at<int>(0)), kIllegal,
       "atomic access of 4 bytes through a null pointer"},
      {"reads a member of nothing", KERNEL(null_member_kernel, 1, at<const Node>(0), memory), kIllegal,
       "read of 4 bytes through a null pointer, 20 bytes behind it"},
      {"copies through a null pointer", KERNEL(memcpy_kernel, 1, memory, at(0), size_t{64}), kIllegal,
       "read of 64 bytes through a null pointer"},
      {"reads where there is no memory", KERNEL(read_kernel, 64, at(uintptr_t{1} << 45), memory), kIllegal,
       "read of 4 bytes at an address at which there is no memory"},
      {"writes at an address that none can have", KERNEL(write_kernel, 64, at(uintptr_t{1} << 62)), kIllegal,
       "write of 4 bytes at an address at which there is no memory"},
      {"calls a null function", KERNEL(call_kernel, 1, static_cast<void (*)(float*)>(nullptr), memory),
       kIllegal, "thread (0,0,0) of block (0,0,0): a call of what is no function"},

      {"traps", KERNEL(trap_kernel, 64, memory), kFault, "thread (3,0,0) of block (0,0,0): a trap"},
      {"reaches what the compiler takes for unreachable", KERNEL(builtin_trap_kernel, 1, memory), kFault,
       "thread (0,0,0) of block (0,0,0): a trap"},
      {"asserts", KERNEL(assert_kernel, 1, memory), kFault, "an assertion that does not hold"},
      {"aborts", KERNEL(abort_kernel, 1, memory), kFault, "thread (0,0,0) of block (0,0,0): abort"},
      {"throws", KERNEL(throw_kernel, 1, memory), kFault,
       "thread (0,0,0) of block (0,0,0): an exception leaves the kernel"},
      {"divides by zero", KERNEL(divide_kernel, 64, memory, 0), kFault, "an integer is divided by zero"},
      {"takes a remainder of zero", KERNEL(remainder_kernel, 64, memory, int64_t{0}), kFault,
       "an integer is divided by zero"},
      {"nests too deeply", KERNEL(nested_kernel, 64, memory, 1000000), kFault, "the stack overflows"},
      {"has too many local variables", KERNEL(large_local_kernel, 1, memory), kFault, "the stack overflows"},

      {"does nothing for ever", KERNEL(idle_kernel, 64), kEndless,
       "thread (0,0,0) of block (0,0,0): the kernel does not end: the thread has taken 100 ms"},
      {"one thread does nothing for ever", KERNEL(only_one_kernel, 64, memory), kEndless,
       "thread (5,0,0) of block (0,0,0): the kernel does not end"},
      {"reads a flag for ever", KERNEL(read_for_ever_kernel, 1, memory), kEndless, kFirst},
      {"adds for ever", KERNEL(count_for_ever_kernel, 1, reinterpret_cast<int*>(memory)), kEndless, kFirst},
      {"computes for ever", KERNEL(compute_for_ever_kernel, 1, memory), kEndless, kFirst},
      {"waits for a flag in shared memory", KERNEL(shared_flag_kernel, 64, memory), kEndless,
       "thread (63,0,0) of block (0,0,0): the kernel does not end"},
      {"meets for ever", KERNEL(barriers_for_ever_kernel, 64), kEndless,
       "thread (0,0,0) of block (0,0,0): the kernel does not end: the threads of the block have taken 150 "
       "ms"},
      {"shuffles for ever", KERNEL(shuffles_for_ever_kernel, 32, memory), kEndless, kFirst},
      {"a loop whose step is 0", KERNEL(wrong_step_kernel, 1, memory, 64, 0), kEndless, kFirst},
      {"one thread waits for a flag, the others at a barrier", KERNEL(one_waits_kernel, 64, memory), kEndless,
       kFirst},

      {"reads constants", KERNEL(constants_kernel, 64, memory), nullptr, ""},
      {"reads constants of a function", KERNEL(local_static_kernel, 64, memory), nullptr, ""},
      {"has local arrays", KERNEL(local_kernel, 64, memory), nullptr, ""},
      {"has parameters that are structs",
       KERNEL(views_kernel, 64, Views{memory, memory + 64, {1, 1, 1, 1, 1, 1}}), nullptr, ""},
      {"nests", KERNEL(nested_kernel, 64, memory, 100), nullptr, ""},
  };
  return faults;
}
