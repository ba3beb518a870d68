// A rank of a CUDA program, in a process of its own, that is killed, stopped, hangs or disagrees: in each
// collective, and through every command that starts ranks. The command ends in time, every rank that waits
// for it names it, and nothing is left behind. scripts/test_deep.sh repeats this.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <random>

#include "tests/cli/cuda_programs.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// The limit of a run: the time-outs of the step, of silence and of the parent, and the build if it is the
// first.
constexpr std::chrono::seconds kLimit{120};

int random_below(int n) { return static_cast<int>(std::random_device{}() % static_cast<unsigned>(n)); }

struct Collective {
  const char* name;
  int call;               // its number among a rank's calls of NCCL
  int call_growth;        // for each rank more than two
  bool transfer = false;  // only ranks 0 and 1 take part
};
std::ostream& operator<<(std::ostream& out, const Collective& collective) { return out << collective.name; }

// In `create` ranks ask each other whether they can begin.
constexpr Collective kCreate{"create", 1, 0};
constexpr Collective kCollectives[] = {{"all_reduce", 2, 0}, {"all_gather", 3, 0}, {"reduce_scatter", 4, 0},
                                       {"broadcast", 5, 0},  {"all_to_all", 6, 0}, {"transfer", 10, 2, true}};

// How a rank ends, what its parent says, and what the others say of it.
struct Fault {
  const char* kind;
  const char* verdict;
  const char* reason;
};

constexpr Fault kKill{"kill", "was killed by signal 9", "has ended"};
// Once one of the others has said so, the parent kills it.
constexpr Fault kStop{"stop", "was stopped by signal 19", "has (sent nothing for|ended)"};
constexpr Fault kHang{"hang", "still ran 1000 ms after the run had failed", "has issued 0 steps, others 1"};

// One run with a fault.
struct Struck {
  int ranks, victim;
  ProcessResult result;
};

Struck run_with(const char* kind, const Collective& collective) {
  const int ranks = 2 + random_below(3);
  const int victim = random_below(collective.transfer ? 2 : ranks);
  // NCCL's all-to-all is sends and receives, the first two with rank 0: a rank does not disagree with itself.
  const bool to_itself = collective.call == 6 && victim == 0 && std::string(kind) != "stall";
  const int call = collective.call + (ranks - 2) * collective.call_growth + (to_itself ? 2 : 0);
  const std::string program = cuda_collectives(ranks);
  const Folder temporary;
  Struck struck{
      ranks, victim,
      braid(Arguments{"run", program, "--random", "7"} + kEmulatedProcesses, {},
            cuda_environment() + Arguments{fmt::format("BRAID_TEST_NCCL_FAULT={}:{}:{}", kind, victim, call),
                                           "BRAID_TIMEOUT_MS=1000", "TMPDIR=" + temporary.path().string()},
            {}, kLimit)};
  EXPECT_THAT(temporary.names(), ::testing::IsEmpty());
  EXPECT_EQ(struck.result.exit_code, 4) << struck.result.err;
  return struck;
}

void expect_named(const Struck& struck, const Fault& fault, const Collective& collective) {
  const std::string& said = struck.result.err;
  EXPECT_THAT(said, AllOf(HasSubstr("BR0007"), ContainsRegex(fmt::format("rank {} \\(process [0-9]+\\) {}",
                                                                         struck.victim, fault.verdict))));
  for (int r = 0; r < (collective.transfer ? 2 : struck.ranks); ++r) {
    if (r == struck.victim) continue;
    EXPECT_THAT(said, ContainsRegex(fmt::format(
                          "rank {} threw: error BR0726: [^\n]*rank {} \\(process [0-9]+ on [^)]+\\) {}", r,
                          struck.victim, fault.reason)));
  }
}

class RankFaultsInCollective : public ::testing::TestWithParam<Collective> {};
INSTANTIATE_TEST_SUITE_P(Cuda, RankFaultsInCollective, ::testing::ValuesIn(kCollectives),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(RankFaultsInCollective, AKilledRankIsNamedByAllThatWait) {
  expect_named(run_with("kill", GetParam()), kKill, GetParam());
}

TEST_P(RankFaultsInCollective, AStoppedRankIsNamedByAllThatWait) {
  expect_named(run_with("stop", GetParam()), kStop, GetParam());
}

// The process of such a rank lives, answers and has issued as much as the others. Ranks that take no part
// wait for it at the end. The rank itself says the same as the others, if its parent leaves it the time.
TEST_P(RankFaultsInCollective, ARankWhoseDeviceStallsIsNamedByAllThatWait) {
  const Collective& collective = GetParam();
  const Struck struck = run_with("stall", collective);
  const std::string behind =
      "(has issued as much as others, but its device is|has issued 1 step, others have finished)";
  for (int r = 0; r < struck.ranks; ++r) {
    const std::string named = fmt::format("rank {} \\(process [0-9]+ on [^)]+\\) {}", struck.victim,
                                          "(has failed: [^\n]*which )?" + behind);
    const std::string itself = "the others wait for this rank, which " + behind;
    const std::string stuck =
        fmt::format("rank {} \\(process [0-9]+\\) still ran 1000 ms after the run had failed", r);
    const std::string says = fmt::format("rank {} threw: error BR0726: [^\n]*", r);
    EXPECT_THAT(struck.result.err,
                ContainsRegex(r == struck.victim ? says + itself + "|" + stuck : says + named));
  }
  EXPECT_THAT(struck.result.err, HasSubstr("BR0007"));
}

TEST(RankFaultsOfCuda, ARankWhoseDeviceStallsBeforeItsFirstStepIsNamed) {
  const Struck struck = run_with("stall", kCreate);
  for (int r = 0; r < struck.ranks; ++r) {
    if (r == struck.victim) continue;
    EXPECT_THAT(struck.result.err,
                ContainsRegex(fmt::format("rank {} threw: error BR0726: [^\n]*rank {} \\(process [0-9]+ on "
                                          "[^)]+\\) (has failed: [^\n]*which )?has issued as much as others, "
                                          "but its device is before the first step",
                                          r, struck.victim)));
  }
}

TEST_P(RankFaultsInCollective, DisagreementShowsBothSides) {
  const Struck struck = run_with("disagree", GetParam());
  EXPECT_THAT(struck.result.err,
              AllOf(HasSubstr("BR0007"), ContainsRegex("BR072[56]"), HasSubstr("collective mismatch"),
                    ContainsRegex(fmt::format("rank {} calls nccl", struck.victim))));
}

TEST(RankFaultsOfCuda, ARankThatIsKilledInCreateIsNamedByAllThatWait) {
  expect_named(run_with("kill", kCreate), kKill, kCreate);
}

TEST(RankFaultsOfCuda, ARankThatHangsIsNamedByAllThatWait) {
  expect_named(run_with("hang", kCollectives[0]), kHang, kCollectives[0]);
}

TEST(RankFaultsOfCuda, WithoutAFaultProcessesGiveTheResultsOfThreads) {
  for (const int ranks : {2, 3, 4}) {
    const Folder folder;
    for (const char* how : {"--ranks-as-threads", "--ranks-as-processes"}) {
      const ProcessResult result = braid({"run", cuda_collectives(ranks), "--random", "7", "--device",
                                          "emulated", how, "--repeat", "3", "-o", folder / how},
                                         {}, cuda_environment());
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
    for (int r = 0; r < ranks; ++r) {
      const std::string file = fmt::format("/rank{}/y.npy", r);
      EXPECT_EQ(read_text(folder / ("--ranks-as-threads" + file)),
                read_text(folder / ("--ranks-as-processes" + file)));
      EXPECT_NE(read_text(folder / ("--ranks-as-threads" + file)), "");
    }
  }
}

const Arguments kInputs = {"--random", "7", "--dim", "batch=2", "--dim", "sequence=3"};

struct Command {
  const char* name;
  Arguments (*arguments)();
  bool compiles = false;  // which takes long
};
std::ostream& operator<<(std::ostream& out, const Command& command) { return out << command.name; }

const Command kCommands[] = {
    {"run",
     [] {
       return Arguments{"run", cuda_case_program()} + kInputs;
     }},
    {"bench",
     [] {
       return Arguments{"bench", cuda_case_program()} + kInputs;
     }},
    {"test",
     [] {
       return Arguments{"test", model(kCudaCase), "--program", cuda_case_program()};
     }},
    {"run_of_a_model",
     [] {
       return Arguments{"run"} + cuda_case_arguments() + Arguments{"--random", "7"};
     },
     true},
    {"verify",
     [] {
       return Arguments{"verify"} + cuda_case_arguments() + Arguments{"--random", "7"};
     },
     true},
};

class RankFaultsOfCudaCommand : public ::testing::TestWithParam<Command> {};
INSTANTIATE_TEST_SUITE_P(Of, RankFaultsOfCudaCommand, ::testing::ValuesIn(kCommands),
                         [](const auto& info) { return std::string(info.param.name); });

void expect_failure(const ProcessResult& result, const Fault& fault) {
  // A failed case is a verdict, whatever made it fail.
  EXPECT_EQ(result.exit_code, result.out.find("FAILED") != std::string::npos ? 1 : 4)
      << result.out << result.err;
  const std::string said = result.out + result.err;  // `braid test` reports failures with the results
  EXPECT_THAT(
      said,
      AllOf(HasSubstr("BR0007"), ContainsRegex(fmt::format("rank 1 \\(process [0-9]+\\) {}", fault.verdict)),
            ContainsRegex(fmt::format(
                "rank 0 threw: error BR0726: [^\n]*rank 1 \\(process [0-9]+ on [^)]+\\) {}", fault.reason))));
}

TEST_P(RankFaultsOfCudaCommand, ALostRankIsNamed) {
  for (const Fault& fault : {kKill, kStop}) {
    if (GetParam().compiles && std::string(fault.kind) == "stop") continue;
    const Folder temporary;
    expect_failure(
        braid(GetParam().arguments() + kEmulatedProcesses, {},
              cuda_environment() + Arguments{fmt::format("BRAID_TEST_NCCL_FAULT={}:1:1", fault.kind),
                                             "BRAID_TIMEOUT_MS=1000", "TMPDIR=" + temporary.path().string()}),
        fault);
    EXPECT_THAT(temporary.names(), ::testing::IsEmpty());
  }
}

// Struck at any time: while the ranks meet, while NCCL's communicator is made, in the step, or later.
TEST(RankFaultsOfCuda, ALostRankIsNamedWheneverItIsStruck) {
  for (const Fault& fault : {kKill, kStop}) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Folder folder, temporary;
      const int delay_ms = random_below(60);
      SCOPED_TRACE(fmt::format("{} after {} ms", fault.kind, delay_ms));
      const ProcessResult result = braid(
          Arguments{"run", cuda_case_program()} + kInputs + kEmulatedProcesses, {},
          cuda_environment() +
              Arguments{fmt::format("BRAID_TEST_FAULT={}:1:{}:{}", fault.kind, delay_ms, folder / "struck"),
                        "BRAID_TIMEOUT_MS=1000", "TMPDIR=" + temporary.path().string()});
      EXPECT_EQ(result.exit_code, 4) << result.err;
      EXPECT_THAT(result.err,
                  AllOf(HasSubstr("BR0007"), HasSubstr("rank 0 threw: error BR0726: "),
                        ContainsRegex(fmt::format("rank 1 \\(process [0-9]+\\) {}", fault.verdict))));
      EXPECT_THAT(temporary.names(), ::testing::IsEmpty());
    }
  }
}

// A right run is no fault, however much longer than the time-out some ranks take for their steps.
TEST(RankFaultsOfCuda, RanksWithMuchMoreToDoAreWaitedFor) {
  std::string transfers;
  for (int k = 0; k < 8; ++k) {
    transfers += fmt::format(R"(send @pair (%x) peer 1 as out{0}
%v{0}: f32[64] = recv @pair peer 0 as in{0}
wait out{0}
release out{0}
%v{0}.1 mutates %v{0} = wait in{0}
release in{0}
)",
                             k);
  }
  const std::string text = fmt::format(R"(graph unequal
ranks 3
group @pair = [1, 2]
input %x: f32[64]
{}%y: f32[64] output = pointwise {{ %0 = load %x %1 = add %0, %0 store %1 }}
output %y
)",
                                       transfers);
  const Folder folder;
  const std::string program =
      compiled("cuda_unequal", {folder.file("unequal.braid", text), "--target", "cuda", "--emit", "source"});
  const ProcessResult result =
      braid(Arguments{"run", program, "--random", "1", "--repeat", "40"} + kEmulatedProcesses, {},
            cuda_environment() + Arguments{"BRAID_TIMEOUT_MS=1000", "BRAID_EMULATED_DELAY_US=10000"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(RankFaultsOfCuda, InputsOfDifferentSizesAreRefusedBeforeTheRanksStart) {
  const Folder folder;
  write_floats(folder / "0.npy", {2, 3, 6}, std::vector<float>(36, 1.0f));
  write_floats(folder / "1.npy", {1, 3, 6}, std::vector<float>(18, 1.0f));
  const ProcessResult result =
      braid(Arguments{"run", cuda_case_program(), "--input", "x@0=" + folder / "0.npy", "--input",
                      "x@1=" + folder / "1.npy"} +
                kEmulatedProcesses,
            {}, cuda_environment());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("BR0723"), HasSubstr("rank 1: "), HasSubstr("[2,3,6]"), HasSubstr("[1,3,6]")));
}

}  // namespace
}  // namespace braid::test
