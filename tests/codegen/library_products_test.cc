// CUDA programs of the tree's transformers and convolutional networks leave no large product of floats to a
// simple kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/target.h"
#include "driver/compile.h"
#include "ir/schedule.h"
#include "tests/paths.h"
#include "tests/support/onnx_cases.h"

namespace braid::test {
namespace {

constexpr std::int64_t kLargeProduct = 65536;  // multiply-adds, at the upper bounds

bool is_library_type(ir::DType type) {
  return type == ir::DType::f32 || type == ir::DType::f16 || type == ir::DType::bf16;
}

// Checks all large products and returns their number.
int check(const CompileOptions& options, const std::string& what) {
  ir::Schedule schedule = lower(options);
  optimise(schedule, options);
  int large = 0;
  for (ir::OpId op : ir::nested_order(schedule)) {
    const auto* gemm = schedule.graph[op].as<ir::Gemm>();
    if (gemm == nullptr || !is_library_type(schedule.graph[gemm->a.buffer].dtype)) continue;
    const ir::Expr sums = ir::numel(gemm->out.sizes) * gemm->a.sizes.back();
    if (ir::bounds(sums).max <= kLargeProduct) continue;
    ++large;
    EXPECT_EQ(codegen::target_named("cuda").why_not_library(schedule.graph, *gemm), "")
        << what << ": " << schedule.graph[op].name;
  }
  return large;
}

class LargeProducts : public ::testing::TestWithParam<const char*> {};

TEST_P(LargeProducts, AreTheLibrarys) {
  const fs::path folder = paths::test_models(GetParam());
  if (!fs::exists(folder)) GTEST_SKIP() << "no model in " << folder << "; ctest makes it";
  for (const std::int64_t size : {0, 8, 13}) {  // bounds as they are stored, and all of them fixed
    for (const char* precision : {"f32", "f16", "bf16"}) {
      CompileOptions options;
      options.import = import_options_of(folder, options.model);
      options.target = "cuda";
      options.precision = precision;
      for (auto& [name, bounds] : options.import.dims) {
        if (size > 0) bounds = {size, size};
        if (size == 0) bounds = {1, 77};
      }
      EXPECT_GT(check(options, fmt::format("{} {} {}", GetParam(), precision, size)), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LargeProducts,
                         ::testing::Values("transformers/gpt2_prefill", "transformers/bert_prefill",
                                           "transformers/llama_grouped_prefill",
                                           "architectures/vit-dynamo18-dynamic",
                                           "architectures/resnet-dynamo18-dynamic"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace braid::test
