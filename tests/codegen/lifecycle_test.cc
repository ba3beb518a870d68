// Programs that hold themselves to their memory plan: right plans pass, with reuse too, and what is planted
// is named.
#include "runtime/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/error.h"
#include "tests/codegen/compiled.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

// a lives in steps 0..2, b in 1..2 (rows are summed: no in-place reuse), c in 2..3.
constexpr const char* kText = R"(graph main
input %x: f32[8, 8]
%a: f32[8] = reduction sum over [8] { %0 = load %x store %0 }
%b: f32[8] = reduction max over [8] { %0 = load %x store %0 }
%c: f32[8] = pointwise { %0 = load %a %1 = load %b %2 = add %0, %1 store %2 }
%d: f32[8] = pointwise { %0 = load %c %1 = exp %0 store %1 }
output %d
)";

ir::Placement& place(ir::Schedule& s, const std::string& storage) {
  for (auto& [id, p] : s.plan->placements) {
    if (s.graph[id].name == storage) return p;
  }
  throw ir::InternalError("no storage " + storage);
}

class Lifecycle : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    compiled_ = std::make_unique<Compiled>("-O1");
    const auto add = [&](const std::string& name, const auto& plant) {
      ir::Schedule s = schedule_of(kText, "plan_memory");
      plant(s);
      compiled_->add_schedule(name, std::move(s), true);
    };
    add("right", [](ir::Schedule&) {});
    add("dies_early", [](ir::Schedule& s) { place(s, "a").last_step = 1; });
    add("born_late", [](ir::Schedule& s) { place(s, "b").first_step = 2; });
    add("overlap", [](ir::Schedule& s) { place(s, "b").offset = place(s, "a").offset; });
    compiled_->build();
  }
  static void TearDownTestSuite() { compiled_.reset(); }

  static std::string error_of(const std::string& name) {
    rt::Program program = compiled_->open(name);
    const ir::Tensor x = random_tensor(ir::DType::f32, {8, 8}, 1);
    try {
      for (int step = 0; step < 2; ++step) compiled_->run(program, {x});
    } catch (const rt::ProgramError& e) {
      return e.what();
    }
    return {};
  }

  static std::unique_ptr<Compiled> compiled_;
};
std::unique_ptr<Compiled> Lifecycle::compiled_;

TEST_F(Lifecycle, RightPlanPassesAndGivesTheSameNumbers) {
  EXPECT_EQ(error_of("right"), "");
  compiled_->expect_like_interpreter("right");
  EXPECT_THAT(compiled_->emitted("right").source, HasSubstr("before_step(3)"));
}

TEST_F(Lifecycle, TouchAfterDeathIsNamed) {
  EXPECT_THAT(error_of("dies_early"), HasSubstr("'a' at step 2 ('c'): is touched after its death at step 1"));
}

TEST_F(Lifecycle, TouchBeforeBirthIsNamed) {
  EXPECT_THAT(error_of("born_late"), HasSubstr("'b' at step 1 ('b'): is touched before its birth at step 2"));
}

TEST_F(Lifecycle, TwoInTheSameBytesAreNamed) {
  EXPECT_THAT(error_of("overlap"), HasSubstr("'b' at step 1 ('b'): is born over byte"));
  EXPECT_THAT(error_of("overlap"), HasSubstr("of 'a', which lives until step 2"));
}

// Plays stray writes by hand, since generated code makes none.
struct ByHand {
  // a lives in steps 0..2, b in 1..1, c in 3..3 on the bytes of b.
  const rt::PlannedBuffer buffers[3] = {
      {"a", false, 0, 8, 0, 2}, {"b", false, 8, 8, 1, 1}, {"c", false, 8, 8, 3, 3}};
  const rt::PlannedTouch touches[5] = {
      {0, false, true, false}, {1, false, true, false}, {0, true, false, false}, {2, false, true, false}, {}};
  const rt::PlannedStep steps[5] = {{"s0", 0, 1}, {"s1", 1, 1}, {"s2", 2, 1}, {"s3", 3, 1}, {"s4", 4, 0}};
  const rt::LifecyclePlan plan{buffers, {touches, 4}, steps, 16, 0};
  std::byte memory[16];
  rt::Lifecycle lifecycle{plan, memory, nullptr};

  void write(int at) { memory[at] = std::byte{1}; }
  bool step(int k, std::initializer_list<int> bytes = {}) {
    if (!lifecycle.before(k)) return false;
    for (int b : bytes) write(b);
    return lifecycle.after(k);
  }
};

TEST(LifecycleByHand, AllIsWell) {
  ByHand h;
  for (int run = 0; run < 2; ++run) {
    h.lifecycle.begin();
    EXPECT_TRUE(h.step(0, {0, 7}) && h.step(1, {8}) && h.step(2) && h.step(3, {9}) && h.step(4));
    EXPECT_TRUE(h.lifecycle.end()) << h.lifecycle.error();
  }
}

TEST(LifecycleByHand, StrayWriteIntoALivingBufferIsFoundAtItsNextTouch) {
  ByHand h;
  h.lifecycle.begin();
  EXPECT_TRUE(h.step(0, {0}) && h.step(1, {8, 1}));
  EXPECT_FALSE(h.step(2));
  EXPECT_THAT(h.lifecycle.error(), HasSubstr("'a' at step 2 ('s2'): has changed since step 0"));
}

TEST(LifecycleByHand, StrayWriteIntoDeadBytesIsFoundAtTheNextBirth) {
  ByHand h;
  h.lifecycle.begin();
  EXPECT_TRUE(h.step(0, {0}) && h.step(1, {8}) && h.step(2, {12}));
  EXPECT_FALSE(h.step(3));
  EXPECT_THAT(
      h.lifecycle.error(),
      HasSubstr("'c' at step 3 ('s3'): byte 12 was written before it was born after 'b' had died there"));
}

TEST(LifecycleByHand, StrayWriteIntoDeadBytesIsFoundAtTheEnd) {
  ByHand h;
  h.lifecycle.begin();
  EXPECT_TRUE(h.step(0, {0}) && h.step(1, {8}) && h.step(2) && h.step(3, {9}) && h.step(4, {3}));
  EXPECT_FALSE(h.lifecycle.end());
  EXPECT_THAT(h.lifecycle.error(), HasSubstr("'a' at step 5: byte 3 was written after its death at step 2"));
}

}  // namespace
}  // namespace braid::test
