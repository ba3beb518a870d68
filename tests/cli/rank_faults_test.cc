// A rank that is killed, is stopped or disagrees, through every command that starts ranks: the command ends
// in time with an error that names that rank, and leaves nothing behind. scripts/test_deep.sh repeats this.
#include <gmock/gmock.h>

#include <csignal>
#include <future>
#include <random>

#include "tests/cli/braid_process.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const std::string kCase = "collectives/all_reduce_dynamic";

Arguments compile_arguments() {
  return {model(kCase + "/model.onnx"), "--ranks", "2", "--dim", "batch=1..4", "--dim", "sequence=1..16"};
}

const Arguments kFaultyCompiler = {"BRAID_CXXFLAGS=-O0 -include " + paths::source("tests/cli/fault.h")};

std::string program() { return compiled("rank_faults", compile_arguments(), kFaultyCompiler); }

// The victim is rank 1. When it is struck differs from run to run.
Arguments fault(const std::string& kind, const Folder& folder) {
  const int delay_ms = static_cast<int>(std::random_device{}() % 40);
  return kFaultyCompiler +
         Arguments{"BRAID_TEST_FAULT=" + kind + ":1:" + std::to_string(delay_ms) + ":" + (folder / "struck"),
                   "BRAID_TIMEOUT_MS=1000"};
}

struct Command {
  const char* name;
  Arguments (*arguments)(const Folder& folder);
};
std::ostream& operator<<(std::ostream& out, const Command& command) { return out << command.name; }

const Arguments kInputs = {"--random", "7", "--dim", "batch=2", "--dim", "sequence=3"};
// A model that is compiled by the way has its dimensions from compile_arguments().
const Arguments kModelInputs = {"--random", "7"};

const Command kCommands[] = {
    {"run",
     [](const Folder&) {
       return Arguments{"run", program()} + kInputs;
     }},
    {"run_of_a_model", [](const Folder&) { return Arguments{"run"} + compile_arguments() + kModelInputs; }},
    {"run_with_a_timeline",
     [](const Folder& folder) {
       return Arguments{"run",           program(),
                        "--trace",       folder / "trace.json",
                        "--trace-costs", folder / "costs.json"} +
              kInputs;
     }},
    {"run_over_a_paced_link",
     [](const Folder&) {
       return Arguments{"run", program(), "--link", "5us,10GB/s"} + kInputs;
     }},
    {"bench",
     [](const Folder&) {
       return Arguments{"bench", program()} + kInputs;
     }},
    {"verify", [](const Folder&) { return Arguments{"verify"} + compile_arguments() + kModelInputs; }},
    {"test",
     [](const Folder&) {
       return Arguments{"test", model(kCase), "--program", program()};
     }},
};

class RankFaults : public ::testing::TestWithParam<Command> {};
INSTANTIATE_TEST_SUITE_P(Of, RankFaults, ::testing::ValuesIn(kCommands),
                         [](const auto& info) { return std::string(info.param.name); });

void expect_failure(const ProcessResult& result, const std::string& verdict) {
  // A failed case is a verdict, whatever made it fail.
  EXPECT_EQ(result.exit_code, result.out.find("FAILED") != std::string::npos ? 1 : 4)
      << result.out << result.err;
  const std::string said = result.out + result.err;  // `braid test` reports failures with the results
  EXPECT_THAT(said, AllOf(HasSubstr("BR0007"), HasSubstr("rank 1 (process "), HasSubstr(verdict)));
}

TEST_P(RankFaults, AKilledRankIsNamed) {
  const Folder folder, temporary;
  const Arguments environment = fault("kill", folder) + Arguments{"TMPDIR=" + temporary.path().string()};
  expect_failure(braid(GetParam().arguments(folder), {}, environment), ") was killed by signal 9");
  EXPECT_THAT(temporary.names(), ::testing::IsEmpty());
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("struck"));
}

TEST_P(RankFaults, AStoppedRankIsNamed) {
  const Folder folder, temporary;
  const Arguments environment = fault("stop", folder) + Arguments{"TMPDIR=" + temporary.path().string()};
  expect_failure(braid(GetParam().arguments(folder), {}, environment), ") was stopped by signal 19");
  EXPECT_THAT(temporary.names(), ::testing::IsEmpty());
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("struck"));
}

// Rank 1 has an input of another size, and so another all_reduce. The program is the one without faults.
std::string plain_program() { return compiled("all_reduce", compile_arguments()); }

const char* const kSizes[] = {"2,3,6", "1,3,6"};

Arguments differing_inputs(const Folder& folder) {
  write_floats(folder / "0.npy", {2, 3, 6}, std::vector<float>(36, 1.0f));
  write_floats(folder / "1.npy", {1, 3, 6}, std::vector<float>(18, 1.0f));
  return {"--input", "x@0=" + folder / "0.npy", "--input", "x@1=" + folder / "1.npy"};
}

// A TensorProto of ones, [batch, 3, 6].
std::string tensor_proto(char batch) {
  std::string text = {8, batch, 8, 3, 8, 6, 16, 1, 0x4a};  // dims, data_type float, raw_data
  const std::size_t bytes = static_cast<std::size_t>(batch) * 18 * sizeof(float);
  text += {static_cast<char>(0x80 | (bytes & 0x7f)), static_cast<char>(bytes >> 7)};
  const float one = 1;
  for (std::size_t at = 0; at < bytes; at += sizeof one)
    text.append(reinterpret_cast<const char*>(&one), sizeof one);
  return text;
}

Arguments differing_case(const Folder& folder) {
  fs::create_directories(folder / "case/test_data_set_0/rank0");
  fs::create_directories(folder / "case/test_data_set_0/rank1");
  fs::copy_file(model(kCase) + "/model.onnx", folder / "case/model.onnx");
  for (const char rank : {0, 1}) {
    const std::string data = "case/test_data_set_0/rank" + std::to_string(rank);
    const std::string tensor = tensor_proto(rank == 0 ? 2 : 1);
    folder.file(data + "/input_0.pb", tensor);
    folder.file(data + "/output_0.pb", tensor);
  }
  return {"test", folder / "case", "--program", plain_program()};
}

const Command kDisagreeing[] = {
    {"run",
     [](const Folder& f) {
       return Arguments{"run", plain_program()} + differing_inputs(f);
     }},
    {"run_on_threads",
     [](const Folder& f) {
       return Arguments{"run", plain_program(), "--ranks-as-threads"} + differing_inputs(f);
     }},
    {"run_with_a_timeline",
     [](const Folder& f) {
       return Arguments{"run", plain_program(), "--trace", f / "trace.json"} + differing_inputs(f);
     }},
    {"run_over_a_paced_link",
     [](const Folder& f) {
       return Arguments{"run", plain_program(), "--link", "5us,10GB/s"} + differing_inputs(f);
     }},
    {"bench",
     [](const Folder& f) {
       return Arguments{"bench", plain_program()} + differing_inputs(f);
     }},
    {"verify",
     [](const Folder& f) { return Arguments{"verify"} + compile_arguments() + differing_inputs(f); }},
    {"test", differing_case},
};

class RankFaultsDisagreement : public ::testing::TestWithParam<Command> {};
INSTANTIATE_TEST_SUITE_P(Of, RankFaultsDisagreement, ::testing::ValuesIn(kDisagreeing),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(RankFaultsDisagreement, ShowsBothSides) {
  const Folder folder;
  const ProcessResult result = braid(GetParam().arguments(folder), {}, {"BRAID_TIMEOUT_MS=20000"});
  EXPECT_EQ(result.exit_code, result.out.find("FAILED") != std::string::npos ? 1 : 4)
      << result.out << result.err;
  EXPECT_THAT(result.out + result.err,
              AllOf(HasSubstr("BR0007"), HasSubstr("ranks disagree about collective"),
                    HasSubstr("rank 0 calls all_reduce"), HasSubstr("rank 1 calls all_reduce"),
                    HasSubstr("f32 x 36"), HasSubstr("f32 x 18")));
  EXPECT_FALSE(fs::exists(folder / "trace.json"));
}

// Rank 1 of two that a launcher started. A stopped one stays: it is its launcher's.
class RankFaultsLaunched : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, RankFaultsLaunched, ::testing::Values("kill", "stop"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RankFaultsLaunched, IsNamedByTheOther) {
  const Folder folder, temporary;
  const std::string faulty = program();
  std::promise<int> victim;
  const auto rank = [&](int r) {
    const Arguments environment =
        fault(GetParam(), folder) + Arguments{"RANK=" + std::to_string(r), "WORLD_SIZE=2",
                                              "TMPDIR=" + temporary.path().string(),
                                              "TORCHELASTIC_RUN_ID=" + folder.path().string()};
    return braid(Arguments{"run", faulty} + kInputs, {}, environment, [&](int process) {
      if (r == 1) victim.set_value(process);
    });
  };
  std::future<ProcessResult> second = std::async(std::launch::async, rank, 1);
  const ProcessResult first = rank(0);
  ::kill(victim.get_future().get(), SIGKILL);
  EXPECT_EQ(second.get().exit_code, 128 + SIGKILL);
  EXPECT_EQ(first.exit_code, 4);
  EXPECT_THAT(first.err, AllOf(HasSubstr("rank 0: error BR0"),
                               AnyOf(HasSubstr("rank 1"), HasSubstr("have not arrived: 1"))));
}

}  // namespace
}  // namespace braid::test
