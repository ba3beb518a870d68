// Products by the kernel of runtime/device/tile_product.h, against the interpreter.
#include "codegen/cuda/tile_product.h"

#include <fmt/format.h>

#include <set>

#include "codegen/cuda/gemm.h"
#include "ir/parser.h"
#include "passes/name_post_ops.h"
#include "runtime/emulated/kernel_counts.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TileProducts : public CudaCase {};

TEST_F(TileProducts, AreAsTheInterpreterSays) {
  for (const TileProductCase& c : tile_product_cases()) {
    const Case found_case = find_case(c.name);
    const std::string source = codegen::cuda::emit_cuda(found_case.build(), found_case.options).body;
    EXPECT_THAT(source, HasSubstr("tile_product_kernel<")) << c.name;
    EXPECT_THAT(source, Not(HasSubstr("BRAID_TRY(gemm("))) << c.name;
    const auto rows = static_cast<std::int64_t>(c.seed * 37 % 160 + 1);
    for (const std::int64_t r : {std::int64_t{1}, rows}) {
      SCOPED_TRACE(fmt::format("{}, {} rows", c.name, r));
      RunOptions options;
      options.integers = false;
      options.seed = c.seed;
      emulated::options().processors = c.seed % 3 == 0 ? 1 : 132;  // tiles of 128 x 128, or smaller ones
      expect_equal(
          run_case(c.name, {{"rows", r}, {"batch", 1 + static_cast<std::int64_t>(c.seed % 3)}}, options),
          c.seed % 2 == 0 ? 4e-3 : 2e-2);
      ASSERT_THAT(found(), IsEmpty());
    }
  }
}

TEST_F(TileProducts, OfConvolutionsAreAsTheInterpreterSays) {
  for (const TileProductCase& c : tile_convolution_cases()) {
    const Case found_case = find_case(c.name);
    const std::string source = codegen::cuda::emit_cuda(found_case.build(), found_case.options).body;
    const bool pixels = source.find("ImageWindows") == std::string::npos;
    EXPECT_THAT(source, HasSubstr(pixels ? "BRAID_TRY(gemm(" : "tile_convolution_kernel<")) << c.name;
    for (const std::int64_t width : {9, 30}) {
      SCOPED_TRACE(fmt::format("{}, width {}", c.name, width));
      RunOptions options;
      options.integers = false;
      options.seed = c.seed;
      emulated::options().processors = c.seed % 3 == 0 ? 1 : 132;
      expect_equal(run_case(c.name, {{"width", width}, {"images", 1 + static_cast<std::int64_t>(c.seed % 3)}},
                            options),
                   c.seed % 2 == 0 ? 4e-3 : 2e-2);
      ASSERT_THAT(found(), IsEmpty());
    }
  }
}

// The sum over all accesses of shared memory: wavefronts, and how many there would be without conflicts.
TEST_F(TileProducts, HaveNoBankConflicts) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  emulated::options().count_accesses = true;
  std::set<std::string> kernels;
  for (const TileProductCase& c : tile_product_cases()) {
    if (c.seed > 8) break;
    for (const int processors : {1, 132}) {
      emulated::options().processors = processors;
      emulated::take_kernel_counts();
      run_case(c.name, {{"rows", c.seed % 4 == 0 ? 9 : 136}, {"batch", 1}});
      std::uint64_t wavefronts = 0, least = 0;
      for (const emulated::KernelCounts& counts : emulated::take_kernel_counts()) {
        kernels.insert(counts.kernel.name);
        for (const emulated::SiteCounts& site : counts.sites)
          if (site.shared) wavefronts += site.units, least += site.least;
      }
      EXPECT_GT(least, 0u) << c.name;
      EXPECT_EQ(wavefronts, least) << c.name << ", " << processors << " processors";
    }
  }
  for (const char* tile : {"FlatTile", "LargeTile", "SmallTile", "TallTile"})
    EXPECT_THAT(kernels, Contains(HasSubstr(tile)));
}

std::string product(const std::string& x, const std::string& w, const std::string& type,
                    const std::string& rest) {
  return fmt::format(R"(graph main  dim rows in [1, 100]  dim odd in [1, 100]
input %x: {2}[{0}]  input %w: {2}[{1}]
{3}output %y
)",
                     x, w, type, rest);
}
codegen::cuda::ProductKernel kernel_of(const std::string& text) {
  ir::Schedule schedule = ir::parse_schedule(text);
  passes::NamePostOps().run(schedule);
  const ir::Graph& graph = schedule.graph;
  return codegen::cuda::kernel_of(graph, *graph.ops[0].as<ir::Gemm>());
}

// The library keeps what it has, and what the kernel cannot load or store in packs.
TEST_F(TileProducts, AreThoseThatTheLibraryDoesNotFinish) {
  using enum codegen::cuda::ProductKernel;
  const std::string erf = " epilogue { %0 = acc f32  %1 = erf %0  %2 = cast f16 %1  return %2 }\n";
  const std::string relu =
      " epilogue { %0 = acc f32  %1 = constant f32 0.0  %2 = max %0, %1  %3 = cast f16 %2  return %3 }\n";
  const auto simple = [&](const std::string& x, const std::string& w, const std::string& y,
                          const std::string& rest) {
    return kernel_of(product(x, w, "f16", "%y: f16[" + y + "] = gemm %x, %w" + rest));
  };
  EXPECT_EQ(simple("rows, 64", "64, 32", "rows, 32", erf), tile);
  EXPECT_EQ(simple("rows, 64", "64, 32", "rows, 32", "\n"), library);
  EXPECT_EQ(simple("rows, 64", "64, 32", "rows, 32", relu), library);
  EXPECT_EQ(simple("rows, 63", "63, 32", "rows, 32", erf), library);    // chunks across the end of a row
  EXPECT_EQ(simple("rows, 64", "64, 33", "rows, 33", erf), library);    // odd columns
  EXPECT_EQ(simple("rows, odd", "odd, 32", "rows, 32", erf), library);  // any depth
  EXPECT_EQ(simple("100, 8*odd", "8*odd, 32", "100, 32", erf), tile);   // any multiple of 8
  EXPECT_EQ(simple("rows, 8192", "8192, 8192", "rows, 8192", erf), library);  // large
  EXPECT_EQ(kernel_of(product(
                "rows, 64", "64, 32", "f32",
                "%y: f32[rows, 32] = gemm %x, %w epilogue { %0 = acc f32  %1 = erf %0  return %1 }\n")),
            library);
  EXPECT_EQ(kernel_of(product("rows, 65", "64, 32", "f16",
                              "%y: f16[rows, 32] = gemm %x [rows, 64] strides [65, 1], %w" + erf)),
            library);  // rows at odd places
  EXPECT_EQ(kernel_of(product("rows, 72", "64, 32", "f16",
                              "%y: f16[rows, 32] = gemm %x at 4 [rows, 64] strides [72, 1], %w" + erf)),
            library);
}

TEST_F(TileProducts, TakeConvolutionsWhoseWindowsWouldBeStored) {
  const auto taken = [](const std::string& x, const std::string& w, const std::string& y,
                        const std::string& rest, const char* type = "f16") {
    const ir::Schedule schedule =
        ir::parse_schedule(fmt::format("graph main  dim n in [1, 8]\ninput %x: {0}[{1}]  input %w: "
                                       "{0}[{2}]\n%y: {0}[{3}] = convolution {4}\noutput %y\n",
                                       type, x, w, y, rest));
    const ir::Graph& graph = schedule.graph;
    return codegen::cuda::prefers_tile_convolution(graph, *graph.ops[0].as<ir::Convolution>());
  };
  const std::string wide = "n, 14, 14, 32";
  EXPECT_TRUE(taken("n, 14, 14, 16", "1, 3, 3, 16, 32", wide, "%x, %w pad [1, 1]"));
  EXPECT_TRUE(taken("n, 14, 14, 16", "1, 3, 3, 16, 32", wide, "%x, %w pad [1, 1]", "bf16"));
  EXPECT_TRUE(taken("n, 28, 28, 16", "1, 1, 1, 16, 32", wide, "%x, %w stride [2, 2]"));
  EXPECT_TRUE(taken("n, 14, 14, 48", "3, 3, 3, 16, 32", "n, 14, 14, 96", "%x, %w pad [1, 1]"));
  EXPECT_FALSE(taken("n, 14, 14, 16", "1, 1, 1, 16, 32", wide, "%x, %w"));  // pixels: a product
  EXPECT_FALSE(taken("n, 14, 14, 16", "1, 3, 3, 16, 32", wide, "%x, %w pad [1, 1]", "f32"));
  EXPECT_FALSE(taken("n, 14, 14, 12", "1, 3, 3, 12, 32", wide, "%x, %w pad [1, 1]"));
  EXPECT_FALSE(taken("n, 14, 14, 0", "1, 3, 3, 0, 32", wide, "%x, %w pad [1, 1]"));
  EXPECT_FALSE(taken("n, 14, 14, 8*n - 8", "1, 3, 3, 8*n - 8, 32", wide, "%x, %w pad [1, 1]"));
  EXPECT_FALSE(taken("n, 14, 14, 16", "1, 3, 3, 16, 36", "n, 14, 14, 36", "%x, %w pad [1, 1]"));
  EXPECT_FALSE(taken("n, 25, 14, 16", "1, 12, 3, 16, 32", wide, "%x, %w pad [0, 1]"));  // more taps than bits
  EXPECT_FALSE(taken("n, 14, 14, 16", "1, 3, 3, 16, 32", wide,
                     "%x [n, 14, 14, 16] strides [3136, 14, 1, 196], %w pad [1, 1]"));  // channels first
  EXPECT_FALSE(taken("n, 4, 14, 14, 16", "1, 1, 3, 3, 16, 32", "n, 4, 14, 14, 32", "%x, %w pad [0, 1, 1]"));
  EXPECT_FALSE(taken("n, 112, 112, 512", "1, 3, 3, 512, 512", "n, 112, 112, 512", "%x, %w pad [1, 1]"));
  EXPECT_TRUE(taken("n, 112, 112, 128", "1, 3, 3, 128, 128", "n, 112, 112, 128", "%x, %w pad [1, 1]"));
}

}  // namespace
}  // namespace braid::test
