// --precision and --max-error: what is chosen, what the limit returns to f32, what verify measures.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// Two products that pay, and one that is too small to. The weights of the second one span more than int8 can
// tell apart.
constexpr const char* kThree = R"(graph three
input %x: f32[64, 256]
constant %w: f32[256, 256] = splat(0.37)
constant %v: f32[256, 256] = splat(0.21)
constant %u: f32[256, 1] = splat(1.7)
%a: f32[64, 256] = gemm %x, %w
%b: f32[64, 256] = pointwise { %0 = load %a  %1 = tanh %0  store %1 }
%c: f32[64, 256] = gemm %b, %v
%d: f32[64, 256] = pointwise { %0 = load %c  %1 = exp %0  store %1 }
%e: f32[1, 1] = gemm %d [1, 256], %u
output %c
output %e
)";

Json compiled_report(const Folder& folder, std::vector<std::string> options) {
  std::vector<std::string> arguments = {
      "compile", folder.file("three.braid", kThree), "--emit", "source", "-o", folder / "out", "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const ProcessResult result = braid(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return Json::parse(result.out);
}

TEST(Precision, ProductsAreChosenWhereTheyPay) {
  const Folder folder;
  const Json json = compiled_report(folder, {"--precision", "bf16"})["precision"];
  EXPECT_EQ(json["type"], "bf16");
  EXPECT_EQ(json["products"], 3);
  EXPECT_EQ(json["narrow"], 2);
  ASSERT_EQ(json["f32"].size(), 1U);
  EXPECT_EQ(json["f32"][0]["product"], "e");
  EXPECT_EQ(json["f32"][0]["reason"], "it would take no less time");
}

TEST(Precision, WithoutItNothingIsSaidOrChanged) {
  const Folder folder;
  EXPECT_FALSE(compiled_report(folder, {}).contains("precision"));
}

TEST(Precision, ALimitReturnsProductsToF32) {
  const Folder folder;
  const Json wide = compiled_report(folder, {"--precision", "bf16", "--max-error", "1"})["precision"];
  EXPECT_EQ(wide["narrow"], 2);
  EXPECT_TRUE(wide["returned"].empty());
  const double all = wide["error"];
  EXPECT_GT(all, 0);
  // Just below what all narrow products cause: fewer are left, and the error that is told holds the limit.
  const Json less =
      compiled_report(folder, {"--precision", "bf16", "--max-error", std::to_string(all * 0.9)})["precision"];
  EXPECT_GE(less["returned"].size(), 1U);
  EXPECT_EQ(less["narrow"], 2 - static_cast<int>(less["returned"].size()));
  EXPECT_LE(less["error"].get<double>(), all * 0.9);
  EXPECT_EQ(less["f32"][0]["reason"], "asked for");
  const Json none = compiled_report(folder, {"--precision", "bf16", "--max-error", "0"})["precision"];
  EXPECT_EQ(none["narrow"], 0);
  EXPECT_EQ(none["error"], 0.0);
}

// Two outputs, the second of which raises the error of its product by an exponential.
constexpr const char* kGoodAndBad = R"(graph two
input %x: f32[64, 256]
constant %w: f32[256, 256] = splat(0.37)
constant %v: f32[256, 256] = splat(0.21)
%good: f32[64, 256] = gemm %x, %w
%bad: f32[64, 256] = gemm %x, %v
%d: f32[64, 256] = pointwise { %0 = load %bad  %1 = constant f32 4.0  %2 = mul %0, %1  %3 = exp %2  store %3 }
output %good
output %d
)";

Json limited(const Folder& folder, double limit) {
  const ProcessResult result =
      braid({"compile", folder.file("two.braid", kGoodAndBad), "--emit", "source", "-o", folder / "out",
             "--json", "--precision", "bf16", "--max-error", std::to_string(limit)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return Json::parse(result.out)["precision"];
}

TEST(Precision, ALimitReturnsTheProductWithTheLargestError) {
  const Folder folder;
  const double all = limited(folder, 100)["error"];
  const Json one = limited(folder, all / 2);
  EXPECT_EQ(one["returned"], Json::array({"bad"}));
  const double left = one["error"];
  EXPECT_GT(left, 0);
  EXPECT_LT(left, all / 2);
  // No error above the limit is accepted, however little.
  const Json none = limited(folder, left * 0.95);
  EXPECT_EQ(none["returned"].size(), 2U);
  EXPECT_EQ(none["error"], 0.0);
}

// Each type has a limit of its own: errors above it are none of the type's roundings.
TEST(Precision, VerifyHasALimitPerType) {
  const Folder folder;
  const std::string text = folder.file("two.braid", kGoodAndBad);
  const ProcessResult result = braid({"verify", text, "--precision", "bf16", "--json"});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  const Json outputs = Json::parse(result.out)["outputs"];
  ASSERT_EQ(outputs.size(), 2U);
}

// Convolutions and attention are chosen like products, and verify tells the error of each output.
TEST(Precision, ConvolutionsAndAttentionAreChosenWhereTheyPay) {
  const Folder folder;
  const std::string text = folder.file("others.braid", R"(graph others
input %x: f32[1, 32, 32, 64]
input %q: f32[1, 4, 128, 64]
constant %w: f32[1, 3, 3, 64, 64] = splat(0.03)
%c: f32[1, 30, 30, 64] = convolution %x, %w
%a: f32[1, 4, 128, 64] = attention %q, %q, %q scale 0.125
output %c
output %a
)");
  for (const std::string type : {"bf16", "int8"}) {
    const ProcessResult result =
        braid({"compile", text, "--emit", "source", "-o", folder / "out", "--json", "--precision", type});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err,
                HasSubstr(type == "bf16" ? "2 of 2 products, convolutions and attentions compute in bf16"
                                         : "1 of 2 products, convolutions and attentions compute in int8"));
    const Json json = Json::parse(result.out)["precision"];
    EXPECT_EQ(json["narrow"], type == "bf16" ? 2 : 1);
    const ProcessResult checked = braid({"verify", text, "--precision", type, "--json"});
    EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
    EXPECT_EQ(Json::parse(checked.out)["outputs"].size(), 2U);
  }
  // On a GPU both are too small. Larger ones have kernels of halves there: of the convolution, of the scores
  // with their scale, and the library's of the weighted values.
  const auto on_cuda = [&](const std::string& file) {
    const ProcessResult result = braid({"compile", file, "--emit", "source", "-o", folder / "cuda", "--name",
                                        "others", "--json", "--precision", "bf16", "--target", "cuda"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out)["precision"];
  };
  const Json small = on_cuda(text);
  EXPECT_EQ(small["narrow"], 0);
  EXPECT_EQ(small["f32"][0]["reason"], "it would take no less time");
  const Json large = on_cuda(folder.file("large.braid", R"(graph large
input %x: f32[8, 58, 58, 80]
input %q: f32[8, 16, 1024, 64]
constant %w: f32[1, 3, 3, 80, 80] = splat(0.03)
%c: f32[8, 56, 56, 80] = convolution %x, %w
%a: f32[8, 16, 1024, 64] = attention %q, %q, %q scale 0.125
output %c
output %a
)"));
  EXPECT_EQ(large["narrow"], 2);
  const std::string source = read_text(folder / "cuda/others.cu");
  EXPECT_THAT(source, HasSubstr("tile_convolution_kernel(const __nv_bfloat16* in0"));
  EXPECT_THAT(source, HasSubstr("tile_product_kernel(const __nv_bfloat16* in0"));
  EXPECT_THAT(source, HasSubstr("input_type = GemmType::kBFloat16"));
}

TEST(Precision, VerifyMeasuresAgainstFloat32) {
  const Folder folder;
  const std::string text = folder.file("three.braid", kThree);
  for (const char* type : {"bf16", "int8"}) {
    const ProcessResult result = braid({"verify", text, "--precision", type, "--json"});
    EXPECT_EQ(result.exit_code, 0) << type << result.out << result.err;
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json["reference"], "the interpreter");
    EXPECT_EQ(json["outputs"].size(), 2U);
  }
  const ProcessResult strict = braid({"verify", text, "--precision", "bf16", "--limit", "1e-7", "--json"});
  EXPECT_EQ(strict.exit_code, 1) << strict.err;
}

// Rows divided by a number each, in both forms.
TEST(Precise, KeepsDivisionsOfCudaPrograms) {
  const Folder folder;
  const std::string text = folder.file("rows.braid", R"(graph rows
input %x: f32[64, 256]
input %s: f32[64]
%y: f32[64, 256] = pointwise { %0 = load %x  %1 = load %s[i0]  %2 = div %0, %1  store %2 }
output %y
)");
  const auto source = [&](std::vector<std::string> options) {
    const std::string out = folder / fmt::format("out{}", options.size());
    options.insert(options.begin(), {"compile", text, "--target", "cuda", "--emit", "source", "-o", out});
    const ProcessResult result = braid(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const auto text_of = [&](const char* name) {
      std::ifstream file(fs::path(out) / name);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    return std::pair(text_of("rows.cu"), Json::parse(text_of("manifest.json"))["precise"]);
  };
  const auto [cheap, is_cheap] = source({});
  const auto [precise, is_precise] = source({"--precise"});
  EXPECT_THAT(cheap, HasSubstr("math::cheap::quotient"));
  EXPECT_EQ(is_cheap, false);
  EXPECT_THAT(precise, ::testing::Not(HasSubstr("math::cheap::")));
  EXPECT_EQ(is_precise, true);
  const ProcessResult cpu = braid({"compile", text, "-o", folder / "cpu", "--precise"});
  EXPECT_THAT(cpu.err, HasSubstr("BR0003"));
  EXPECT_THAT(cpu.err, HasSubstr("--precise supports only programs for cuda"));
}

TEST(Precision, TensorFloatsOnTheEmulatedDevice) {
  const Folder folder;
  const std::string text = folder.file(
      "two.braid",
      "graph two\ninput %x: f32[64, 256]\ninput %v: f32[256, 32]\nconstant %w: f32[256, 256] = splat(0.37)\n"
      "%a: f32[64, 256] = gemm %x, %w\n%b: f32[64, 32] = gemm %x, %v\noutput %a\noutput %b\n");
  const ProcessResult verified = braid({"verify", text, "--target", "cuda", "--precision", "tf32"});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  const ProcessResult compiled = braid({"compile", text, "-o", folder / "out", "--target", "cuda",
                                        "--precision", "tf32", "--emit", "source", "--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_THAT(compiled.out, HasSubstr("\"type\": \"tf32\""));
  const std::string said = folder.file(
      "said.braid",
      "graph one\ninput %x: f32[64, 256]\ninput %v: f32[256, 32]\n%a: f32[64, 32] = gemm tf32 %x, %v\n"
      "output %a\n");
  for (const char* target : {"cpu", "cuda"}) {
    const ProcessResult of_text = braid({"verify", said, "--target", target});
    EXPECT_EQ(of_text.exit_code, 0) << target << ": " << of_text.out;
  }
}

// By the price: the operands of the small product take longer to read than to multiply in either way.
TEST(Precision, TensorFloatsAreChosenWhereTheyPay) {
  const Folder folder;
  const std::string text =
      folder.file("two.braid",
                  "graph two\ninput %x: f32[512, 1024]\ninput %v: f32[1024, 1024]\ninput %w: f32[1024, 1]\n"
                  "%large: f32[512, 1024] = gemm %x, %v\n%small: f32[512, 1] = gemm %x, %w\noutput "
                  "%large\noutput %small\n");
  const ProcessResult compiled = braid({"compile", text, "-o", folder / "out", "--target", "cuda",
                                        "--precision", "tf32", "--emit", "schedule"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const std::string schedule = read_text(fs::path(folder / "out") / "two.braid");
  EXPECT_THAT(schedule, HasSubstr("gemm tf32 %x, %v"));
  EXPECT_THAT(schedule, HasSubstr("gemm %x, %w"));
}

TEST(Precision, BadOptionsAreRefused) {
  const Folder folder;
  const std::string text = folder.file("three.braid", kThree);
  const ProcessResult alone = braid({"compile", text, "-o", folder / "out", "--max-error", "1"});
  EXPECT_THAT(alone.err, HasSubstr("BR0003"));
  EXPECT_THAT(alone.err, HasSubstr("--max-error is the limit of a narrower --precision"));
  const ProcessResult cuda =
      braid({"compile", text, "-o", folder / "out", "--target", "cuda", "--precision", "int8"});
  EXPECT_THAT(cuda.err, HasSubstr("BR0003"));
  EXPECT_THAT(cuda.err, HasSubstr("supports only programs for cpu"));
  const ProcessResult tf32 = braid({"compile", text, "-o", folder / "out", "--precision", "tf32"});
  EXPECT_THAT(tf32.err, HasSubstr("BR0003"));
  EXPECT_THAT(tf32.err, HasSubstr("--precision tf32 supports only programs for cuda"));
  const ProcessResult limited = braid({"compile", text, "-o", folder / "out", "--target", "cuda",
                                       "--precision", "tf32", "--max-error", "0.1"});
  EXPECT_THAT(limited.err, HasSubstr("BR0003"));
  EXPECT_THAT(limited.err, HasSubstr("--max-error measures on this processor"));
  const ProcessResult unknown = braid({"compile", text, "-o", folder / "out", "--precision", "f8"});
  EXPECT_THAT(unknown.err, HasSubstr("BR0014"));
  const ProcessResult type = braid({"opt", text, "--passes", "lower_precision:type=f8"});
  EXPECT_THAT(type.err, HasSubstr("BR0542"));
}

}  // namespace
}  // namespace braid::test
