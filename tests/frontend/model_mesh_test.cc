// Metadata of inputs and outputs about the parts that ranks have.
#include "frontend/model_mesh.h"

#include <gtest/gtest.h>

#include "ir/graph.h"

namespace braid::frontend {
namespace {

using split::Spec;

TEST(ModelParts, AreAddedAxisByAxisAndReadAgain) {
  ir::Graph graph;
  const ir::Expr past = graph.add_dim("past", {0, 8});
  onnx::ValueInfoProto value;
  const std::vector<ir::Expr> local = {2, 6, past, 64};
  const ir::Mesh mesh = {{"dp", 2}, {"tp", 2}};
  EXPECT_FALSE(part_of_value(value, local, mesh, 4));
  add_part(value, Spec::split(0), {"dp", 2},
           std::vector<std::optional<std::int64_t>>{4, 12, std::nullopt, 64});
  // The sizes that are left of it by then count for nothing.
  add_part(value, Spec::split(1, {6, 6}), {"tp", 2},
           std::vector<std::optional<std::int64_t>>{2, 12, std::nullopt, 64});
  ASSERT_EQ(value.metadata_props_size(), 1);
  EXPECT_EQ(value.metadata_props(0).value(), "S(0) on dp, S(1:6+6) on tp of [4, 12, ?, 64]");
  const std::optional<ir::Part> part = part_of_value(value, local, mesh, 4);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->state, "S(0) on dp, S(1:6+6) on tp");
  EXPECT_EQ(part->whole, (std::vector<ir::Expr>{4, 12, past, 64}));
  EXPECT_FALSE(part_of_value(value, std::vector<ir::Expr>{2, 5, past, 64}, mesh, 4));
  clear_part(value);
  EXPECT_EQ(value.metadata_props_size(), 0);
}

TEST(ModelParts, OfOneAxisWithoutAName) {
  onnx::ValueInfoProto value;
  add_part(value, Spec::pending(ir::ReduceKind::sum), {"", 2}, std::vector<std::optional<std::int64_t>>{});
  EXPECT_EQ(value.metadata_props(0).value(), "P(sum) of []");
  const auto part = part_of_value(value, std::vector<ir::Expr>{}, {}, 2);
  ASSERT_TRUE(part);
  EXPECT_TRUE(part->whole.empty());
}

// Such metadata only informs, so wrong texts are left out, whatever wrote them.
TEST(ModelParts, ThatDescribeNoSuchTensorAreLeftOut) {
  for (const char* text :
       {"", "S(0)", "S(0) of", "S(0) of [", "S(0) of [4", "S(0) of []", "S(0) of [4, 4]", "S(0) of [-4]",
        "S(0) of [x]", "S(0) of [4,]", "S(0) of [99999999999999999999]", "S(0) of [4] ", "S(0) of [5]",
        "S(1) of [4]", "S(0) on tp of [4]", "S(0) of [99999999999999]",
        "S(0:9223372036854775806+9223372036854775806+8) of [4]"}) {
    onnx::ValueInfoProto value;
    onnx::StringStringEntryProto& property = *value.add_metadata_props();
    property.set_key("ai.braid.part");
    property.set_value(text);
    EXPECT_FALSE(part_of_value(value, std::vector<ir::Expr>{2}, {}, 2)) << text;
  }
}

}  // namespace
}  // namespace braid::frontend
