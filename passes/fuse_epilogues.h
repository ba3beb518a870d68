// Moves elementwise loops after a GEMM into its epilogue: bias, activation, residual, cast.
//
//   before                                         after
//     t = gemm a, b                                  y = gemm a, b epilogue { relu(acc + bias[i1]) }
//     y = loops { relu(t[i0, i1] + bias[i1]) }
//
// Contract
//   1. The loop is the only one that touches the GEMM's result, and the result is no graph output.
//   2. The loop visits each element of the result once, in order, though perhaps in another factorisation
//      ([B, S, N] over [B*S, N]). It reads the result only at its own index, and its store is linear in the
//      GEMM's indices.
//   3. The result is rounded to the type that it had in memory: values stay bitwise as they were.
//   4. Other loads of the loop become loads of the epilogue, so their sources must exist when the fused GEMM
//      runs: either the loop moves up to the GEMM or the GEMM down to the loop. Nothing is fused if neither
//      can move, or if the GEMM would move past the wait of a collective that it could hide (`keep_overlap`).
//   5. The fused GEMM writes nothing that it reads.
// Chains are followed: each loop after the first is fused in turn.
#pragma once

#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct FuseEpilogues {
  static constexpr std::string_view kName = "fuse_epilogues";
  static constexpr std::string_view kDescription = "moves elementwise loops after a GEMM into its epilogue";

  bool keep_overlap = true;

  static std::vector<PassOption<FuseEpilogues>> options() {
    return {
        {"keep_overlap", &FuseEpilogues::keep_overlap, "never move a GEMM behind the wait of a collective"}};
  }
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
