// Random changes of valid models: each gives a program or a user error, never a crash or an internal error.
#include <gtest/gtest.h>

#include <random>

#include "tests/frontend/models.h"
#include "tests/fuzz/mutate.h"

namespace braid::frontend {
namespace {

TEST(RandomlyChangedModels, GiveAProgramOrAUserError) {
  const char* kSeeds[] = {
      "g (float[2,3] x) => (float[2,4] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { h = MatMul(x, w) y "
      "= Softmax(h) }",
      "g (float[2,6] x) => (float[a,b] y) { s = Shape(x) i = Constant <value = int64[2] {1,0}> () r = "
      "Gather(s, i) y = Reshape(x, r) }",
      "g (float[4,3] x) => (float[a,b] y) { p = com.microsoft.AllReduce(x) q = com.microsoft.AllGather <axis "
      "= 1, group_size = 2> (p) "
      "t = Transpose(q) y, z = Split(t) }",
      "g (float[2,3,4] x, int64[2] k) => (float[a,b,c] y) { m = ReduceMean <axes = [2]> (x) d = Sub(x, m) c "
      "= Concat <axis = 0> (d, x) "
      "y = Gather <axis = 1> (c, k) }",
      "g (float[5] x) => (float[a] y) { b = Constant <value_ints = [1]> () e = Constant <value_ints = [9]> "
      "() "
      "n = Neg(x) y = Slice(n, b, e) }",
  };
  std::vector<std::string> seeds;
  for (const char* text : kSeeds) {
    EXPECT_NO_THROW(import_text(text, {.ranks = 2})) << text;
    seeds.push_back(parse_model(text).SerializeAsString());
  }
  const std::uint64_t seed = 20260101;
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  int programs = 0;
  constexpr int kRuns = 3000;
  for (int k = 0; k < kRuns; ++k) {
    const std::string bytes =
        test::mutate(seeds[random() % seeds.size()], seeds[random() % seeds.size()], random);
    // A name of its own each time: some file systems wait for the disk where a file is written again.
    const std::string path = folder.write(std::to_string(k) + ".onnx", bytes);
    try {
      import_model(path, {.ranks = 2});
      ++programs;
    } catch (const ir::UserError&) {
    } catch (const std::exception& error) {
      std::ofstream("changed_model.onnx", std::ios::binary) << bytes;
      FAIL() << error.what() << "\nseed " << seed << ", run " << k << "; the model is in changed_model.onnx";
    }
  }
  EXPECT_GT(programs, kRuns / 100);  // else the changes are too rough to reach the lowering
}

}  // namespace
}  // namespace braid::frontend
