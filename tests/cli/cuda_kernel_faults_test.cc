// CUDA programs whose kernels fault, touch the host's memory or never end, or whose steps are not joined with
// their caller's stream. Each command reports this by name, in time, however ranks are run.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <utility>

#include "tests/cli/cuda_programs.h"
#include "tests/cli/paths.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// The limit of one run, with the build if it is the first.
constexpr std::chrono::seconds kLimit{120};

const std::string kCompiler = "CXX=c++ -I" + paths::source() + " -DBRAID_EMULATED_DEVICE -include " +
                              paths::source("tests/cli/cuda_kernel_fault.h");
// Limits in processor time. Ranks wait for one another in real time, which says nothing on a busy machine, so
// they give up only after BRAID_EMULATED_HANG_MS more.
const std::string kThreadLimit = "BRAID_EMULATED_TIMEOUT_MS=500", kBlockLimit = "BRAID_EMULATED_HANG_MS=1000";

std::string twice() {
  const Folder folder;
  return compiled(
      "cuda_kernel_twice",
      {folder.file("twice.braid",
                   "graph twice\ninput %x: f32[8]\n%y: f32[8] output = pointwise from \"/mlp/Add\" { %0 = "
                   "load %x %1 = add %0, %0 store %1 }\noutput %y\n"),
       "--target", "cuda", "--emit", "source"});
}

std::string sum_of_two() {
  const Folder folder;
  return compiled(
      "cuda_kernel_sum",
      {folder.file(
           "sum.braid",
           "graph sum\nranks 2\ngroup @all = [0, 1]\ninput %x: f32[8]\n%h: f32[8] = pointwise { %0 = "
           "load %x %1 = neg %0 store %1 }\n%r: f32[8] = all_reduce sum @all (%h) as "
           "reduce\n%r.1 mutates %r = wait reduce\nrelease reduce\n%y: f32[8] output = pointwise { %0 "
           "= load %r.1 %1 = add %0, %0 store %1 }\noutput %y\n"),
       "--target", "cuda", "--emit", "source"});
}

ProcessResult run(std::vector<std::string> arguments, const std::string& fault,
                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> environment = {kCompiler};
  if (!fault.empty()) environment.push_back("BRAID_TEST_KERNEL_FAULT=" + fault);
  environment.insert(environment.end(), more.begin(), more.end());
  arguments.insert(arguments.end(), {"--device", "emulated"});
  return braid(arguments, {}, environment, {}, kLimit);
}

struct PlantedKernel {
  const char* kind;
  const char* number;
  const char* finding;
};
constexpr PlantedKernel kPlanted[] = {
    {"heap", "BR0725", "illegal access: planted_read_kernel"},
    {"stack", "BR0725", "illegal access: planted_write_kernel"},
    {"variable", "BR0725", "illegal access: planted_write_kernel"},
    {"null", "BR0725", "illegal access: planted_write_kernel"},
    {"trap", "BR0725", "kernel fault: planted_trap_kernel"},
    {"divide", "BR0725", "kernel fault: planted_divide_kernel"},
    {"nest", "BR0725", "kernel fault: planted_nest_kernel"},
    {"endless", "BR0726", "kernel time-out: planted_endless_kernel"},
    {"barriers", "BR0726", "kernel time-out: planted_barriers_kernel"},
};

TEST(CudaKernelFaults, NameKernelNodeAndThread) {
  const ProcessResult right = run({"run", twice(), "--random", "1"}, "");
  ASSERT_EQ(right.exit_code, 0) << right.err;
  for (const PlantedKernel& planted : kPlanted) {
    const ProcessResult result = run({"run", twice(), "--random", "1"}, fmt::format("{}:0", planted.kind),
                                     {kThreadLimit, kBlockLimit});
    EXPECT_EQ(result.exit_code, 4) << planted.kind;
    EXPECT_THAT(
        result.err,
        AllOf(HasSubstr(fmt::format("error {}: program 'twice': ", planted.number)),
              HasSubstr(fmt::format("{} [/mlp/Add] on rank 0 stream 0, thread (0,0,0) of block (0,0,0): ",
                                    planted.finding))));
  }
}

TEST(CudaKernelFaults, EndEveryCommandHoweverRanksAreRun) {
  const std::vector<std::vector<std::string>> commands = {{"run", sum_of_two(), "--random", "1"},
                                                          {"bench", sum_of_two(), "--repeat", "2"}};
  for (const auto& command : commands) {
    for (const char* ranks : {"--ranks-as-threads", "--ranks-as-processes"}) {
      for (const auto& [kind, number] :
           {std::pair("endless", "BR0726"), std::pair("trap", "BR0725"), std::pair("early_trap", "BR0725")}) {
        SCOPED_TRACE(fmt::format("{} {} {}", command[0], ranks, kind));
        std::vector<std::string> arguments = command;
        arguments.push_back(ranks);
        const ProcessResult result =
            run(arguments, fmt::format("{}:1", kind), {"BRAID_TIMEOUT_MS=20000", kThreadLimit});
        EXPECT_EQ(result.exit_code, 4);
        EXPECT_THAT(result.err, AllOf(HasSubstr("BR0007"), HasSubstr(number),
                                      ContainsRegex("planted_[a-z]+_kernel [^\n]*on rank 1 stream 0, thread "
                                                    "\\(0,0,0\\) of block \\(0,0,0\\): ")));
      }
    }
  }
}

// braid run has a stream of its own, as callers do, and uses its buffers again at once.
TEST(CudaKernelFaults, StepsThatAreNotJoinedWithTheCallersStreamAreFound) {
  for (const char* steps : {"1", "3"}) {
    const ProcessResult fork = run({"run", twice(), "--random", "1", "--repeat", steps}, "no_fork:0");
    EXPECT_EQ(fork.exit_code, 4);
    EXPECT_THAT(fork.err,
                AllOf(HasSubstr("BR0725"), HasSubstr("does not follow what was on the caller's stream"),
                      HasSubstr("race: nothing orders")));
    const ProcessResult join = run({"run", twice(), "--random", "1", "--repeat", steps}, "no_join:0");
    EXPECT_EQ(join.exit_code, 4);
    EXPECT_THAT(join.err, AllOf(HasSubstr("BR0725"), HasSubstr("does not wait for the last work that a step"),
                                HasSubstr("race: nothing orders")));
  }
}

TEST(CudaKernelFaults, VariablesThatRanksShareAreFound) {
  const std::vector<std::string> arguments = {"run", sum_of_two(), "--random", "1", "--repeat", "2"};
  const ProcessResult result = run(arguments, "", {"BRAID_TEST_SHARED_COUNTER=1"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err,
              ContainsRegex("race: host code \\[[^]]*\\] of several ranks touches a static variable"));
  EXPECT_EQ(run(arguments, "").exit_code, 0);
}

TEST(CudaKernelFaults, TooLittleMemoryIsTheUsersErrorWithItsNumber) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need all addresses";
#endif
  ASSERT_EQ(run({"run", twice(), "--random", "1"}, "").exit_code, 0);  // builds it
  const Folder folder;
  const std::string limited =
      folder.file("limited", "#!/bin/sh\nulimit -v 3000000\nexec " + paths::executable() + " \"$@\"\n");
  fs::permissions(limited, fs::perms::owner_all);
  const ProcessResult result = run({"run", twice(), "--random", "1"}, "", {"BRAID_EXECUTABLE=" + limited});
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("error BR0019: program 'twice': "), HasSubstr("ulimit -v")));
}

}  // namespace
}  // namespace braid::test
