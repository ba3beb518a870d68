// Numbers of the user errors of `braid check` (docs/errors.md).
#pragma once

namespace braid::check {

inline constexpr int kRanksDisagree = 900;
inline constexpr int kDeadlock = 901;
inline constexpr int kNotOneProgram = 902;

}  // namespace braid::check
