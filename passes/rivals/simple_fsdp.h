// A rival to compare with: the automatic wrapping of SimpleFSDP (arXiv 2411.00284), with greedy buckets, one
// of which is prefetched.
//
//   1. all-gathers, and reduce-scatters, in order: a bucket grows while its collective takes no longer than
//      the compute that will hide it (the compute between the previous bucket and this one) and the gathered
//      bytes stay within `memory_mb` (and the cap); each bucket has at least one collective
//   2. the gather of bucket i+1 starts after the wait for bucket i, before the compute that uses bucket i
//   3. the wait of a reduce-scatter stands before the next start of one, the last at the end
//
// Other collectives stay where they are. In a program with sends and receives all keep their order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct SimpleFsdp {
  static constexpr std::string_view kName = "simple_fsdp";
  static constexpr std::string_view kDescription =
      "rival: greedy buckets of FSDP collectives, one prefetched";
  static constexpr bool kMayReorderCollectives = true;

  double memory_mb = 4000;  // 1e6 bytes per bucket

  static std::vector<PassOption<SimpleFsdp>> options() {
    return {{"memory_mb", &SimpleFsdp::memory_mb, "maximum bytes of one bucket, MB"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
