// Which sends and receives a program issues together.
#include "codegen/cuda/transfers.h"

#include <gmock/gmock.h>

#include "ir/parser.h"
#include "passes/pass.h"
#include "passes/runner.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;

// Every unit but waits and releases, in order; those issued together on one line.
std::vector<std::string> order_of(const std::string& text) {
  ir::Schedule s = ir::parse_schedule(text);
  passes::run_passes(s, passes::parse_pass_list("plan_memory"));
  const std::vector<codegen::cuda::Unit> units = codegen::cuda::units_of(s);
  const codegen::cuda::MemoryMap memory(s, units);
  std::vector<std::string> out;
  int last = -1;
  for (const codegen::cuda::Unit& unit : codegen::cuda::group_transfers(s.graph, units, memory)) {
    const ir::Operation& op = s.graph[unit.ops[0]];
    if (op.as<ir::WaitKernel>() != nullptr || op.as<ir::ReleaseKernel>() != nullptr) continue;
    if (unit.transfers >= 0 && unit.transfers == last)
      out.back() += " " + op.name;
    else
      out.push_back(op.name);
    last = unit.transfers;
  }
  return out;
}

const std::string kTwoRanks = R"(graph g ranks 2 group @to = [0, 1] group @back = [1, 0]
input %x: f32[4] input %n: f32[4]
)";
const std::string kWaitOut0 = "wait out0 release out0\n", kWaitOut1 = "wait out1 release out1\n";

std::string send(const std::string& name, const std::string& what, const std::string& group = "to") {
  return "send @" + group + " (%" + what + ") peer 1 as " + name + "\n";
}
std::string recv(const std::string& name, const std::string& what, const std::string& group = "to") {
  return "%" + what + ": f32[4] = recv @" + group + " peer 0 as " + name + "\n";
}
std::string wait(const std::string& name, const std::string& what) {
  return "%" + what + ".1 mutates %" + what + " = wait " + name + " release " + name + "\n";
}
std::string sum(const std::string& to, const std::string& a, const std::string& b, bool output = false) {
  return "%" + to + ": f32[4] " + (output ? "output " : "") + "= pointwise { %0 = load %" + a + " %1 = load %" +
         b + " %2 = add %0, %1 store %2 }\n" + (output ? "output %" + to + "\n" : "");
}

TEST(Transfers, ThoseThatNeedNoneOfTheOthersAreTogether) {
  EXPECT_THAT(order_of(kTwoRanks + send("out0", "x") + recv("in0", "v") + sum("z", "x", "n") +
                       send("out1", "z", "back") + recv("in1", "w", "back") + kWaitOut0 + kWaitOut1 +
                       wait("in0", "v") + wait("in1", "w") + sum("y", "v.1", "w.1", true)),
              ElementsAre("z", "out0 in0 out1 in1", "y"));
}

TEST(Transfers, OneThatSendsOnComesLater) {
  EXPECT_THAT(order_of(kTwoRanks + send("out0", "x") + recv("in0", "v") + kWaitOut0 + wait("in0", "v") +
                       send("out1", "v.1", "back") + recv("in1", "w", "back") + kWaitOut1 + wait("in1", "w") +
                       sum("y", "v.1", "w.1", true)),
              ElementsAre("out0 in0", "out1 in1", "y"));
}

TEST(Transfers, OneThatTakesTheMemoryOfAnotherComesLaterWithItsPartner) {
  EXPECT_THAT(order_of(kTwoRanks + send("out0", "x") + recv("in0", "v") + send("out1", "n") + kWaitOut0 +
                       wait("in0", "v") + recv("in1", "w") + kWaitOut1 + wait("in1", "w") +
                       sum("y", "x", "w.1", true)),
              ElementsAre("out0 in0", "out1 in1", "y"));
}

// Otherwise rank 0 would send within its first group to rank 1, and rank 1 to rank 0, and neither would come to its second.
TEST(Transfers, AKernelDoesNotPartASendFromItsReceive) {
  const std::string program = kTwoRanks + send("out0", "x") + recv("in0", "v") + send("out1", "n") +
                              send("out2", "n", "back") + kWaitOut0 + wait("in0", "v") + sum("z", "x", "v.1") +
                              recv("in1", "w") + recv("in2", "u", "back") + wait("in1", "w") + wait("in2", "u") +
                              kWaitOut1 + "wait out2 release out2\n" + sum("s", "w.1", "u.1") +
                              sum("y", "z", "s", true);
  EXPECT_THAT(order_of(program), ElementsAre("out0 in0", "z", "out1 out2 in1 in2", "s", "y"));
}

TEST(Transfers, MessagesOfAPairStayInOrder) {
  EXPECT_THAT(order_of(kTwoRanks + send("out0", "x") + send("out1", "n") + recv("in0", "v") + kWaitOut0 +
                       wait("in0", "v") + sum("z", "x", "v.1") + recv("in1", "w") + kWaitOut1 +
                       wait("in1", "w") + sum("y", "z", "w.1", true)),
              ElementsAre("out0 in0", "z", "out1 in1", "y"));
}

// What a kernel overwrites must have been sent, even if its receive comes later.
TEST(Transfers, AKernelThatNeedsOneHasItBefore) {
  EXPECT_THAT(order_of(kTwoRanks + "%a: f32[4] = pointwise { %0 = load %x store %0 }\n" + send("out0", "a") +
                       kWaitOut0 + sum("b", "x", "n") + recv("in0", "v") + wait("in0", "v") +
                       sum("y", "b", "v.1", true)),
              ElementsAre("a", "out0", "b", "in0", "y"));
}

}  // namespace
}  // namespace braid::test
