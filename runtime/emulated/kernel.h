// The emulated device as a kernel sees it: CUDA's qualifiers, built-in variables, barriers, warp intrinsics
// and math functions. The threads of a block are fibers of one host thread.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/emulated/cuda_api.h"
#include "runtime/emulated/half_types.h"
#include "runtime/emulated/vector_types.h"

struct ncclComm;
struct ncclWindow_vidmem;

// In an instrumented unit the copying functions report their accesses themselves: GCC instruments loads and
// stores, not calls.
#if defined(__SANITIZE_THREAD__) && !defined(BRAID_EMULATED_LIBRARY)
extern "C" {
void* memcpy(void*, const void*, size_t) noexcept __asm__("braid_emulated_memcpy");
void* memmove(void*, const void*, size_t) noexcept __asm__("braid_emulated_memmove");
void* memset(void*, int, size_t) noexcept __asm__("braid_emulated_memset");
}
#endif

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__

namespace braid::emulated {

// The state of the CUDA thread that runs on this host thread; null outside kernels.
struct KernelThread {
  uint3 thread_index, block_index, block_size, grid_size;
};
extern __thread KernelThread* current_kernel_thread __attribute__((tls_model("initial-exec")));

// The parameters of a launch, copied when it is called.
struct LaunchParameters {
  const void* memory;
  size_t bytes;
  void (*call)(const void* memory);  // calls the kernel with them
  void (*destroy)(const void* memory);
};
// Destroys the parameters when no launch needs them any more, whether it succeeds or not.
cudaError_t launch_kernel(const char* name, const void* function, dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, LaunchParameters parameters);
void set_label(const char* label, int node);
void* static_shared(const void* site, const char* name, size_t size, size_t alignment);
void* dynamic_shared();
void* peer_pointer(ncclWindow_vidmem* window, size_t offset_bytes, int peer);
// Ranks of the communicator in this process, this one included: only their memory can be loaded and stored.
int reachable_peers(const ncclComm* comm);
// Whether kernels may read the window, or it is a local registration.
bool is_symmetric(const ncclWindow_vidmem* window);

// Among which threads fences and atomics order memory (flags.h).
enum class Scope { kBlock, kDevice, kSystem };
void fence(Scope scope);
// Returns what was there. A thread that finds the same wrong value again lets others run.
uint64_t compare_and_swap(void* address, size_t size, uint64_t compare, uint64_t value, Scope scope);
// The scope of the running thread's atomic accesses; the compiler's own ones have system scope.
extern __thread Scope atomic_scope __attribute__((tls_model("initial-exec")));
struct WithScope {
  explicit WithScope(Scope scope) { atomic_scope = scope; }
  ~WithScope() { atomic_scope = Scope::kSystem; }
};

// Where a barrier or warp operation stands in the source.
struct Place {
  const char* file = "";
  int line = 0;
};
constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}

enum class BarrierResult { kNone, kAnd, kOr, kCount };
// All threads of the block must reach the barrier at the same place.
int block_barrier(const char* what, Place place, BarrierResult result, int predicate);
void warp_barrier(unsigned mask);

// Gives `value` to the other lanes of `mask` and returns that of `source_lane`; all lanes of `mask` must call
// it at the same place. A source lane outside the mask is an error, as its value is undefined on a GPU.
uint64_t warp_exchange(const char* what, Place place, unsigned mask, uint64_t value, int source_lane);
// The same for an operation on all lanes of a full warp, each of which gives `bytes` at `value`, at most
// kLaneBytes. The last lane to arrive lets `combine` replace all of them, which lie one behind another, and
// each lane gets its own back.
constexpr size_t kLaneBytes = 64;
void warp_combine(const char* what, Place place, void* value, size_t bytes, void (*combine)(void* lanes));
unsigned warp_ballot(const char* what, Place place, unsigned mask, bool predicate);
int lane_of_warp();

// The twins of instructions for tensor cores (runtime/device/{mma,ldmatrix,async_copy}.h state what they do).
enum class MmaKind { kHalf, kHalfSums, kBfloat16, kTf32, kInt8, kInt8Uint8, kUint8Int8, kUint8 };
// A lane's registers: 4 of a, 2 of b, and 4 sums, 2 for kHalfSums, which are replaced.
void mma(Place place, MmaKind kind, const uint32_t* a, const uint32_t* b, void* sums);
// `row`: the 16 bytes of shared memory that the lane names, if it is below 8 * matrices.
void load_matrices(Place place, int matrices, bool transposed, const void* row, uint32_t* registers);
void store_matrices(Place place, int matrices, bool transposed, void* row, const uint32_t* registers);
// Copies the first `valid` of `bytes` bytes and fills the rest with zeros, once it has been waited for.
void copy_async(void* shared, const void* global, size_t bytes, size_t valid);
void commit_copies();
// Waits for all but the latest `pending` groups of the calling thread.
void wait_for_copies(unsigned pending);
// An access at a device or shared address that is no multiple of `alignment` is an error.
void check_alignment(const void* pointer, size_t alignment);
// The calling thread reads or writes the aligned `bytes` there with one instruction.
void begin_pack(const void* pointer, size_t bytes, bool write);
// The first lane of the calling lane's section of `width` lanes.
int section_start(const char* what, int width);

template <class T>
uint64_t to_bits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8,
                "warp operations take types of up to 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class Lane, void (*combine)(Lane* lanes)>
Lane warp_combine(const char* what, Place place, Lane lane) {
  static_assert(std::is_trivially_copyable_v<Lane> && sizeof(Lane) <= kLaneBytes && alignof(Lane) <= 16);
  warp_combine(what, place, &lane, sizeof lane, [](void* lanes) { combine(static_cast<Lane*>(lanes)); });
  return lane;
}

template <class T>
T exchange(const char* what, Place place, unsigned mask, T value, int source_lane) {
  return from_bits<T>(warp_exchange(what, place, mask, to_bits(value), source_lane));
}

}  // namespace braid::emulated

// Lets runtime headers write emulated:: within braid::rt.
namespace braid::rt {
namespace emulated = ::braid::emulated;
}

#define threadIdx (::braid::emulated::current_kernel_thread->thread_index)
#define blockIdx (::braid::emulated::current_kernel_thread->block_index)
#define blockDim (::braid::emulated::current_kernel_thread->block_size)
#define gridDim (::braid::emulated::current_kernel_thread->grid_size)
constexpr int warpSize = 32;

inline void __syncthreads(::braid::emulated::Place place = ::braid::emulated::here()) {
  ::braid::emulated::block_barrier("__syncthreads", place, ::braid::emulated::BarrierResult::kNone, 0);
}
inline int __syncthreads_and(int predicate, ::braid::emulated::Place place = ::braid::emulated::here()) {
  return ::braid::emulated::block_barrier("__syncthreads_and", place, ::braid::emulated::BarrierResult::kAnd,
                                          predicate);
}
inline int __syncthreads_or(int predicate, ::braid::emulated::Place place = ::braid::emulated::here()) {
  return ::braid::emulated::block_barrier("__syncthreads_or", place, ::braid::emulated::BarrierResult::kOr,
                                          predicate);
}
inline int __syncthreads_count(int predicate, ::braid::emulated::Place place = ::braid::emulated::here()) {
  return ::braid::emulated::block_barrier("__syncthreads_count", place,
                                          ::braid::emulated::BarrierResult::kCount, predicate);
}
[[noreturn]] inline void __trap() { __builtin_trap(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { ::braid::emulated::warp_barrier(mask); }
// The hardware decides which lanes run together: only the caller itself is certain, and a kernel that builds
// a mask from this is wrong.
inline unsigned __activemask() { return 1u << ::braid::emulated::lane_of_warp(); }
inline void __threadfence_block() { ::braid::emulated::fence(::braid::emulated::Scope::kBlock); }
inline void __threadfence() { ::braid::emulated::fence(::braid::emulated::Scope::kDevice); }
inline void __threadfence_system() { ::braid::emulated::fence(::braid::emulated::Scope::kSystem); }

// `width` divides the warp into sections, as on a GPU; for a source outside the section, a lane reads itself.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              ::braid::emulated::Place place = ::braid::emulated::here()) {
  const int start = ::braid::emulated::section_start("__shfl_sync", width);
  return ::braid::emulated::exchange("__shfl_sync", place, mask, value, start | (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  ::braid::emulated::Place place = ::braid::emulated::here()) {
  const int start = ::braid::emulated::section_start("__shfl_xor_sync", width);
  const int lane = ::braid::emulated::lane_of_warp();
  const int source = lane ^ lane_mask;
  return ::braid::emulated::exchange("__shfl_xor_sync", place, mask, value,
                                     source < start + width ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 ::braid::emulated::Place place = ::braid::emulated::here()) {
  const int start = ::braid::emulated::section_start("__shfl_up_sync", width);
  const int lane = ::braid::emulated::lane_of_warp();
  const int source = lane - static_cast<int>(delta);
  return ::braid::emulated::exchange("__shfl_up_sync", place, mask, value, source >= start ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   ::braid::emulated::Place place = ::braid::emulated::here()) {
  const int start = ::braid::emulated::section_start("__shfl_down_sync", width);
  const int lane = ::braid::emulated::lane_of_warp();
  const int source = lane + static_cast<int>(delta);
  return ::braid::emulated::exchange("__shfl_down_sync", place, mask, value,
                                     source < start + width ? source : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              ::braid::emulated::Place place = ::braid::emulated::here()) {
  return ::braid::emulated::warp_ballot("__ballot_sync", place, mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate,
                      ::braid::emulated::Place place = ::braid::emulated::here()) {
  return ::braid::emulated::warp_ballot("__any_sync", place, mask, predicate != 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      ::braid::emulated::Place place = ::braid::emulated::here()) {
  return ::braid::emulated::warp_ballot("__all_sync", place, mask, predicate != 0) == mask;
}

// Real atomics: the fibers of a block run on one host thread, but other streams run concurrently.
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value,
            ::braid::emulated::Scope scope = ::braid::emulated::Scope::kDevice) {
  const ::braid::emulated::WithScope with(scope);
  if constexpr (std::is_integral_v<T>) {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
  } else {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    Bits* bits = reinterpret_cast<Bits*>(address);
    Bits old = __atomic_load_n(bits, __ATOMIC_RELAXED);
    for (;;) {
      const T sum = std::bit_cast<T>(old) + value;
      if (__atomic_compare_exchange_n(bits, &old, std::bit_cast<Bits>(sum), false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
        return std::bit_cast<T>(old);
    }
  }
}
template <class T>
T atomicAdd_system(T* address, std::type_identity_t<T> value) {
  return atomicAdd(address, value, ::braid::emulated::Scope::kSystem);
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  const ::braid::emulated::WithScope with(::braid::emulated::Scope::kDevice);
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (old < value &&
         !__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  const ::braid::emulated::WithScope with(::braid::emulated::Scope::kDevice);
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (value < old &&
         !__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

template <class T>
T atomicExch(T* address, std::type_identity_t<T> value,
             ::braid::emulated::Scope scope = ::braid::emulated::Scope::kDevice) {
  const ::braid::emulated::WithScope with(scope);
  return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicExch_system(T* address, std::type_identity_t<T> value) {
  return atomicExch(address, value, ::braid::emulated::Scope::kSystem);
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value,
            ::braid::emulated::Scope scope = ::braid::emulated::Scope::kDevice) {
  return static_cast<T>(::braid::emulated::compare_and_swap(
      address, sizeof(T), std::make_unsigned_t<T>(compare), std::make_unsigned_t<T>(value), scope));
}
template <class T>
T atomicCAS_system(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return atomicCAS(address, compare, value, ::braid::emulated::Scope::kSystem);
}

template <class T>
T __ldg(const T* address) {
  return *address;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }
inline long min(long a, long b) { return a < b ? a : b; }
inline long max(long a, long b) { return a > b ? a : b; }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
