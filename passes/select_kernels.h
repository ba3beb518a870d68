// Chooses the kernel of every collective without one.
//
//   before                                 after
//     %r = all_reduce sum @g (%x) as ar      %r = all_reduce sum @g (%x) algorithm one_shot as ar
//
// Contract
//   1. Only a kernel that the engine of the target executes is written down (passes/kernel_choice.h). If
//      there is only one, or the decision needs run-time information, nothing is written and the engine
//      chooses.
//   2. The choice is a pure function of graph, machine and options: all ranks decide in the same way.
//   3. Sizes with bounds: the choice holds at the smallest and at the largest size and, as the engine's
//      kernels cost latency + bytes / bandwidth, for all between. If the ends differ, the engine chooses.
//   4. Choices of the program and of --force-kernel stay.
//   5. Order stays. With blocking_below_us, a collective whose time is below that becomes a blocking one
//      (passes/make_blocking.h): hiding it would gain less than its start and wait cost.
//   6. The context gets every choice with its reason and the estimates of its rivals (kernel_choices).
//
// Policies
//   cost      the cheapest on the cost model
//   inductor  PyTorch Inductor's rule: sums of at most threshold_bytes by one_shot, else the library's own
//   engine    leaves all to the engine
//
// User error 585: unknown policy or engine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "passes/kernel_choice.h"
#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct SelectKernels {
  static constexpr std::string_view kName = "select_kernels";
  static constexpr std::string_view kDescription = "chooses the kernel of each collective";

  std::string policy = "cost";
  std::string engine;  // empty: that of the context
  std::int64_t threshold_bytes = 128 * 1024;
  double blocking_below_us = 0;

  static std::vector<PassOption<SelectKernels>> options() {
    return {{"policy", &SelectKernels::policy, "cost, inductor (one_shot for small sums) or engine"},
            {"engine", &SelectKernels::engine, "shared_memory or nccl; empty: that of the target"},
            {"threshold_bytes", &SelectKernels::threshold_bytes, "inductor: the largest sum by one_shot"},
            {"blocking_below_us", &SelectKernels::blocking_below_us,
             "collectives that take less time lose their wait; 0: none does"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);

  // Returns the choices of `run`, in the order in which the collectives start, also inside regions.
  std::vector<KernelChoice> choose(const ir::Schedule& schedule, const PassContext& context) const;
};

}  // namespace braid::passes
