// braid check: certificate or witness, of texts, models and compiled folders.
#include <gmock/gmock.h>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text(const std::string& first, const std::string& second) {
  const auto sum = [](const std::string& group) {
    return "%" + group + ".sum: f32[4] = all_reduce sum @" + group + " (%x) from \"/" + group +
           "/AllReduce\"\n";
  };
  const auto wait = [](const std::string& group) {
    return "%" + group + ".done mutates %" + group + ".sum = wait " + group + ".sum\n";
  };
  return "graph g\nranks 2\ngroup @tp = [0, 1]\ngroup @dp = [0, 1]\ninput %x: f32[4]\n" + sum(first) +
         sum(second) + wait(first) + wait(second) + "output %" + first + ".done\n";
}

TEST(Check, TextsOfAllRanksThatAgreeGiveACertificate) {
  const Folder folder;
  const ProcessResult result = braid({"check", folder.file("g.rank1.braid", text("tp", "dp")),
                                      folder.file("g.rank0.braid", text("tp", "dp"))});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("certificate: 2 ranks agree and cannot deadlock (channels global)"));
  EXPECT_THAT(result.out, HasSubstr("group 'tp' (ranks 0 1): 1 collective, trace "));
}

TEST(Check, SwappedStartsAreAWitnessThatTheChannelPolicyCanRemove) {
  const Folder folder;
  const std::string a = folder.file("a.braid", text("tp", "dp")),
                    b = folder.file("b.braid", text("dp", "tp"));
  const ProcessResult one_queue = braid({"check", a, b});
  EXPECT_EQ(one_queue.exit_code, 1);
  EXPECT_THAT(one_queue.err, AllOf(HasSubstr("BR0901"), HasSubstr("/tp/AllReduce"),
                                   HasSubstr("/dp/AllReduce"), HasSubstr("rank 0 "), HasSubstr("rank 1 ")));
  EXPECT_EQ(braid({"check", a, b, "--channels", "communicator"}).exit_code, 0);
}

TEST(Check, ACompiledFolderAndItsModelGiveTheSameCertificate) {
  const std::vector<std::string> sizes = {"--ranks", "2", "--dim", "batch=1..4", "--dim", "sequence=1..16"};
  const std::string onnx = model("collectives/all_reduce_dynamic/model.onnx");
  std::vector<std::string> arguments = {onnx};
  arguments.insert(arguments.end(), sizes.begin(), sizes.end());
  const ProcessResult folder = braid({"check", compiled("all_reduce", arguments)});
  ASSERT_EQ(folder.exit_code, 0) << folder.err;
  arguments.insert(arguments.begin(), "check");
  const ProcessResult file = braid(arguments);
  ASSERT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(file.out, folder.out);
  EXPECT_THAT(file.out, HasSubstr("certificate: 2 ranks agree"));
}

TEST(Check, PartsOfAGroupAreInTheTextAndInTheCompiledFolder) {
  const Folder folder;
  const std::string text =
      folder.file("mesh.braid",
                  "graph mesh ranks 4 mesh [dp=2, tp=2] group @tp = axis tp input %x: f32[8] "
                  "%y: f32[8] = all_reduce sum @tp (%x) %y.1 mutates %y = wait y release y "
                  "%z: f32[8] output = pointwise { %0 = load %y.1 store %0 } output %z");
  for (const std::string& program : {text, compiled("mesh_of_four", {text})}) {
    const ProcessResult result = braid({"check", program});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("certificate: 4 ranks agree"),
                                  HasSubstr("group 'tp' (ranks 0 1): 1 collective"),
                                  HasSubstr("group 'tp' (ranks 2 3): 1 collective")));
  }
}

// Stages of a pipeline need not have the same dimensions.
TEST(Check, EachRanksModelTakesTheBoundsOfItsOwnDimensions) {
  const std::string dynamic = model("collectives/all_reduce_dynamic/model.onnx"),
                    fixed = model("collectives/all_reduce/model.onnx");
  const std::vector<std::string> check = {"check",      dynamic, fixed,           "--dim",
                                          "batch=1..4", "--dim", "sequence=1..16"};
  EXPECT_THAT(braid(check).err, HasSubstr("BR0900"));  // they differ, as they should
  std::vector<std::string> unknown = check;
  unknown.insert(unknown.end(), {"--dim", "batc=2"});
  EXPECT_THAT(braid(unknown).err,
              AllOf(HasSubstr("BR0311"), HasSubstr("batc"), HasSubstr("batch, sequence")));
}

TEST(Check, AMissingRankIsNamed) {
  const Folder folder;
  const ProcessResult result = braid({"check", folder.file("g.rank0.braid", text("tp", "dp")),
                                      folder.file("g.rank2.braid", text("tp", "dp"))});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("BR0003"), HasSubstr("rank 1")));
}

}  // namespace
}  // namespace braid::test
