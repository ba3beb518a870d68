// Attention, which this target computes with products and loops (passes/expand_attention.h).
#include <fmt/format.h>

#include "passes/default_passes.h"
#include "passes/expand_attention.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/support/random_attention.h"

namespace braid::test {

std::vector<AttentionCase> attention_cases() {
  constexpr ir::DType kTypes[] = {ir::DType::f32, ir::DType::f64, ir::DType::f16, ir::DType::bf16};
  constexpr std::uint64_t kCases = 24;
  std::vector<AttentionCase> out;
  for (std::uint64_t seed = 1; seed <= kCases; ++seed)
    out.push_back({fmt::format("attention_{}", seed), seed, kTypes[seed % std::size(kTypes)]});
  return out;
}

RandomWindows planned_attention(const AttentionCase& c) {
  RandomWindows random = random_attention(c.seed, c.dtype);
  passes::ExpandAttention expand;
  if (c.seed % 2 == 0) expand.score_bytes = static_cast<std::int64_t>(1 + c.seed * 37 % 400);  // in parts
  expand.run(random.schedule);
  passes::run_passes(random.schedule, passes::default_passes());
  return random;
}

void add_attention_cases(std::vector<Case>& out) {
  for (const AttentionCase& c : attention_cases())
    out.push_back({c.name, [c] { return planned_attention(c).schedule; }, {}, "attention"});
}

}  // namespace braid::test
