#include "passes/plan_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>

#include "ir/error.h"
#include "ir/in_place_collectives.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "tests/support/build.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace std::string_literals;
using test::Builder;

const Placement& place_of(const Schedule& s, BufferId b) {
  return s.plan->placements.at(root_storage(s.graph, b));
}

TEST(PlanMemory, StorageThatDiedGivesItsBytes) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64}), r = b.activation("r", {64});
  b.add("op0", p, {x});
  b.add("op1", q, {p});
  b.add("op2", r, {q});
  b.add("op3", b.result("y", {64}), {r});
  PlanMemory{.in_place = false}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 512);
  EXPECT_EQ(b.schedule.plan->live_peak_bytes, 512);
  EXPECT_EQ(place_of(b.schedule, p).offset, place_of(b.schedule, r).offset);
  EXPECT_NE(place_of(b.schedule, p).offset, place_of(b.schedule, q).offset);
  EXPECT_FALSE(PlanMemory{.in_place = false}.run(b.schedule)) << "the same plan again is no change";
}

TEST(PlanMemory, PointwiseTakesTheBytesOfItsDyingInput) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  b.add("op0", p, {x});
  b.add("op1", q, {p});
  b.add("op2", b.result("y", {64}), {q});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 256);
  EXPECT_EQ(b.schedule.plan->live_peak_bytes, 256);
}

TEST(PlanMemory, NoInPlaceWhereAnotherIndexIsRead) {
  Builder b;
  const BufferId x = b.input("x", {8, 8});
  const BufferId p = b.activation("p", {8, 8}), q = b.activation("q", {8, 8});
  b.add("op0", p, {x});
  // q[i0, i1] = p[i1, i0]
  BodyBuilder body(b.pool);
  const LoopBody transposed = body.finish(body.load(p, DType::f32, b.pool.index(1) * 8 + b.pool.index(0)));
  b.emit({"op1", Loops{{8, 8}, 0, ReduceKind::sum, transposed, b.at(q)}, {q}, {}, {}});
  b.add("op2", b.result("y", {8, 8}), {q});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 512);
}

TEST(PlanMemory, NoInPlaceForAReductionOrAnotherItemSize) {
  Builder b;
  const BufferId x = b.input("x", {8, 64});
  const BufferId p = b.activation("p", {8, 64}), q = b.activation("q", {8}),
                 r = b.activation("r", {8}, DType::f64);
  b.add("op0", p, {x});
  b.reduce("op1", q, p);
  BodyBuilder body(b.pool);
  const LoopBody cast = body.finish(body.cast(body.load(q, DType::f32, b.at(q)), DType::f64));
  b.emit({"op2", Loops{{8}, 0, ReduceKind::sum, cast, b.at(r)}, {r}, {}, {}});
  b.add("op3", b.result("y", {8}, DType::f64), {r});
  PlanMemory{}.run(b.schedule);
  EXPECT_NE(place_of(b.schedule, q).offset, place_of(b.schedule, p).offset);
  EXPECT_NE(place_of(b.schedule, q).offset, place_of(b.schedule, r).offset);
}

TEST(PlanMemory, InputThatIsStillNeededKeepsItsBytes) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  b.add("op0", p, {x});
  b.add("op1", q, {p});
  b.add("op2", b.result("y", {64}), {q, p});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 512);
}

TEST(PlanMemory, ViewsExtendTheirBase) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  Buffer view;
  view.name = "tail";
  view.sizes = {16};
  view.layout = NonOwningLayout{p, 48, {1}};
  const BufferId tail = b.graph.add_buffer(view);
  b.add("op0", p, {x});
  b.add("op1", q, {x});
  b.add("op2", b.result("y", {64}), {q});
  b.add("op3", b.result("z", {16}), {tail});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(place_of(b.schedule, p).last_step, 3);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 512);
}

TEST(PlanMemory, CommunicationMemoryIsHeldUntilTheReleaseAndReusedAfterIt) {
  Builder b;
  b.graph.ranks = 2;
  const GroupId g = b.graph.add_group("world", {0, 1});
  const BufferId x = b.input("x", {64});
  const BufferId c = b.comm("c", {64}, g), d = b.comm("d", {64}, g);
  b.add("op0", c, {x});
  const BufferId c1 = b.all_reduce("ar0", c, g);  // steps 1, 2, 3
  std::swap(b.schedule.nodes[2], b.schedule.nodes[3]);
  b.add("op4", d, {x});
  std::swap(b.schedule.nodes[2], b.schedule.nodes[3]);
  b.add("op5", b.result("y", {64}), {c1});
  const BufferId d1 = b.all_reduce("ar1", d, g);
  b.add("op9", b.result("z", {64}), {d1});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(place_of(b.schedule, c).space, MemorySpace::comm);
  EXPECT_EQ(place_of(b.schedule, c).last_step, 5);
  EXPECT_EQ(b.schedule.plan->comm_bytes, 512) << "c is read at step 5, d is born at step 4";
  // Without the late reader the release at step 3 is the end, and d takes the slot.
  b.schedule.nodes.erase(b.schedule.nodes.begin() + 5);
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(place_of(b.schedule, c).last_step, 3);
  EXPECT_EQ(b.schedule.plan->comm_bytes, 256);
  // A collective without a release never gives its memory back.
  b.schedule.nodes.erase(b.schedule.nodes.begin() + 3);
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->comm_bytes, 512);
}

// A functional all-reduce of `%a`, with what a case adds to it.
struct InPlaceText {
  std::string group = "@g";
  std::string call = "all_reduce sum @g (%a)";
  std::string operand = "%a: f32[8192] comm(symmetric, @g) = pointwise { %0 = load %x store %0 }\n";
  std::string before_start, after_start, after_wait, after_release, outputs;
  std::string result = "%r.1";
};
Schedule in_place_program(const InPlaceText& t) {
  return parse_schedule("graph g\nranks 2\ngroup @g = [0, 1]\ninput %x: f32[8192]\n" + t.operand +
                        t.before_start + "%r: f32[8192] comm(registered, @g) = " + t.call + " as s\n" +
                        t.after_start + "%r.1 mutates %r = wait s\n" + t.after_wait + "release s\n" +
                        t.after_release + "%y: f32[8192] output = pointwise { %0 = load " + t.result +
                        " %1 = neg %0 store %1 }\noutput %y\n" + t.outputs);
}
constexpr std::int64_t kOnePlace = 8192 * 4, kTwoPlaces = 2 * kOnePlace;

std::int64_t comm_bytes(const InPlaceText& t, std::int64_t least = 0) {
  Schedule s = in_place_program(t);
  const std::vector<Violation> before = verify(s);
  EXPECT_TRUE(before.empty()) << before.at(0).message;
  PlanMemory{.in_place_collective_bytes = least}.run(s);
  EXPECT_TRUE(verify(s).empty());
  return s.plan->comm_bytes;
}

TEST(PlanMemory, AFunctionalCollectiveTakesThePlaceOfItsOperand) {
  EXPECT_EQ(comm_bytes({}), kOnePlace);
  EXPECT_EQ(comm_bytes({.call = "broadcast @g (%a) root 1"}), kOnePlace);
  EXPECT_EQ(comm_bytes({.call = "all_reduce sum @g (%a) algorithm two_shot"}), kOnePlace);
  EXPECT_EQ(comm_bytes({}, kOnePlace), kOnePlace) << "from so many bytes on";
  EXPECT_EQ(comm_bytes({}, kOnePlace + 1), kTwoPlaces);
  // The writer of the operand comes first in every order, whatever else it reads there.
  EXPECT_EQ(comm_bytes({.call = "all_reduce sum @g (%a.1)",
                        .before_start = "%a.1 mutates %a = pointwise { %0 = load %a %1 = load %x "
                                        "%2 = add %0, %1 store %2 }\n"}),
            kOnePlace);
  Schedule s = in_place_program({});
  PlanMemory{.in_place = false}.run(s);
  EXPECT_EQ(s.plan->comm_bytes, kTwoPlaces);
}

const std::map<std::string, InPlaceText>& two_places() {
  const std::string reader = "%z: f32[8192] output = pointwise { %0 = load %a store %0 }\n";
  static const std::map<std::string, InPlaceText> cases = {
      {"read after the start", {.after_start = reader, .outputs = "output %z\n"}},
      {"read after the release", {.after_release = reader, .outputs = "output %z\n"}},
      // In another order it is read after the start.
      {"read before the start", {.before_start = reader, .outputs = "output %z\n"}},
      {"an output", {.outputs = "output %a\n"}},
      {"one_shot", {.call = "all_reduce sum @g (%a) algorithm one_shot"}},
      {"all_to_all", {.call = "all_to_all @g (%a)"}},
      {"written after the release",
       {.after_release = "%a.1 mutates %a = pointwise { %0 = load %x store %0 }\n"
                         "%z: f32[8192] output = pointwise { %0 = load %a.1 store %0 }\n",
        .outputs = "output %z\n"}},
      {"written after the release and read by nobody",
       {.after_release = "%a.1 mutates %a = pointwise { %0 = load %x store %0 }\n"}},
      {"a part of a larger storage",
       {.operand = "%w: f32[16384] comm(symmetric, @g) = pointwise { %0 = load %x[mod(i0, 8192)] store %0 }\n"
                   "%a: f32[8192] in %w at 0 = pointwise { %0 = load %x store %0 }\n"}},
      {"result written before the release",
       {.after_wait = "%r.2 mutates %r.1 = pointwise { %0 = load %r.1 %1 = neg %0 store %1 }\n"
                      "%z: f32[8192] output = pointwise { %0 = load %x store %0 }\n",
        .outputs = "output %z\n",
        .result = "%r.2"}},
  };
  return cases;
}

TEST(PlanMemory, ACollectiveThatMayNotRunInPlaceHasTwoPlaces) {
  for (const auto& [name, text] : two_places()) EXPECT_GT(comm_bytes(text), kOnePlace) << name;
}

// The rule, whose word planner and verifier both take, against values: memory as planned, ranks in any order.
TEST(PlanMemory, SharedPlacesChangeNoValue) {
  std::map<std::string, InPlaceText> cases = two_places();
  cases["in place"] = {};
  cases["broadcast in place"] = {.call = "broadcast @g (%a) root 1"};
  for (const auto& [name, text] : cases) {
    Schedule s = in_place_program(text);
    std::vector<std::vector<Tensor>> inputs;
    for (const float first : {1.0F, 20000.0F}) {
      std::vector<float> x(8192);
      std::iota(x.begin(), x.end(), first);
      inputs.push_back({make_tensor(DType::f32, {8192}, x)});
    }
    const auto want = run(s, inputs).outputs;
    PlanMemory{.in_place_collective_bytes = 0}.run(s);
    for (std::uint64_t order = 0; order < 4; ++order)
      EXPECT_TRUE(run(s, inputs, {.use_plan = true, .order_seed = order}).outputs == want) << name;
  }
}

TEST(PlanMemory, AnOperandThatIsGivenTwiceIsSharedWithNobody) {
  Schedule s = parse_schedule(R"(graph g
ranks 2
group @g = [0, 1]
input %x: f32[8192]
%a: f32[8192] comm(symmetric, @g) = pointwise { %0 = load %x store %0 }
%r: f32[8192] comm(registered, @g), %q: f32[8192] comm(registered, @g) = all_reduce sum @g (%a, %a) as s
%r.1 mutates %r, %q.1 mutates %q = wait s
release s
%y: f32[8192] output = pointwise { %0 = load %r.1 %1 = load %q.1 %2 = add %0, %1 store %2 }
output %y
)");
  EXPECT_TRUE(in_place_collectives(s).empty());
  PlanMemory{.in_place_collective_bytes = 0}.run(s);
  EXPECT_TRUE(verify(s).empty());
  EXPECT_EQ(s.plan->comm_bytes, 3 * kOnePlace);
}

// Planted: the plan of the program in which they may share, on the program in which they may not.
TEST(PlanMemory, TheVerifierRefusesAPlaceThatACollectiveMayNotShare) {
  for (const auto& [name, text] : two_places()) {
    Schedule s = in_place_program(text);
    PlanMemory{.in_place_collective_bytes = 0}.run(s);
    std::optional<Placement> operand;
    for (auto& [storage, place] : s.plan->placements) {
      if (s.graph[storage].name == "a" || s.graph[storage].name == "w") operand = place;
    }
    ASSERT_TRUE(operand) << name;
    for (auto& [storage, place] : s.plan->placements) {
      if (s.graph[storage].name == "r") place.offset = operand->offset;
    }
    const std::vector<Violation> found = verify(s);
    ASSERT_FALSE(found.empty()) << name;
    EXPECT_EQ(found[0].rule, "memory") << name << ": " << found[0].message;
  }
}

TEST(PlanMemory, TheVerifierRefusesTheOffsetBesideTheOperands) {
  Schedule s = in_place_program({});
  PlanMemory{.in_place_collective_bytes = 0}.run(s);
  for (auto& [storage, place] : s.plan->placements) {
    if (s.graph[storage].name == "r") place.offset = 256;
  }
  s.plan->comm_bytes += 256;
  EXPECT_FALSE(verify(s).empty());
}

TEST(PlanMemory, AChainOfCollectivesSharesOnePairOnly) {
  const std::string head =
      "graph g\nranks 2\ngroup @g = [0, 1]\ninput %x: f32[8192]\n"
      "%a: f32[8192] comm(symmetric, @g) = pointwise { %0 = load %x store %0 }\n";
  const std::string tail = " store %0 }\noutput %y\n";
  for (const std::string& chain :
       {"%r: f32[8192] comm(symmetric, @g) = all_reduce sum @g (%a) as s\n%r.1 mutates %r = wait s\n"
        "%q: f32[8192] comm(registered, @g) = all_reduce sum @g (%r.1) as t\nrelease s\n"
        "%q.1 mutates %q = wait t\nrelease t\n%y: f32[8192] output = pointwise { %0 = load %q.1"s,
        "%r: f32[8192] comm(symmetric, @g) = all_reduce sum @g (%a) blocking\n"
        "%q: f32[8192] comm(registered, @g) = all_reduce sum @g (%r) blocking\n"
        "%y: f32[8192] output = pointwise { %0 = load %q"s}) {
    SCOPED_TRACE(chain);
    Schedule s = parse_schedule(head + chain + tail);
    const std::vector<InPlaceCollective> pairs = in_place_collectives(s);
    ASSERT_EQ(pairs.size(), 1u);
    EXPECT_EQ(s.graph[pairs[0].operand].name, "a");
    PlanMemory{.in_place_collective_bytes = 0}.run(s);
    EXPECT_TRUE(verify(s).empty());
    EXPECT_EQ(s.plan->comm_bytes, kTwoPlaces) << "peers may read the first operand until its release";
    // Both in the place of the first.
    const Placement first = place_of(s, BufferId{1});
    for (auto& [storage, place] : s.plan->placements) place.offset = first.offset;
    EXPECT_FALSE(verify(s).empty());
  }
}

TEST(PlanMemory, DynamicSizesArePlannedAtTheirBound) {
  Builder b;
  const Expr n = b.graph.add_dim("n", {1, 100});
  const BufferId x = b.input("x", {n, 16});
  const BufferId p = b.activation("p", {n, 16});
  b.add("op0", p, {x});
  b.add("op1", b.result("y", {n, 16}), {p});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 6400);
}

TEST(PlanMemory, BufferInsideOfAFusedNodeGetsNoMemory) {
  Builder b;
  const BufferId x = b.input("x", {8, 64});
  const BufferId p = b.activation("p", {8, 64}), m = b.activation("m", {8});
  const OpId op0 = b.add("op0", p, {x});
  const OpId op1 = b.reduce("op1", m, p);
  const OpId op2 = b.add("op2", b.result("y", {8, 64}), {p, m});
  ScheduleNode node{ScheduleNode::Kind::fused, "fused", {}, {}};
  for (OpId op : {op0, op1, op2}) node.members.push_back(ScheduleNode::single(op));
  b.schedule.nodes = {node};
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 0);
  EXPECT_TRUE(b.schedule.plan->placements.empty());
}

TEST(PlanMemory, AlignmentMustBeAPowerOfTwo) {
  Builder b;
  EXPECT_THROW(PlanMemory{.arena_alignment = 48}.run(b.schedule), UserError);
  EXPECT_THROW(PlanMemory{.comm_alignment = 128}.run(b.schedule), UserError);
}

}  // namespace
}  // namespace braid::passes
