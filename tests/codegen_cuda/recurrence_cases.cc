// Recurrent layers (runtime/device/recurrence.h).
#include <fmt/format.h>

#include "ir/parser.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

// Lengths as the caller gives them: they may be out of range.
constexpr const char* kLengths = R"(graph g
dim n in [0, 4]
input %g: f32[3, n, 2] input %r: f32[2, 2] input %h: f32[n, 2] input %lengths: i32[n]
%y: f32[3, n, 2], %last: f32[n, 2], %work: f32[n, 2] = recurrence rnn %g, %r, %h lengths %lengths
  from "/layer/RNN" activation { %0 = acc f32 %1 = tanh %0 return %1 }
output %y output %last)";

// More columns than a block has threads.
constexpr const char* kManyColumns = R"(graph g
input %g: f32[3, 2, 1560] input %all: f32[520, 1560] input %h: f32[2, 520]
%r: f32[520, 1560] = pointwise { %0 = load %all %1 = constant f32 0.001 %2 = mul %0, %1 store %2 }
%y: f32[3, 2, 520], %last: f32[2, 520], %work: f32[2, 1560] = recurrence gru %g, %r, %h
  activation { %0 = acc f32 %1 = sigmoid %0 return %1 } activation { %0 = acc f32 %1 = tanh %0 return %1 }
output %y output %last)";

ir::Schedule parsed_recurrence(const char* text) {
  ir::Schedule schedule = ir::parse_schedule(text, "case");
  passes::run_passes(schedule, passes::parse_pass_list("plan_memory"));
  return schedule;
}

}  // namespace

std::vector<RecurrenceCase> recurrence_cases() {
  constexpr ir::DType kTypes[] = {ir::DType::f32, ir::DType::f64, ir::DType::f16, ir::DType::bf16};
  constexpr std::uint64_t kCases = 48, kWide = 6;
  std::vector<RecurrenceCase> out;
  for (std::uint64_t seed = 1; seed <= kCases; ++seed)
    out.push_back({fmt::format("recurrence_{}", seed), seed, kTypes[seed % std::size(kTypes)]});
  for (std::uint64_t seed = 1; seed <= kWide; ++seed)
    out.push_back({fmt::format("recurrence_wide_{}", seed), seed, ir::DType::f32, true});
  return out;
}

RandomWindows planned_recurrence(const RecurrenceCase& c) {
  RandomWindows random = random_recurrence(c.seed, c.dtype, c.wide);
  passes::run_passes(random.schedule, passes::default_passes());
  return random;
}

void add_recurrence_cases(std::vector<Case>& out) {
  const auto add = [&](std::string name, std::function<ir::Schedule()> build) {
    out.push_back({std::move(name), std::move(build), {}, "recurrences"});
  };
  for (const RecurrenceCase& c : recurrence_cases())
    add(c.name, [c] { return planned_recurrence(c).schedule; });
  add("recurrence_lengths", [] { return parsed_recurrence(kLengths); });
  add("recurrence_many_columns", [] { return parsed_recurrence(kManyColumns); });
}

}  // namespace braid::test
