// The tables of collectives of the compiler and of the runtime say the same.
#include "ir/collective_table.h"

#include <gtest/gtest.h>

#include <string_view>

#include "runtime/comm/collective_kinds.h"

namespace braid {
namespace {

TEST(CollectiveTable, CompilerAndRuntimeHaveTheSameRows) {
  // A barrier is the engines' own.
  ASSERT_EQ(ir::kCollectiveTable.size() + 1, std::size(rt::kCollectiveTable));
  for (std::size_t k = 0; k < ir::kCollectiveTable.size(); ++k) {
    const ir::CollectiveRow& compiler = ir::kCollectiveTable[k];
    const rt::CollectiveRow& runtime = rt::kCollectiveTable[k];
    EXPECT_EQ(compiler.name, runtime.name);
    EXPECT_EQ(static_cast<int>(compiler.in), static_cast<int>(runtime.in)) << compiler.name;
    EXPECT_EQ(static_cast<int>(compiler.out), static_cast<int>(runtime.out)) << compiler.name;
    EXPECT_EQ(compiler.reduces, runtime.reduces) << compiler.name;
    EXPECT_EQ(compiler.rooted, runtime.rooted) << compiler.name;
    EXPECT_EQ(compiler.point_to_point, runtime.point_to_point) << compiler.name;
  }
}

// Whether the enumeration has an enumerator of that value: the compiler spells others as numbers.
template <auto kValue>
constexpr bool is_named() {
  const std::string_view function = __PRETTY_FUNCTION__;
  return function.find("Kind::") != std::string_view::npos;
}

TEST(CollectiveTable, EveryKindHasARow) {
  constexpr std::size_t compiler = ir::kCollectiveTable.size(), runtime = std::size(rt::kCollectiveTable);
  static_assert(is_named<static_cast<ir::CollectiveKind>(compiler - 1)>());
  static_assert(is_named<static_cast<rt::CollectiveKind>(runtime - 1)>());
  static_assert(!is_named<static_cast<ir::CollectiveKind>(compiler)>(),
                "a kind has no row in ir/collective_table.h");
  static_assert(!is_named<static_cast<rt::CollectiveKind>(runtime)>(),
                "a kind has no row in runtime/comm/collective_kinds.h");
}

TEST(CollectiveTable, NamesAreReadBack) {
  for (const ir::CollectiveRow& row : ir::kCollectiveTable) {
    EXPECT_EQ(ir::collective_kind(to_string(row.kind)), row.kind);
    for (const ir::Algorithm a : row.algorithms.list()) EXPECT_EQ(ir::algorithm_named(to_string(a)), a);
  }
  EXPECT_EQ(ir::collective_kind("barrier"), std::nullopt);
  EXPECT_EQ(ir::algorithm_named(""), ir::Algorithm::unasked);
  EXPECT_EQ(ir::algorithm_named("tree"), std::nullopt);
}

// Every algorithm that an engine executes can be requested.
TEST(CollectiveTable, EnginesHaveNoAlgorithmThatNobodyCanName) {
  for (const ir::CollectiveRow& row : ir::kCollectiveTable) {
    for (const ir::Algorithms& engine : {row.shared_memory, row.nccl}) {
      for (const ir::Algorithm a : engine.list()) EXPECT_TRUE(row.algorithms.contains(a)) << row.name;
    }
  }
}

}  // namespace
}  // namespace braid
