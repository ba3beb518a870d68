// A cache that grows in place, from dense files and back, on every target: the commands make its memory.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two rows with room for four positions each; %least reads what the step has written and what was there.
constexpr const char* kCache = R"(graph cache
dim past in [0, 3]
storage $old: input [64]
input %old: f32[2, past, 2] strides [8, 2, 1] on $old
input %new: f32[2, 1, 2]
buffer %all: f32[2, past + 1, 2] strides [8, 2, 1] output alias $old
%tail: f32[2, 1, 2] in %all at 2*past strides [8, 2, 1] = pointwise { %0 = load %new store %0 }
%least: f32[2] output = reduction min over [past + 1, 2] { %0 = load %all[i0, i1, i2] store %0 }
output %all
output %least
)";

class Caches : public ::testing::TestWithParam<const char*> {
 protected:
  std::string program() const {
    const Folder folder;
    return compiled(std::string("cache_") + GetParam(),
                    {folder.file("cache.braid", kCache), "--target", one_architecture(GetParam())});
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, Caches, ::testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Caches, TellTheirCapacities) {
  const nlohmann::json manifest = nlohmann::json::parse(read_text(fs::path(program()) / "manifest.json"));
  const std::vector<std::int64_t> room = {2, 4, 2};
  EXPECT_EQ(manifest["inputs"][0]["capacities"], room);
  EXPECT_FALSE(manifest["inputs"][1].contains("capacities"));
  EXPECT_EQ(manifest["outputs"][0]["capacities"], room);
  EXPECT_EQ(manifest["outputs"][0]["alias_of"], "old");
  EXPECT_FALSE(manifest["outputs"][1].contains("capacities"));
}

TEST_P(Caches, ReadDenseFilesAndWriteThem) {
  const Folder folder;
  write_floats(folder / "new.npy", {2, 1, 2}, {90, 91, 92, 93});
  write_floats(folder / "empty.npy", {2, 0, 2}, {});
  write_floats(folder / "some.npy", {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto run = [&](const std::string& past) {
    const ProcessResult result =
        braid({"run", program(), "--repeat", "3", "--warmup", "1", "-o", folder / "out", "--input",
               "old=" + (folder / past), "--input", "new=" + (folder / "new.npy")});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  };
  run("empty.npy");
  EXPECT_THAT(read_floats(folder / "out/all.npy"), ElementsAre(90, 91, 92, 93));
  EXPECT_THAT(read_floats(folder / "out/least.npy"), ElementsAre(90, 92));
  run("some.npy");
  EXPECT_THAT(read_floats(folder / "out/all.npy"), ElementsAre(1, 2, 3, 4, 90, 91, 5, 6, 7, 8, 92, 93));
  EXPECT_THAT(read_floats(folder / "out/least.npy"), ElementsAre(1, 5));
  // Longer than there is room.
  write_floats(folder / "long.npy", {2, 4, 2}, std::vector<float>(16, 1));
  const ProcessResult result = braid({"run", program(), "--input", "old=" + (folder / "long.npy"), "--input",
                                      "new=" + (folder / "new.npy")});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("past"));
}

TEST_P(Caches, AreTheSameForProgramAndInterpreter) {
  const Folder folder;
  const ProcessResult result =
      braid({"verify", folder.file("cache.braid", kCache), "--target", GetParam(), "--limit", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST(CachesOfModels, BenchRunsThem) {
  const Folder folder;
  const ProcessResult result = braid({"bench", folder.file("cache.braid", kCache), "--repeat", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

}  // namespace
}  // namespace braid::test
