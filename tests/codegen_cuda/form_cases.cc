// Every form of every collective (tests/support/collective_forms.h), through the default passes, and those in
// place as written as well; random programs of 200 collectives, those as written that may have an order per
// group.
#include <fmt/format.h>

#include "driver/compile.h"
#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

ir::Schedule for_cuda(ir::Schedule s, bool optimised) {
  CompileOptions options;
  options.target = "cuda";
  if (!optimised) options.passes = "plan_memory{in_place_collective_bytes=0}";
  optimise(s, options);
  return s;
}

}  // namespace

std::vector<CollectiveCase> cuda_form_cases(int ranks) {
  std::vector<CollectiveCase> cases = collective_cases(ranks);
  for (CollectiveCase& c : peer_reading_collective_cases(ranks)) cases.push_back(std::move(c));
  return cases;
}

RandomCollectives random_collective_case(std::uint64_t seed) {
  return random_collectives(seed, {.ranks = 3 + static_cast<int>(seed % 2), .nccl = true});
}

void add_form_cases(std::vector<Case>& out) {
  for (int ranks : kFormRanks) {
    for (const CollectiveCase& c : cuda_form_cases(ranks)) {
      for (bool optimised : {true, false}) {
        if (!optimised && !c.in_place) continue;
        out.push_back({optimised ? c.name : c.name + "_as_written",
                       [schedule = c.schedule, optimised] { return for_cuda(schedule, optimised); },
                       {},
                       "forms"});
      }
    }
  }
  for (std::uint64_t seed = 1; seed <= kCollectiveCases; ++seed) {
    const auto build = [seed] {
      ir::Schedule s = random_collective_case(seed).schedule;
      // One stream: where each group may have its own order, passes part sends from their receives (BR0642).
      const bool optimised = s.channels == ir::ChannelPolicy::global;
      return for_cuda(std::move(s), optimised);
    };
    out.push_back({fmt::format("random_collectives_{}", seed), build, {}, "collectives"});
  }
}

}  // namespace braid::test
