// A pass that charges the calls of one runtime function with a time, for instance one that was measured, so
// that schedulers know what such a call can hide.
#pragma once

#include <passes/pass.h>

#include <string>
#include <string_view>
#include <vector>

namespace example {

struct ChargeCallee {
  static constexpr std::string_view kName = "charge_callee";
  static constexpr std::string_view kDescription = "charges the calls of a runtime function with a time";

  std::string callee;
  double ns = 0;
  static std::vector<braid::passes::PassOption<ChargeCallee>> options() {
    return {{"callee", &ChargeCallee::callee, "the function whose calls are charged"},
            {"ns", &ChargeCallee::ns, "nanoseconds of one call"}};
  }

  bool run(braid::ir::Schedule& schedule) {
    bool changed = false;
    for (braid::ir::Operation& op : schedule.graph.ops) {
      const auto* kernel = op.as<braid::ir::ExternKernel>();
      if (kernel == nullptr || kernel->callee != callee) continue;
      braid::ir::Cost cost = op.cost.value_or(braid::ir::Cost{});
      cost.ns = ns;
      changed |= op.cost != cost;
      op.cost = cost;
    }
    return changed;
  }
};

}  // namespace example
