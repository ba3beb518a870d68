// Recurrent layers on the emulated device, against the interpreter.
#include <fmt/format.h>

#include <set>

#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

class Recurrence : public CudaCase {};

double tolerance_of(ir::DType dtype) {
  return dtype == ir::DType::f64   ? 1e-12
         : dtype == ir::DType::f32 ? 1e-5
         : dtype == ir::DType::f16 ? 2e-3
                                   : 2e-2;
}

TEST_F(Recurrence, LayersAreAsTheInterpreterSays) {
  for (const RecurrenceCase& c : recurrence_cases()) {
    SCOPED_TRACE(c.name);
    RunOptions options;
    options.steps = 2;
    options.seed = c.seed;
    expect_equal(run_case(c.name, planned_recurrence(c).dims, options),
                 c.wide ? 2e-5 : tolerance_of(c.dtype));
    ASSERT_THAT(found(), ::testing::IsEmpty());
  }
}

TEST_F(Recurrence, AThreadComputesSeveralColumns) { expect_equal(run_case("recurrence_many_columns"), 1e-5); }

// Every attribute and optional operand is there in one case and not in another.
TEST_F(Recurrence, CasesHaveEveryForm) {
  std::set<std::string> forms;
  for (const RecurrenceCase& c : recurrence_cases()) {
    const RandomWindows random = planned_recurrence(c);
    for (const ir::Operation& op : random.schedule.graph.ops) {
      const auto* r = op.as<ir::Recurrence>();
      if (r == nullptr) continue;
      const std::string cell(to_string(r->cell));
      const auto form = [&](const std::string& what, bool has) {
        forms.insert(fmt::format("{}{}", what, has ? "" : ": none"));
      };
      form("transposed weights", !r->weights.strides[1].is_constant(1));
      form(cell + " reverse", r->reverse);
      form(cell + " clip", r->clip > 0);
      form(cell + " bias", r->bias.has_value());
      form(cell + " lengths", r->lengths.has_value());
      if (r->cell == ir::CellKind::gru) form("linear_before_reset", r->linear_before_reset);
      if (r->cell != ir::CellKind::lstm) continue;
      form("coupled", r->coupled);
      form("initial c", r->initial_c.has_value());
      form("peepholes", r->peepholes.has_value());
    }
  }
  EXPECT_EQ(forms.size(), 2u * (1 + 3 * 4 + 1 + 3)) << ::testing::PrintToString(forms);
}

ir::Tensor lengths(const std::vector<std::int32_t>& values) {
  return ir::make_tensor(ir::DType::i32, {static_cast<std::int64_t>(values.size())}, values);
}

TEST_F(Recurrence, RowsEndAtTheirLength) {
  RunOptions options;
  options.inputs["lengths"] = lengths({0, 3, 1, 2});
  expect_equal(run_case("recurrence_lengths", {{"n", 4}}, options), 1e-5);
  options.inputs["lengths"] = lengths({});
  expect_equal(run_case("recurrence_lengths", {{"n", 0}}, options), 1e-5);
}

TEST_F(Recurrence, LengthsOutOfRangeNameTheNode) {
  for (std::int32_t wrong : {4, -1}) {
    RunOptions options;
    options.inputs["lengths"] = lengths({1, wrong});
    const CaseResult result = run_case("recurrence_lengths", {{"n", 2}}, options);
    EXPECT_EQ(result.status, BRAID_BAD_INDEX);
    EXPECT_THAT(result.message, ::testing::HasSubstr("/layer/RNN"));
  }
}

}  // namespace
}  // namespace braid::test
