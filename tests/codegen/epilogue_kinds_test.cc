// Which epilogues of the tree's models each target leaves to its matrix library, as reviewed text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "codegen/cpp/emit.h"
#include "codegen/cuda/emit.h"
#include "driver/compile.h"
#include "ir/error.h"
#include "ir/schedule.h"
#include "tests/paths.h"
#include "tests/support/onnx_cases.h"

namespace braid::test {
namespace {

std::vector<std::string> lines_with(const std::string& source, const std::string& what) {
  std::vector<std::string> out;
  std::istringstream in(source);
  for (std::string line; std::getline(in, line);) {
    if (line.find(what) != std::string::npos) out.push_back(line);
  }
  return out;
}

// The word after `before`.
std::string word_after(const std::string& text, const std::string& before) {
  const std::size_t from = text.find(before);
  if (from == std::string::npos) return {};
  const std::size_t begin = from + before.size();
  return text.substr(begin, text.find_first_of(";,()} ", begin) - begin);
}

// Per product in the order of the program: "add_vector relu"; "" where the library only multiplies.
std::vector<std::string> in_cpp(const ir::Schedule& schedule) {
  const std::string source = codegen::cpp::emit_cpp(schedule).source;
  std::vector<std::string> out;
  for (const std::string& line : lines_with(source, "gemms_.kernel(gemm_shape_")) {
    const std::string shape = "GemmShape gemm_shape_" + word_after(line, "gemms_.kernel(gemm_shape_") + "(";
    const std::size_t from = source.find(shape);
    std::string ops;
    for (const std::string& op :
         lines_with(source.substr(from, source.find("return s;", from) - from), "s.epilogue.ops["))
      ops += (ops.empty() ? "" : " ") + word_after(op, "PostOp::");
    out.push_back(ops);
  }
  return out;
}

std::vector<std::string> in_cuda(const ir::Schedule& schedule) {
  const std::string source = codegen::cuda::emit_cuda(schedule).body;
  const std::vector<std::string> problems = lines_with(source, "    products[");
  std::vector<std::string> out;
  std::istringstream in(source);
  bool chooses = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find("// Not a product that the matrix library takes") != std::string::npos)
      out.push_back("not the library's");
    // The first of the launches among which a step chooses.
    chooses |= line.find("if (const int64_t count = ") != std::string::npos;
    if (chooses && line.find("BRAID_LAUNCH(tile_product") != std::string::npos) {
      out.push_back("own kernel");
      chooses = false;
    }
    const std::string index = word_after(line, "BRAID_TRY(gemm(");
    if (index.empty()) continue;
    const std::string& problem = problems.at(static_cast<std::size_t>(std::stoi(index)));
    std::string ops = problem.find(".has_bias = true") == std::string::npos ? "" : "bias";
    if (problem.find(".beta = 1") != std::string::npos) ops += ops.empty() ? "residual" : " residual";
    const std::string activation = word_after(problem, "GemmEpilogue::");
    if (!activation.empty()) ops += (ops.empty() ? "" : " ") + activation;
    out.push_back(ops);
  }
  return out;
}

// "  cpp   3 add_vector, 1 loop": how often each kind of epilogue occurs; "loop" is what the product leaves.
std::string kinds(const CompileOptions& options) {
  const bool cuda = options.target == "cuda";
  ir::Schedule schedule = lower(options);
  optimise(schedule, options);
  const std::vector<std::string> products = cuda ? in_cuda(schedule) : in_cpp(schedule);
  std::map<std::string, int> count;
  std::size_t next = 0;
  for (ir::OpId op : ir::execution_order(schedule)) {
    const auto* gemm = schedule.graph[op].as<ir::Gemm>();
    if (gemm == nullptr) continue;
    std::string found = products.at(next++);
    const std::string rest = schedule.graph[op].name + ".epilogue";
    if (std::any_of(schedule.graph.ops.begin(), schedule.graph.ops.end(),
                    [&](const ir::Operation& other) { return other.name == rest; }))
      found += found.empty() ? "loop" : " loop";
    if (!found.empty()) ++count[found];
  }
  EXPECT_EQ(next, products.size());
  std::string text;
  for (const auto& [kind, n] : count) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, kind);
  return fmt::format("  {:4} {}\n", cuda ? "cuda" : "cpp", text.empty() ? "none" : text);
}

// tests/codegen/golden/epilogues.txt; written anew with BRAID_UPDATE_GOLDEN=1.
TEST(Epilogues, OfTheTreesModelsAreThoseReviewed) {
  const fs::path models = paths::test_models(), source = paths::source();
  if (!fs::exists(models / "transformers")) GTEST_SKIP() << "no models in " << models << "; ctest makes them";
  std::vector<fs::path> folders;
  for (const fs::path& root : {source / "tests/corpus/exported", models / "transformers"}) {
    for (const auto& entry : fs::directory_iterator(root)) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end(),
            [](const fs::path& a, const fs::path& b) { return a.filename() < b.filename(); });
  std::string text;
  for (const fs::path& folder : folders) {
    CompileOptions options;
    options.import = import_options_of(folder, options.model);
    text += folder.filename().string() + "\n";
    for (const char* target : {"cpu", "cuda"}) {
      options.target = target;
      text += kinds(options);
    }
  }
  const fs::path golden = source / "tests/codegen/golden/epilogues.txt";
  if (std::getenv("BRAID_UPDATE_GOLDEN")) std::ofstream(golden) << text;
  EXPECT_EQ(text, read_file(golden)) << "if this is meant: BRAID_UPDATE_GOLDEN=1 and read the difference";
}

}  // namespace
}  // namespace braid::test
