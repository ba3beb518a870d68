// Random programs through the default passes, in a random legal order: fusion, in-place reuse, memory that
// collectives take over from kernels and back.
#include <fmt/format.h>

#include "ir/parser.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/support/random_epilogues.h"
#include "tests/support/schedule_changes.h"

namespace braid::test {

RandomProgram random_case(std::uint64_t seed) {
  RandomProgram program = random_program(seed, 18);
  if (seed % 2 == 0) shuffle_nodes(program.schedule, seed);
  passes::run_passes(program.schedule, passes::default_passes());
  return program;
}

ir::Schedule epilogue_case(std::uint64_t seed, const std::string& type) {
  ir::Schedule schedule = ir::parse_schedule(random_epilogues(seed, type));
  passes::run_passes(schedule, passes::default_passes());
  return schedule;
}

void add_random_cases(std::vector<Case>& out) {
  for (std::uint64_t seed = 1; seed <= kRandomCases; ++seed) {
    out.push_back({fmt::format("random_{}", seed), [seed] { return random_case(seed).schedule; }});
  }
  for (std::uint64_t seed = 1; seed <= kEpilogueCases; ++seed) {
    for (const char* type : {"f32", "f16", "bf16"})
      out.push_back({fmt::format("epilogues_{}_{}", type, seed), [=] { return epilogue_case(seed, type); }});
  }
}

}  // namespace braid::test
