// Compares what the emulated device declares of CUDA and NCCL with the real headers, while compiling. There
// is nothing to run.
#include <cuda_runtime_api.h>
#include <vector_functions.h>
// The C++ overloads of cuda_runtime.h, which nccl.h includes, would hide the functions' own signatures.
#define __CUDA_RUNTIME_H__
#include <nccl.h>

#include <climits>
#include <cstddef>
#include <iterator>
#include <type_traits>

// The macros that both sides define are compared by their values below; here they would be redefined.
namespace real_values {
constexpr int kMacros[] = {
    cudaHostAllocDefault,    cudaHostAllocPortable,       cudaHostAllocMapped,     cudaHostAllocWriteCombined,
    cudaStreamDefault,       cudaStreamNonBlocking,       cudaEventDefault,        cudaEventBlockingSync,
    cudaEventDisableTiming,  cudaEventInterprocess,       cudaEventRecordDefault,  cudaEventWaitDefault,
    NCCL_UNIQUE_ID_BYTES,    NCCL_CONFIG_UNDEF_INT,       NCCL_SPLIT_NOCOLOR,      NCCL_WIN_DEFAULT,
    NCCL_WIN_COLL_SYMMETRIC, NCCL_WIN_REQUIRED_ALIGNMENT, NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_EFFICIENCY,
    NCCL_CTA_POLICY_ZERO,    NCCL_REVOKE_DEFAULT};
constexpr int kVersion = NCCL_VERSION_CODE;
constexpr int kNextVersion = NCCL_VERSION(2, 30, 7);
constexpr ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
}  // namespace real_values

#undef cudaHostAllocDefault
#undef cudaHostAllocPortable
#undef cudaHostAllocMapped
#undef cudaHostAllocWriteCombined
#undef cudaStreamDefault
#undef cudaStreamNonBlocking
#undef cudaEventDefault
#undef cudaEventBlockingSync
#undef cudaEventDisableTiming
#undef cudaEventInterprocess
#undef cudaEventRecordDefault
#undef cudaEventWaitDefault
#undef NCCL_MAJOR
#undef NCCL_MINOR
#undef NCCL_PATCH
#undef NCCL_VERSION
#undef NCCL_VERSION_CODE
#undef NCCL_COMM_NULL
#undef NCCL_UNIQUE_ID_BYTES
#undef NCCL_CONFIG_UNDEF_INT
#undef NCCL_CONFIG_UNDEF_PTR
#undef NCCL_SPLIT_NOCOLOR
#undef NCCL_WIN_DEFAULT
#undef NCCL_WIN_COLL_SYMMETRIC
#undef NCCL_WIN_REQUIRED_ALIGNMENT
#undef NCCL_CTA_POLICY_DEFAULT
#undef NCCL_CTA_POLICY_EFFICIENCY
#undef NCCL_CTA_POLICY_ZERO
#undef NCCL_REVOKE_DEFAULT
#undef NCCL_CONFIG_INITIALIZER

namespace emulated {
#define BRAID_EMULATED_API
#include "runtime/emulated/cuda_declarations.inc"
#include "runtime/emulated/nccl_declarations.inc"

constexpr int kMacros[] = {
    cudaHostAllocDefault,    cudaHostAllocPortable,       cudaHostAllocMapped,     cudaHostAllocWriteCombined,
    cudaStreamDefault,       cudaStreamNonBlocking,       cudaEventDefault,        cudaEventBlockingSync,
    cudaEventDisableTiming,  cudaEventInterprocess,       cudaEventRecordDefault,  cudaEventWaitDefault,
    NCCL_UNIQUE_ID_BYTES,    NCCL_CONFIG_UNDEF_INT,       NCCL_SPLIT_NOCOLOR,      NCCL_WIN_DEFAULT,
    NCCL_WIN_COLL_SYMMETRIC, NCCL_WIN_REQUIRED_ALIGNMENT, NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_EFFICIENCY,
    NCCL_CTA_POLICY_ZERO,    NCCL_REVOKE_DEFAULT};
constexpr ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
}  // namespace emulated

namespace {

constexpr bool same_macros() {
  for (size_t i = 0; i < std::size(real_values::kMacros); ++i)
    if (real_values::kMacros[i] != emulated::kMacros[i]) return false;
  return std::size(real_values::kMacros) == std::size(emulated::kMacros);
}
static_assert(same_macros());
static_assert(NCCL_VERSION(2, 30, 7) == real_values::kNextVersion);
static_assert(NCCL_VERSION_CODE == real_values::kVersion,
              "the emulated device stands for another version of NCCL: compare the declarations");

// The same type, up to names: enumerations by their width, classes by size, pointers and functions by their
// parts.
template <class A, class B>
constexpr bool same_shape() {
  if constexpr (std::is_same_v<A, B>) {
    return true;
  } else if constexpr (std::is_enum_v<A> && std::is_enum_v<B>) {
    return std::is_same_v<std::underlying_type_t<A>, std::underlying_type_t<B>>;
  } else if constexpr (std::is_const_v<A> || std::is_const_v<B>) {
    return std::is_const_v<A> && std::is_const_v<B> &&
           same_shape<std::remove_const_t<A>, std::remove_const_t<B>>();
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    return same_shape<std::remove_pointer_t<A>, std::remove_pointer_t<B>>();
  } else {
    return std::is_class_v<A> && std::is_class_v<B>;  // complete ones are compared by member below
  }
}
template <class A, class B>
struct SameFunction {
  static constexpr bool value = same_shape<A, B>();
};
template <class R, class... P, class S, class... Q>
struct SameFunction<R (*)(P...), S (*)(Q...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(P) != sizeof...(Q))
      return false;
    else
      return same_shape<R, S>() && (same_shape<P, Q>() && ...);
  }();
};
template <class R, class... P, class S, class... Q>
struct SameFunction<R (*)(P...) noexcept, S (*)(Q...)> : SameFunction<R (*)(P...), S (*)(Q...)> {};

#define SAME(name)                                                                 \
  static_assert(SameFunction<decltype(&::name), decltype(&emulated::name)>::value, \
                #name " has another signature")
#define SAME_VALUE(name) static_assert(static_cast<long>(::name) == static_cast<long>(emulated::name), #name)
#define SAME_MEMBER(type, member)                                                                 \
  static_assert(offsetof(::type, member) == offsetof(emulated::type, member), #type "." #member); \
  static_assert(same_shape<decltype(::type::member), decltype(emulated::type::member)>())

// CMakeLists.txt makes it from the declarations: SAME and SAME_VALUE, a line for each name.
#include "api_names.inc"

static_assert(sizeof(::cudaPointerAttributes) == sizeof(emulated::cudaPointerAttributes));
SAME_MEMBER(cudaPointerAttributes, type);
SAME_MEMBER(cudaPointerAttributes, device);
SAME_MEMBER(cudaPointerAttributes, devicePointer);
SAME_MEMBER(cudaPointerAttributes, hostPointer);
static_assert(sizeof(::ncclUniqueId) == sizeof(emulated::ncclUniqueId));
static_assert(sizeof(::ncclConfig_t) == sizeof(emulated::ncclConfig_t));
static_assert(sizeof(::ncclRedOp_t) == sizeof(emulated::ncclRedOp_t));
static_assert(real_values::kConfig.magic == emulated::kConfig.magic);
static_assert(real_values::kConfig.version == emulated::kConfig.version);
static_assert(real_values::kConfig.nvlinkCentricSched == emulated::kConfig.nvlinkCentricSched);
SAME_MEMBER(ncclConfig_t, size);
SAME_MEMBER(ncclConfig_t, magic);
SAME_MEMBER(ncclConfig_t, version);
SAME_MEMBER(ncclConfig_t, blocking);
SAME_MEMBER(ncclConfig_t, cgaClusterSize);
SAME_MEMBER(ncclConfig_t, minCTAs);
SAME_MEMBER(ncclConfig_t, maxCTAs);
SAME_MEMBER(ncclConfig_t, netName);
SAME_MEMBER(ncclConfig_t, splitShare);
SAME_MEMBER(ncclConfig_t, trafficClass);
SAME_MEMBER(ncclConfig_t, commName);
SAME_MEMBER(ncclConfig_t, collnetEnable);
SAME_MEMBER(ncclConfig_t, CTAPolicy);
SAME_MEMBER(ncclConfig_t, shrinkShare);
SAME_MEMBER(ncclConfig_t, nvlsCTAs);
SAME_MEMBER(ncclConfig_t, nChannelsPerNetPeer);
SAME_MEMBER(ncclConfig_t, nvlinkCentricSched);

}  // namespace
