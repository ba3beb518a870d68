#include "split/caches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/split/two_products.h"

namespace braid::frontend::sharding {
namespace {

// Names of the inputs and outputs that are caches: "past -> present", "present" where it begins here.
std::vector<std::string> caches(const std::string& text) {
  std::vector<std::string> names;
  with_graph(text, {}, [&](const Graph& graph) {
    names.clear();
    for (const Cache& cache : caches_of(graph)) {
      const std::string present = graph.values[graph.outputs[cache.output]].name;
      names.push_back(cache.input.valid() ? graph.values[cache.input].name + " -> " + present : present);
    }
  });
  return names;
}

// Attention over four heads of eight; `more` may compute and return other values.
std::string attention(const std::string& outputs, const std::string& more) {
  return "g (float[1,4,6,8] q, float[1,4,6,8] a, float[1,4,6,8] b) => (float[1,4,6,8] y" + outputs + R"() {
    k = Relu(a)
    v = Relu(b)
    kt = Transpose<perm=[0,1,3,2]>(k)
    scores = MatMul(q, kt)
    half = Mul(scores, scores)
    weights = Softmax<axis=-1>(half)
    y = MatMul(weights, v)
    )" + more +
         " }";
}

TEST(Caches, BeginWhereAttentionReadsThem) {
  EXPECT_THAT(caches(attention(", float[1,4,6,8] k, float[1,4,6,8] v", "")), testing::ElementsAre("k", "v"));
  EXPECT_THAT(caches(attention(", float[1,4,6,8] p, float[1,6,4,8] r",
                               "p = Identity(k)\n r = Transpose<perm=[0,2,1,3]>(v)")),
              testing::ElementsAre("p", "r"));
  EXPECT_THAT(caches(attention(", float[1,4,8,6] kt", "")), testing::ElementsAre("kt"));
}

TEST(Caches, AreNotWhatElseAttentionComputes) {
  EXPECT_THAT(caches(attention(", float[1,4,6,6] scores, float[1,4,6,6] weights", "")), testing::IsEmpty());
  EXPECT_THAT(caches(attention(", float[1,4,6,8] p", "p = Relu(q)")), testing::IsEmpty());
  EXPECT_THAT(caches(attention(", float[1,4,6,8] p", "p = Neg(k)")), testing::IsEmpty());
  // A product whose result no Softmax sees.
  EXPECT_THAT(caches(R"(g (float[1,4,6,8] q, float[1,4,8,6] a) => (float[1,4,6,6] y, float[1,4,8,6] k) {
    k = Relu(a)
    y = MatMul(q, k) })"),
              testing::IsEmpty());
}

TEST(Caches, GoOnFromTheirPast) {
  EXPECT_THAT(
      caches(
          R"(g (float[1,4,1,8] q, float[1,4,1,8] a, float[1,4,5,8] past) => (float[1,4,1,6] y, float[1,4,6,8] k) {
    k = Concat<axis=2>(past, a)
    kt = Transpose<perm=[0,1,3,2]>(k)
    scores = MatMul(q, kt)
    y = Softmax<axis=-1>(scores) })"),
      testing::ElementsAre("past -> k"));
}

// An input that is returned unchanged is whole: it is no cache.
TEST(Caches, AreNotInputsThatAreReturned) {
  EXPECT_THAT(
      caches(
          R"(g (float[1,4,1,8] q, float[1,4,1,8] a, float[1,4,5,8] past) => (float[1,4,1,6] y, float[1,4,6,8] k, float[1,4,5,8] past) {
    k = Concat<axis=2>(past, a)
    kt = Transpose<perm=[0,1,3,2]>(k)
    scores = MatMul(q, kt)
    y = Softmax<axis=-1>(scores) })"),
      testing::IsEmpty());
}

// 16^8 ways lead through these nodes.
TEST(Caches, EveryValueIsLookedAtOnce) {
  std::string nodes = "k = Relu(a)\n h0 = Neg(k)\n";
  for (int n = 0; n < 8; ++n) {
    std::string operands;
    for (int i = 0; i < 16; ++i) operands += (i ? ", h" : "h") + std::to_string(n);
    nodes += "h" + std::to_string(n + 1) + " = Sum(" + operands + ")\n";
  }
  EXPECT_THAT(caches("g (float[1,4,6,8] a) => (float[1,4,6,8] k, float[1,4,6,8] h8) {" + nodes + "}"),
              testing::IsEmpty());
}

}  // namespace
}  // namespace braid::frontend::sharding
