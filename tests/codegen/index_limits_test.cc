// Which inputs of a program are indices, and of what.
#include "codegen/index_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "split/candidates.h"
#include "tests/frontend/models.h"

namespace braid::codegen {
namespace {

std::vector<std::string> limits_of(const std::string& model, const frontend::ImportOptions& options = {}) {
  const ir::Schedule schedule = frontend::import_text(model, options);
  std::vector<std::string> texts;
  for (const std::optional<ir::Expr>& limit : index_limits(schedule))
    texts.push_back(limit ? to_string(*limit) : "");
  return texts;
}
using Texts = std::vector<std::string>;

TEST(IndexLimits, AnIndexStaysBelowItsAxisAndOtherIntegersAreFree) {
  EXPECT_EQ(limits_of("g (float[7, 3] x, int64[4] i, int64[4] k) => (float[4, 3] y, int64[4] z) "
                      "{ y = Gather(x, i) z = Add(i, k) }"),
            (Texts{"", "7", ""}));
}

TEST(IndexLimits, OfTwoAxesTheSmallerCounts) {
  EXPECT_EQ(limits_of("g (float[7, 3] x, int64[4] i) => (float[4, 3] y, float[7, 4] z) "
                      "{ y = Gather(x, i) z = Gather <axis = 1> (x, i) }"),
            (Texts{"", "3"}));
}

TEST(IndexLimits, CastsAndMovesKeepAnIndexWhatItIsAndArithmeticDoesNot) {
  const char* moved =
      "g (float[7, 3] x, int32[2, 3] i) => (float[3, 2, 3] y) "
      "{ t = Transpose(i) c = Cast <to = 7> (t) y = Gather(x, c) }";
  EXPECT_EQ(limits_of(moved), (Texts{"", "7"}));
  const char* computed =
      "g (float[7, 3] x, int64[4] i) => (float[4, 3] y) "
      "{ one = Constant <value_int = 1> () j = Add(i, one) y = Gather(x, j) }";
  EXPECT_EQ(limits_of(computed), (Texts{"", ""}));
}

TEST(IndexLimits, AnAxisThatVariesIsAnExpression) {
  EXPECT_EQ(limits_of("g (float[rows, 3] x, int64[4] i) => (float[4, 3] y) { y = Gather(x, i) }",
                      {.dims = {{"rows", {2, 9}}}}),
            (Texts{"", "rows"}));
}

TEST(IndexLimits, WhatIsStoredOnTheWayIsFollowed) {
  // A graph output must have memory, so the cast is a loop of its own.
  EXPECT_EQ(limits_of("g (float[7, 3] x, int32[4] i) => (float[4, 3] y, int64[4] c) "
                      "{ c = Cast <to = 7> (i) y = Gather(x, c) }"),
            (Texts{"", "7"}));
}

// Each rank looks up the rows that it has. Any other index of the whole table is in range, too.
TEST(IndexLimits, RowsOfATableInPartsCountTogether) {
  for (const std::string type : {"int64", "int32"}) {
    for (const int rows : {12, 11, 5}) {
      for (const int ranks : {2, 3, 4}) {
        if (rows == 5 && ranks == 4) continue;  // a part would be empty
        frontend::ImportOptions options;
        options.ranks = ranks;
        options.split = frontend::sharding::plan_request(
            fmt::format("plan 1\nranks {}\n\"t\" -> \"y\" = S(0)\n\"y\" = P(sum)\n\"y\" -> \"z\" = R\n",
                        ranks),
            "");
        const std::string model = fmt::format(
            "g ({} [4] i) => (float[4, 2] z) <float[{},2] t = {{{}}}> {{ y = Gather(t, i) z = Neg(y) }}",
            type, rows, fmt::join(std::vector<int>(static_cast<std::size_t>(2 * rows), 1), ", "));
        EXPECT_EQ(limits_of(model, options), (Texts{std::to_string(rows)})) << type << rows << " " << ranks;
      }
    }
  }
}

TEST(IndexLimits, LengthsOfSequencesAreAtMostTheSteps) {
  EXPECT_EQ(limits_of("g (float[5, 2, 3] x, float[1, 4, 3] w, float[1, 4, 4] r, int32[2] lengths) => "
                      "(float[5, 1, 2, 4] y) "
                      "{ y = RNN <hidden_size = 4> (x, w, r, , lengths) }"),
            (Texts{"", "", "", "6"}));
}

}  // namespace
}  // namespace braid::codegen
