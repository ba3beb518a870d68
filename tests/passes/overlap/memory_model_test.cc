#include "passes/overlap/memory_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/error.h"
#include "passes/overlap/problem.h"
#include "passes/plan_memory.h"
#include "tests/passes/build.h"

namespace braid::passes {
namespace {

using namespace ir;
using test::Builder;

// x -> p, x -> q, (p, q) -> y, of 64 floats.
Builder two_branches() {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  b.add("make_p", p, {x});
  b.add("make_q", q, {x});
  b.add("make_y", b.result("y", {64}), {p, q});
  return b;
}

TEST(MemoryModel, LivePeakIsWhereAndWhatTheTenantsSay) {
  Builder b = two_branches();
  const MemoryModel m(b.schedule);
  const auto live = m.live(identity_order(3));
  EXPECT_THAT(live.bytes, testing::ElementsAre(256, 512, 512));
  EXPECT_EQ(live.peak, 512);
  EXPECT_EQ(live.peak_step, 1);
}

TEST(MemoryModel, CapThatCannotBeMetNamesStepBytesAndTensors) {
  Builder b = two_branches();
  const MemoryModel m(b.schedule);
  EXPECT_NO_THROW(check_cap(b.schedule, m, identity_order(3), 512));
  try {
    check_cap(b.schedule, m, identity_order(3), 511);
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), 570) << "BR0570";
    EXPECT_THAT(e.what(), testing::HasSubstr("step 1, 512 bytes: 'p' (256 bytes), 'q' (256 bytes)"));
  }
}

TEST(MemoryModel, OutputThatTheCallerDoesNotOwnHandsItsBytesToNobody) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  b.output("p", p);
  b.output("q", q);
  b.add("make_p", p, {x});
  b.add("make_q", q, {p});
  const MemoryModel m(b.schedule);
  EXPECT_EQ(m.live(identity_order(2)).peak, 512);
  EXPECT_EQ(m.planned_bytes(identity_order(2)), 512);
}

}  // namespace
}  // namespace braid::passes
