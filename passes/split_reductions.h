// Splits reductions with few results into parts, and combines those in a fixed order.
//
//   before                                          after
//     s: f16[1024] = reduction sum x[1024*i1 + i0]    t: f32[64, 1024] = reduction sum
//                                                                          x[1024*(512*i0 + i2) + i1]
//                                                     u: f32[1024] = reduction sum t[1024*i1 + i0]
//                                                     s: f16[1024] = pointwise f16(u[i0])
//
// Why: a kernel has a block for each row, or a few threads for each pack of columns. With few results most of
// a GPU is idle.
//
// Contract
//   1. Only reductions outside of regions. Sums and products of f16 and bf16 are combined in f32 and rounded
//      once; parts of other types keep their type. Sums change only their order of additions.
//   2. P results fold R elements each and load b bytes per element. A kernel runs
//
//        t = P min(512, R/p)     threads if most of b is contiguous along the last folded dimension,
//        t = P/p min(8, R)       if it is along the last kept one,
//
//      for packs of p elements. T = `threads` per multiprocessor fill the machine of bandwidth W, whose
//      launches take L. The number of parts S is the power of 2 with 2/3 T/t < S <= 4/3 T/t, reduced so that
//      no part has fewer than `least` elements per thread. A reduction is split if
//
//        P R b / W (T/t - 1)  >  5 L + 2 P S a / W,
//
//      for results of a bytes and at the upper bounds of all dimensions.
//   3. Parts are consecutive elements: each index of the outermost folded dimensions is a part, and the next
//      dimension is cut. If its size does not divide, columns compare each index with the size. Rows get one
//      more part with the rest, because a comparison would break up their packs.
// Runs after choose_layouts and before all passes that fuse.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct SplitReductions {
  static constexpr std::string_view kName = "split_reductions";
  static constexpr std::string_view kDescription = "splits reductions with few results into parts";

  std::int64_t threads = 512;  // of a multiprocessor, with some packs each in flight
  std::int64_t least = 32;

  static std::vector<PassOption<SplitReductions>> options() {
    return {{"threads", &SplitReductions::threads, "of a multiprocessor that reductions shall have"},
            {"least", &SplitReductions::least, "elements per thread of a part"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context) const;
};

}  // namespace braid::passes
