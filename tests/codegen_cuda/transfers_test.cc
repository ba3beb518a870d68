// Which sends and receives a program issues together.
#include "codegen/cuda/transfers.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "codegen/cuda/streams.h"
#include "codegen/cuda/touches.h"
#include "driver/compile.h"
#include "ir/collective_table.h"
#include "ir/parser.h"
#include "passes/pass.h"
#include "passes/runner.h"
#include "tests/support/random.h"
#include "tests/support/random_collectives.h"

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
  return "%" + to + ": f32[4] " + (output ? "output " : "") + "= pointwise { %0 = load %" + a +
         " %1 = load %" + b + " %2 = add %0, %1 store %2 }\n" + (output ? "output %" + to + "\n" : "");
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

// Otherwise each rank would send within its first group to the other, and neither would reach its second
// group.
TEST(Transfers, AKernelDoesNotPartASendFromItsReceive) {
  const std::string program = kTwoRanks + send("out0", "x") + recv("in0", "v") + send("out1", "n") +
                              send("out2", "n", "back") + kWaitOut0 + wait("in0", "v") +
                              sum("z", "x", "v.1") + recv("in1", "w") + recv("in2", "u", "back") +
                              wait("in1", "w") + wait("in2", "u") + kWaitOut1 + "wait out2 release out2\n" +
                              sum("s", "w.1", "u.1") + sum("y", "z", "s", true);
  EXPECT_THAT(order_of(program), ElementsAre("out0 in0", "z", "out1 out2 in1 in2", "s", "y"));
}

TEST(Transfers, MessagesOfAPairStayInOrder) {
  EXPECT_THAT(order_of(kTwoRanks + send("out0", "x") + send("out1", "n") + recv("in0", "v") + kWaitOut0 +
                       wait("in0", "v") + sum("z", "x", "v.1") + recv("in1", "w") + kWaitOut1 +
                       wait("in1", "w") + sum("y", "z", "w.1", true)),
              ElementsAre("out0 in0", "z", "out1 in1", "y"));
}

// Memory that a kernel overwrites must have been sent before, even if its receive comes later.
TEST(Transfers, AKernelThatNeedsOneHasItBefore) {
  EXPECT_THAT(order_of(kTwoRanks + "%a: f32[4] = pointwise { %0 = load %x store %0 }\n" + send("out0", "a") +
                       kWaitOut0 + sum("b", "x", "n") + recv("in0", "v") + wait("in0", "v") +
                       sum("y", "b", "v.1", true)),
              ElementsAre("a", "out0", "b", "in0", "y"));
}

// After any passes, nothing overtakes work that it conflicts with or belongs to. A transfer is alone only if
// its partner must come later.
TEST(Transfers, GroupsOfRandomProgramsKeepEveryOrderThatMatters) {
  const std::uint64_t first = first_seed();
  std::size_t together = 0, parted = 0;
  for (int k = 0; k < random_cases(6); ++k) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    ir::Schedule s = random_collectives(seed, {.nccl = true}).schedule;
    CompileOptions options;
    options.target = "cuda";
    optimise(s, options);
    const std::vector<codegen::cuda::Unit> before = codegen::cuda::units_of(s);
    const codegen::cuda::MemoryMap memory(s, before);
    const std::vector<codegen::cuda::Unit> after = codegen::cuda::group_transfers(s.graph, before, memory);
    ASSERT_EQ(after.size(), before.size());
    std::map<ir::OpId, std::size_t> place;
    for (std::size_t u = 0; u < after.size(); ++u) place[after[u].ops[0]] = u;
    ASSERT_EQ(place.size(), before.size());
    const auto transfer = [&](const codegen::cuda::Unit& unit) {
      const auto* kernel = s.graph[unit.ops[0]].as<ir::CollectiveKernel>();
      return kernel != nullptr && ir::row_of(kernel->kind).point_to_point ? kernel : nullptr;
    };
    std::vector<std::vector<codegen::cuda::Touch>> touches;
    for (const codegen::cuda::Unit& unit : before)
      touches.push_back(codegen::cuda::kind_of(s.graph, unit) == codegen::cuda::UnitKind::nothing
                            ? std::vector<codegen::cuda::Touch>()
                            : touches_of(s.graph, unit, memory));
    std::size_t last = 0;  // of those that are no transfers
    for (std::size_t b = 0; b < before.size(); ++b) {
      const std::size_t at = place[before[b].ops[0]];
      const ir::CollectiveKernel* mine = transfer(before[b]);
      if (mine == nullptr) {
        EXPECT_LE(last, at);
        last = at;
      }
      for (std::size_t a = 0; a < b; ++a) {
        const std::size_t other_at = place[before[a].ops[0]];
        const ir::CollectiveKernel* other = transfer(before[a]);
        const bool same =
            mine != nullptr && other != nullptr && after[at].transfers == after[other_at].transfers;
        if (mine != nullptr && other != nullptr && mine->kind == other->kind && mine->group == other->group &&
            mine->root == other->root) {
          EXPECT_LT(other_at, at);
        }
        if (conflict(s.graph, touches[b], touches[a]) == codegen::cuda::Conflict::none) continue;
        EXPECT_LT(other_at, at) << s.graph[before[a].ops[0]].name << ", " << s.graph[before[b].ops[0]].name;
        EXPECT_FALSE(same) << s.graph[before[a].ops[0]].name << ", " << s.graph[before[b].ops[0]].name;
      }
    }
    // Members of a group are adjacent; sends and receives of a group of two ranks meet in it.
    std::set<int> seen;
    std::map<int, std::map<std::pair<int, int>, int>>
        balance;  // by group of transfers: of ranks, and receiver
    for (std::size_t u = 0; u < after.size(); ++u) {
      const ir::CollectiveKernel* kernel = transfer(after[u]);
      EXPECT_EQ(kernel != nullptr, after[u].transfers >= 0);
      if (kernel == nullptr) continue;
      if (u == 0 || after[u - 1].transfers != after[u].transfers) {
        EXPECT_TRUE(seen.insert(after[u].transfers).second);
      }
      const bool send = kernel->kind == ir::CollectiveKind::send;
      if (s.graph[kernel->group].size() == 2)
        balance[after[u].transfers][{kernel->group.index, send ? kernel->root : 1 - kernel->root}] +=
            send ? 1 : -1;
    }
    for (const auto& [group, ways] : balance) {
      for (const auto& [way, count] : ways) ++(count == 0 ? together : parted);
    }
  }
  EXPECT_GT(together, 0u);
  EXPECT_EQ(parted, 0u);
}

}  // namespace
}  // namespace braid::test
