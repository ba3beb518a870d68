// Numbers of the user errors of kernel selection (docs/errors.md).
#pragma once

namespace braid::passes {

inline constexpr int kBadKernelOption = 585;
inline constexpr int kBadForcedKernel = 586;
inline constexpr int kNoSuchCollective = 587;
inline constexpr int kNoSuchKernel = 588;

}  // namespace braid::passes
