#include "ir/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/parser.h"

namespace braid::ir {
namespace {

using ::testing::HasSubstr;

// The ops of `text`, scheduled in the order in which `order` names them (empty: as written).
Schedule program(const std::string& text, const std::vector<std::string>& order = {}) {
  Schedule s = parse_schedule(text);
  if (order.empty()) return s;
  std::vector<ScheduleNode> nodes;
  for (const std::string& name : order) {
    for (const ScheduleNode& n : s.nodes) {
      if (s.graph[n.op].name == name) nodes.push_back(n);
    }
  }
  s.nodes = nodes;
  return s;
}

void expect_legal(const Schedule& s) {
  for (const Violation& v : verify(s)) ADD_FAILURE() << v.rule << ": '" << v.node << "': " << v.message;
}

void expect_violation(const Schedule& s, const std::string& rule, const std::string& node,
                      const std::string& part) {
  const std::vector<Violation> found = verify(s);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, rule);
  EXPECT_EQ(found[0].node, node);
  EXPECT_THAT(found[0].message, HasSubstr(part));
}

const std::string kChain = R"(graph g input %x: f32[4]
%a: f32[4] = pointwise { %0 = load %x store %0 }
%b: f32[4] = pointwise { %0 = load %a store %0 }
output %b)";

TEST(VerifierOrder, ReadAfterWrite) {
  expect_legal(program(kChain));
  expect_violation(program(kChain, {"b", "a"}), "order", "b", "reads 'a' before it is written");
  expect_violation(program(kChain, {"b"}), "order", "b", "reads 'a', which is never written");
  expect_violation(program(kChain, {"a"}), "order", "the end", "reads 'b', which is never written");
}

TEST(VerifierOrder, ALoopDoesNotReadWhatItComputes) {
  expect_violation(
      program("graph g input %x: f32[4] %y: f32[4] = pointwise { %0 = load %y %1 = load %x %2 = add %0, %1 "
              "store %2 } output %y"),
      "order", "y", "reads 'y', which is its own result");
}

const std::string kMutation = R"(graph g input %x: f32[4]
%a: f32[4] = pointwise { %0 = load %x store %0 }
%old: f32[4] = pointwise { %0 = load %a store %0 }
%a.1 mutates %a = pointwise { %0 = load %a %1 = add %0, %0 store %1 }
%new: f32[4] = pointwise { %0 = load %a.1 store %0 }
output %old output %new)";

TEST(VerifierOrder, WriteAfterReadAndVersions) {
  expect_legal(program(kMutation));
  expect_violation(program(kMutation, {"a", "a.1", "old", "new"}), "order", "old",
                   "reads 'a' after 'a.1' has overwritten it");
  expect_violation(program(kMutation, {"a", "old", "new", "a.1"}), "order", "new",
                   "reads 'a.1' before it is written");
}

TEST(VerifierOrder, WriteAfterWrite) {
  // Two mutations of one version: the second finds the first one's data.
  expect_violation(program(R"(graph g %a: f32[4] = pointwise { %0 = constant f32 1 store %0 }
%b mutates %a = pointwise { %0 = constant f32 2 store %0 }
%c mutates %a = pointwise { %0 = constant f32 3 store %0 }
output %c)"),
                   "order", "c", "reads 'a' after 'b' has overwritten it");
}

const std::string kPieces = R"(graph g input %x: f32[4, 2]
buffer %c: f32[4, 4]
%p: f32[4, 2] in %c strides [4, 1] = pointwise { %0 = load %x store %0 }
%q: f32[4, 2] in %c at 2 strides [4, 1] = pointwise { %0 = load %x store %0 }
%half: f32[4, 2] = pointwise { %0 = load %p store %0 }
%all: f32[4, 4] = pointwise { %0 = load %c store %0 }
%c.1 mutates %c = pointwise { %0 = load %c %1 = neg %0 store %1 }
output %all output %half output %c.1)";

TEST(VerifierOrder, PiecesOfATensor) {
  expect_legal(program(kPieces));
  expect_legal(program(kPieces, {"p", "half", "q", "all", "c.1"}));
  expect_legal(program(kPieces, {"q", "p", "all", "half", "c.1"}));
  expect_violation(program(kPieces, {"p", "half", "all", "q", "c.1"}), "order", "all",
                   "reads 'c' before it is written");
  expect_violation(program(kPieces, {"p", "q", "all", "c.1", "half"}), "order", "half",
                   "reads 'p' after 'c.1' has overwritten it");
}

TEST(VerifierStructure, NobodyWritesAConstant) {
  const std::string constant =
      "graph g ranks 2 group @g = [0, 1] input %x: f32[4] constant %c: f32[4] = splat(1.0)\n";
  const auto refused = [&](const std::string& node, const std::string& text) {
    expect_violation(program(constant + text), "structure", node, "writes the constant 'c'");
  };
  refused("r", "%c.1 mutates %c = all_reduce sum @g (%c) as r %c.2 mutates %c.1 = wait r output %c.2");
  refused("r", "%c.1 mutates %c = broadcast @g (%x) root 0 blocking as r output %c.1");
  refused("c.1", "%c.1 mutates %c = pointwise { %0 = load %c store %0 } output %c.1");
  refused("c.1", "%c.1 mutates %c = extern \"f\" writes(%c.1) output %c.1");
  refused("f", "extern \"f\" writes(%c) barrier as f output %x");
  refused("v", "%v: f32[2] in %c at 2 = pointwise { %0 = constant f32 1 store %0 } output %c");
  refused("a", "%a: f32[4] output alias $c = pointwise { %0 = load %x store %0 } output %a");
  refused("c.1", "%c.1 mutates %c = repeat 2 (%x) { yield %x } output %c.1");
  refused("c.1",
          "%y: f32[4] = call (%c) { %c.1 mutates %c = pointwise { %0 = load %c store %0 } yield %c.1 } "
          "output %y");
  expect_legal(program(constant + "%r: f32[4] = all_reduce sum @g (%c) blocking output %r"));
}

TEST(VerifierOrder, AliasesDeclaredByTheUser) {
  const std::string text = R"(graph g dim past in [0, 8] input %cache: f32[past + 1, 2] input %new: f32[1, 2]
%sum: f32[2] = reduction sum over [past] { %0 = load %cache[i1, i0] store %0 }
buffer %present: f32[past + 1, 2] output alias $cache
%tail: f32[1, 2] in %present at 2*past = pointwise { %0 = load %new store %0 }
%late: f32[2] = reduction sum over [past + 1] { %0 = load %present[i1, i0] store %0 }
output %sum output %late output %present)";
  expect_legal(program(text));
  expect_violation(program(text, {"tail", "sum", "late"}), "order", "sum",
                   "reads 'cache' after 'tail' has overwritten it");
}

TEST(VerifierOrder, InsideOfRegions) {
  const std::string good = R"(graph g input %x: f32[4]
%y: f32[4] = call (%x) {
  %a: f32[4] = pointwise { %0 = load %x store %0 }
  %b: f32[4] = pointwise { %0 = load %a store %0 }
  yield %b
}
output %y)";
  expect_legal(program(good));
  Schedule bad = program(good);
  for (Operation& op : bad.graph.ops) {
    if (auto* k = op.as<RegionKernel>()) std::swap(k->regions[0].ops[0], k->regions[0].ops[1]);
  }
  expect_violation(bad, "order", "b", "reads 'a' before it is written");
}

const std::string kCollective = R"(graph g ranks 2 group @g = [0, 1] input %x: f32[4]
%c: f32[4] comm(symmetric, @g) = pointwise { %0 = load %x store %0 }
%r: f32[4] comm(symmetric, @g) = all_reduce sum @g (%c)
%other: f32[4] = pointwise { %0 = load %c store %0 }
%r.1 mutates %r = wait r
%y: f32[4] = pointwise { %0 = load %r.1 store %0 }
release r
%c.1 mutates %c = pointwise { %0 = load %x store %0 }
output %y output %other output %c.1)";

TEST(VerifierFlight, StartWaitReleaseInOrder) {
  expect_legal(program(kCollective));
  expect_legal(program(kCollective, {"c", "r", "other", "r.1", "r.release", "y", "c.1"}));
  expect_violation(program(kCollective, {"c", "r", "other", "y", "r.1", "r.release", "c.1"}), "order", "y",
                   "before it is written");
  expect_violation(program(kCollective, {"c", "r", "other", "r.1", "y", "c.1", "r.release"}), "order",
                   "r.release", "reads 'c' after 'c.1' has overwritten it");
  expect_violation(program(kCollective, {"c", "r", "other", "y", "r.release", "c.1"}), "flight", "r",
                   "has no wait");
  expect_violation(program(kCollective, {"c", "r", "other", "r.1", "y", "c.1"}), "flight", "r",
                   "has no release");
  expect_violation(program(kCollective, {"c", "r.1", "r", "other", "y", "r.release", "c.1"}), "flight", "r.1",
                   "before its start");
  expect_violation(program(kCollective, {"c", "r", "other", "r.release", "r.1", "y", "c.1"}), "flight",
                   "r.release", "release comes before the wait");
}

TEST(VerifierFlight, OutputsInFlightAreNotTouched) {
  const std::string text = R"(graph g ranks 2 group @g = [0, 1] input %x: f32[4]
%r: f32[4] = all_reduce sum @g (%x)
%early: f32[4] = pointwise { %0 = load %r store %0 }
%r.1 mutates %r = wait r
output %early output %r.1)";
  expect_violation(program(text), "flight", "early", "touches 'r' while the collective 'r' writes it");
}

TEST(VerifierFlight, ResultsOverlapNeitherEachOtherNorOtherOperands) {
  const auto views = [](const std::string& start) {
    return "graph g ranks 2 group @g = [0, 1] input %x: f32[8]\n"
           "%b: f32[8] = pointwise { %0 = load %x store %0 }\n"
           "buffer %v: f32[5] in %b\nbuffer %w: f32[5] in %b at 3\nbuffer %far: f32[3] in %b at 5\n" +
           start;
  };
  const std::string one = " as s\n%w.2 mutates %w.1 = wait s\noutput %w.2";
  expect_legal(program(views("%w.1 mutates %w = all_reduce sum @g (%w)" + one)));
  expect_violation(program(views("%w.1 mutates %w = all_reduce sum @g (%v)" + one)), "flight", "s",
                   "its result 'w.1' overlaps its operand 'v'");
  const std::string two = " as s\n%v.2 mutates %v.1, %r.2 mutates %r = wait s\noutput %v.2";
  expect_violation(program(views("%v.1 mutates %v, %w.1 mutates %w = all_reduce sum @g (%v, %w) as s\n"
                                 "%v.2 mutates %v.1, %w.2 mutates %w.1 = wait s\noutput %v.2")),
                   "flight", "s", "two of its results share memory");
  expect_legal(program(views("%v.1 mutates %v, %r: f32[3] = all_reduce sum @g (%v, %far)" + two)));
}

TEST(VerifierFlight, InPlaceCollectives) {
  expect_legal(program(R"(graph g ranks 2 group @g = [0, 1] input %x: f32[4]
%c: f32[4] comm(symmetric, @g) = pointwise { %0 = load %x store %0 }
%c.1 mutates %c = all_reduce sum @g (%c) as ar
%c.2 mutates %c.1 = wait ar
release ar
%c.3 mutates %c.2 = all_reduce sum @g (%c.2) as again
%c.4 mutates %c.3 = wait again
release again
output %c.4)"));
}

TEST(VerifierRegions, NoCollectiveUnderABranch) {
  expect_violation(program(R"(graph g ranks 2 group @g = [0, 1] input %x: f32[4] input %flag: bool[]
%y: f32[4] = branch (%flag, %x) {
  %r: f32[4] = all_reduce sum @g (%x) blocking
  yield %r
} else {
  yield %x
}
output %y)"),
                   "regions", "r", "a branch must not contain");
}

TEST(VerifierRegions, NoCollectiveInAWhile) {
  expect_violation(program(R"(graph g ranks 2 group @g = [0, 1] input %x: f32[4]
%go: bool[] = pointwise { %0 = constant bool 1 store %0 }
%go.1 mutates %go = while (%go, %x) {
  %r: f32[4] = call (%x) {
    %c: f32[4] = all_reduce sum @g (%x) blocking
    yield %c
  }
  yield %go
}
output %x)"),
                   "regions", "c", "a while must not contain");
}

TEST(VerifierRegions, ResultsOfAWhileMutateWhatIsThere) {
  expect_violation(program(R"(graph g input %x: f32[4]
%go: bool[] = pointwise { %0 = constant bool 1 store %0 }
%go.1 mutates %go, %y: f32[4] = while (%go, %x) as w {
  yield %go, %x
}
output %y)"),
                   "regions", "w", "may run zero times");
}

TEST(VerifierStructure, OperationsAreScheduledOnce) {
  Schedule s = program(kChain);
  s.nodes.push_back(s.nodes[0]);
  expect_violation(s, "structure", "a", "scheduled twice");
}

TEST(VerifierStructure, TypesAndShapesAreThoseOfTheParser) {
  Schedule s = program(kChain);
  s.graph.ops[0].as<Loops>()->body.instrs[0].dtype = DType::i64;
  expect_violation(s, "structure", "a", "load of i64 from 'x' of f32");
}

TEST(VerifierStructure, IndicesThatLeaveTheirBuffer) {
  expect_violation(program("graph g dim n in [1, 8] input %x: f32[n] %y: f32[n] = pointwise { %0 = load "
                           "%x[2*i0 + 2] store %0 } output %y"),
                   "structure", "y", "reaches 2*n");
  expect_violation(
      program("graph g input %x: f32[4] %y: f32[4] = pointwise { %0 = load %x[i0 - 1] store %0 } output %y"),
      "structure", "y", "reaches -1");
  expect_violation(program("graph g input %x: f32[4] %y: f32[4] = extern \"f\" reads(%x at 2 [4]) output %y"),
                   "structure", "y", "beyond its storage");
  expect_violation(
      program("graph g %y: f32[4] = pointwise { %0 = constant f32 0 store %0 at i0 + 1 } output %y"),
      "structure", "y", "reaches 4");
  // A mask may see to it.
  expect_legal(
      program("graph g input %x: f32[4] %y: f32[4] = pointwise { %i = index i64 i0 %z = constant i64 0 %m = "
              "gt %i, %z "
              "%0 = load %x[i0 - 1] if %m store %0 } output %y"));
}

// The caller provides the memory of a returned output; nothing provides that of an output that is not
// returned.
TEST(VerifierStructure, OutputStoragesAreReturned) {
  const std::string text =
      "graph g storage $s: output [16] input %x: f32[4] %y: f32[4] on $s = pointwise { %0 = load %x store %0 "
      "} ";
  expect_violation(program(text), "structure", "y", "which no output returns");
  expect_legal(program(text + "output %y"));
}

TEST(VerifierStructure, FusedNodesKeepTheirContract) {
  expect_violation(program("graph g input %x: f32[4, 4] fused f { %a: f32[4, 4] = gemm %x, %x } output %a"),
                   "structure", "f", "not a legal fused node");
}

TEST(VerifierStructure, RanksOfGroups) {
  Schedule s = program(kCollective);
  s.graph.groups[0].parts = {{0, 2}};
  expect_violation(s, "structure", "g", "not below the number of ranks, 2");
  s.graph.groups[0].parts = {{0, 1}, {1, 0}};
  expect_violation(s, "structure", "g", "occurs twice");
}

TEST(VerifierStructure, AMeshHasAsManyPointsAsThereAreRanks) {
  Schedule s = program(kCollective);
  s.graph.mesh = {{"a", 2}, {"b", 2}};
  expect_violation(s, "structure", s.graph.name, "do not multiply to the number of ranks, 2");
}

// ---- memory plans

std::string with_plan(const std::string& lines, const std::string& sizes = "arena 512 comm 0 live_peak 32") {
  return R"(graph g dim n in [1, 4] input %x: f32[n]
%a: f32[n] = pointwise { %0 = load %x store %0 }
%b: f32[n] = pointwise { %0 = load %a store %0 }
%c: f32[n] = pointwise { %0 = load %b[0] store %0 }
%d: f32[n] output = pointwise { %0 = load %c store %0 }
output %d
plan )" + sizes +
         " {\n" + lines + "}";
}

TEST(VerifierMemory, PlacesDoNotOverlapWhileBothLive) {
  const std::string c = "$c: arena 0 bytes 16 steps 2..3 ";
  expect_legal(program(with_plan("$a: arena 0 bytes 16 steps 0..1 $b: arena 256 bytes 16 steps 1..2 " + c)));
  // In place: b[i] is written where a[i] is read for the last time.
  expect_legal(
      program(with_plan("$a: arena 256 bytes 16 steps 0..1 $b: arena 256 bytes 16 steps 1..2 " + c)));
  // Shifted, it is not.
  expect_violation(
      program(with_plan("$a: arena 260 bytes 16 steps 0..1 $b: arena 256 bytes 16 steps 1..2 " + c)),
      "memory", "b", "shares bytes with 'a'");
  // c reads b[0] everywhere: not in place.
  expect_violation(
      program(with_plan("$a: arena 256 bytes 16 steps 0..1 $b: arena 0 bytes 16 steps 1..2 " + c)), "memory",
      "c", "shares bytes with 'b'");
}

TEST(VerifierMemory, SizesStepsAndSegments) {
  const std::string bc = "$b: arena 256 bytes 16 steps 1..2 $c: arena 0 bytes 16 steps 2..3 ";
  expect_violation(program(with_plan(bc)), "memory", "a", "no place");
  expect_violation(program(with_plan("$a: arena 0 bytes 8 steps 0..1 " + bc)), "memory", "a",
                   "needs up to 16");
  expect_violation(program(with_plan("$a: arena 0 bytes 16 steps 0..0 " + bc)), "memory", "a",
                   "lives in 0..1");
  expect_violation(program(with_plan("$a: arena 504 bytes 16 steps 0..1 " + bc)), "memory", "a",
                   "exceed the segment of 512");
  expect_violation(program(with_plan("$a: comm 0 bytes 16 steps 0..1 " + bc)), "memory", "a",
                   "wrong segment");
  expect_violation(
      program(with_plan("$a: arena 0 bytes 16 steps 0..1 " + bc, "arena 512 comm 0 live_peak 513")), "memory",
      "plan", "live peak");
}

TEST(VerifierMemory, FlightKeepsMemoryAlive) {
  const auto plan = [](const std::string& lines) {
    return program(kCollective + " plan arena 1024 comm 1024 live_peak 64 {\n" + lines + "}");
  };
  const std::string rest = "$other: arena 0 bytes 16 steps 2..7 $y: arena 64 bytes 16 steps 4..7 ";
  expect_legal(plan("$c: comm 0 bytes 16 steps 0..7 $r: comm 256 bytes 16 steps 1..5 " + rest));
  expect_violation(plan("$c: comm 0 bytes 16 steps 0..7 $r: comm 256 bytes 16 steps 1..4 " + rest), "memory",
                   "r", "lives in 1..5");
  expect_violation(plan("$c: comm 0 bytes 16 steps 0..7 $r: comm 128 bytes 16 steps 1..5 " + rest), "memory",
                   "r", "multiple of 256");
}

TEST(Verifier, CheckNamesThePassAndTheNode) {
  try {
    check(program(kChain, {"b", "a"}), "shuffle");
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), HasSubstr("after pass 'shuffle'"));
    EXPECT_THAT(e.what(), HasSubstr("'b': reads 'a' before it is written"));
  }
  check(program(kChain), "nothing");
}

}  // namespace
}  // namespace braid::ir
