// Parts of groups and axes of meshes.
#include "ir/comm_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/printer.h"

namespace braid::ir {
namespace {

using ::testing::ElementsAre;

Parts along(const Mesh& mesh, std::vector<int> axes) { return parts_along(mesh, axes); }

TEST(CommGroup, KnowsThePartOfARank) {
  const CommGroup g{"g", {{2, 0}, {5, 1}}};
  EXPECT_EQ(g.size(), 2);
  EXPECT_EQ(g.members(), 4);
  EXPECT_THAT(*g.part_of(1), ElementsAre(5, 1));
  EXPECT_EQ(g.part_of(3), nullptr);
  EXPECT_EQ(g.fault(6), "");
  EXPECT_EQ(parts_text(g.parts), "2 0 | 5 1");
}

TEST(CommGroup, SaysWhatIsWrong) {
  const auto fault = [](Parts parts) { return CommGroup{"g", std::move(parts)}.fault(4); };
  EXPECT_NE(fault({}), "");
  EXPECT_NE(fault({{}}), "");
  EXPECT_NE(fault({{}, {}}), "");
  EXPECT_THAT(fault({{0, 1}, {2}}), ::testing::HasSubstr("different numbers"));
  EXPECT_THAT(fault({{0, 1}, {2, 1}}), ::testing::HasSubstr("twice"));
  EXPECT_THAT(fault({{0, 1}, {2, 4}}), ::testing::HasSubstr("not below"));
  EXPECT_THAT(fault({{0, 1}, {2, -1}}), ::testing::HasSubstr("not below"));
}

TEST(Mesh, AxesPartTheRanksTheLastOneFastest) {
  const Mesh mesh = {{"dp", 2}, {"tp", 3}};
  EXPECT_EQ(along(mesh, {1}), (Parts{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(along(mesh, {0}), (Parts{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(along(mesh, {0, 1}), (Parts{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(along(mesh, {1, 0}), (Parts{{0, 3, 1, 4, 2, 5}}));
  EXPECT_EQ(along({{"a", 2}, {"b", 2}, {"c", 2}}, {0, 2}), (Parts{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(Mesh, AxesAreFoundFromTheParts) {
  const Mesh mesh = {{"a", 2}, {"one", 1}, {"b", 3}, {"c", 2}};
  for (const std::vector<int>& axes : {std::vector<int>{0}, {2}, {3}, {0, 2}, {0, 3}, {2, 3}, {0, 2, 3}})
    EXPECT_EQ(axes_of(mesh, parts_along(mesh, axes)), axes);
  EXPECT_EQ(axes_of(mesh, along(mesh, {0, 1})), std::vector{0});     // the same parts
  EXPECT_EQ(axes_of(mesh, along(mesh, {3, 2})), std::nullopt);       // members in another order
  EXPECT_EQ(axes_of(mesh, {{0, 1}}), std::nullopt);                  // only one of the parts
  EXPECT_EQ(axes_of(mesh, {{0, 1}, {2, 4}, {3, 5}}), std::nullopt);  // no axes
  EXPECT_EQ(axes_of({{"a", 2}}, {{0}, {1}}), std::nullopt);          // along none
  EXPECT_EQ(axes_of({}, {{0, 1}}), std::nullopt);
}

TEST(Mesh, SaysWhatIsWrong) {
  EXPECT_EQ(mesh_fault({}, 3), "");
  EXPECT_EQ(mesh_fault({{"a", 2}, {"b", 3}}, 6), "");
  EXPECT_THAT(mesh_fault({{"a", 2}, {"a", 3}}, 6), ::testing::HasSubstr("two axes 'a'"));
  EXPECT_THAT(mesh_fault({{"a", 0}}, 0), ::testing::HasSubstr("below 1"));
  EXPECT_THAT(mesh_fault({{"a", -2}, {"b", -3}}, 6), ::testing::HasSubstr("below 1"));
  EXPECT_THAT(mesh_fault({{"a", 2}, {"b", 2}}, 6), ::testing::HasSubstr("multiply"));
  EXPECT_THAT(mesh_fault({{"a", 2147483647}, {"b", 2147483647}, {"c", 2147483647}}, 1),
              ::testing::HasSubstr("multiply"));  // no overflow
}

TEST(Mesh, TextNamesAxesOrListsParts) {
  const std::string text = R"(graph g
ranks 8
mesh [dp=2, "t p"=2, tp=2]
group @dp = axis dp
group @inner = axis "t p", tp
group @all = axis dp, "t p", tp
group @pairs = [[7, 0], [1, 6]]
group @some = [3, 2]
group @alone = [[0], [1], [2]]

)";
  const Schedule s = parse_schedule(text);
  EXPECT_EQ(print(s), text);
  EXPECT_EQ(s.graph.groups[1].parts, (Parts{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  // Groups along axes are printed as axes; members in another order are listed.
  const Schedule listed = parse_schedule(
      "graph g ranks 4 mesh [a=2, b=2] group @x = [[0, 2], [1, 3]] group @y = axis b, a group @z = [[0, 1]]");
  EXPECT_EQ(
      print(listed),
      "graph g\nranks 4\nmesh [a=2, b=2]\ngroup @x = axis a\ngroup @y = [0, 2, 1, 3]\ngroup @z = [0, 1]\n\n");
}

}  // namespace
}  // namespace braid::ir
