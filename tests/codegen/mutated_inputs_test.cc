// Changed models and texts, all the way to source: each gives a program or a user error within 4 GB and 20 s
// of processor time. Seeds are the models that this tree and ONNX test with, those that once crashed, and
// texts of random programs before and after the passes. Pipeline schedules have a test of their own
// (tests/pipeline/csv_random_test.cc). BRAID_TEST_SEED and BRAID_RANDOM_SCALE as in random_test.cc.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "driver/compile.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/limited_child.h"
#include "tests/support/onnx_cases.h"
#include "tests/support/random.h"
#include "tests/support/random_graph.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

struct Seed {
  std::string bytes;
  bool is_text = false;
  int ranks = 1;
  std::map<std::string, ir::Bounds> dims;
};

std::vector<fs::path> files_below(const fs::path& root, const char* extension) {
  constexpr std::uintmax_t kLargest = 64 << 10;  // larger ones are mostly weights
  std::vector<fs::path> files;
  if (!fs::exists(root)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file() && entry.path().extension() == extension && entry.file_size() <= kLargest)
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Seed> model_seeds() {
  const fs::path corpus = fs::path(BRAID_SOURCE_DIR) / "tests/corpus";
  std::vector<Seed> seeds;
  for (const fs::path& root : {corpus, fs::path(BRAID_ONNX_DIR) / "onnx/backend/test/data/node"}) {
    for (const fs::path& path : files_below(root, ".onnx")) {
      Seed seed{test::read_file(path)};
      if (path.string().find("rank") != std::string::npos) seed.ranks = 2;
      if (const fs::path dims = path.parent_path() / "dims.json"; fs::exists(dims)) {
        const nlohmann::json all = nlohmann::json::parse(test::read_file(dims));
        for (const auto& [name, bounds] : all.items()) seed.dims[name] = {bounds[0], bounds[1]};
      }
      seeds.push_back(std::move(seed));
    }
  }
  return seeds;
}

std::vector<Seed> text_seeds() {
  std::vector<Seed> seeds;
  for (const fs::path& path : files_below(fs::path(BRAID_SOURCE_DIR) / "tests/corpus", ".braid"))
    seeds.push_back({test::read_file(path), true});
  constexpr std::uint64_t kPrograms = 24;
  for (std::uint64_t k = 1; k <= kPrograms; ++k) {
    ir::Schedule schedule = test::random_program(k, 4 + static_cast<int>(k % 12)).schedule;
    seeds.push_back({print(schedule), true});
    optimise(schedule, {});
    seeds.push_back({print(schedule), true});
  }
  return seeds;
}

void compile_seed(const fs::path& folder, const Seed& seed) {
  CompileOptions options;
  options.model = (folder / (seed.is_text ? "changed.braid" : "changed.onnx")).string();
  options.output_dir = (folder / "out").string();
  options.import.ranks = seed.ranks;
  options.import.dims = seed.dims;
  std::ofstream(options.model, std::ios::binary) << seed.bytes;
  if (seed.is_text) {
    const std::string text = print(ir::parse_schedule(seed.bytes));
    ir::internal_check(print(ir::parse_schedule(text)) == text, "does not print to itself");
  }
  compile(options);
}

void check_mutants(const std::vector<Seed>& seeds, int count) {
  ASSERT_FALSE(seeds.empty());
  const std::uint64_t first = test::first_seed();
  const auto mutant = [&](int k) {
    std::mt19937_64 random(first + static_cast<std::uint64_t>(k));
    Seed seed = seeds[random() % seeds.size()];
    seed.bytes = test::mutate(std::move(seed.bytes), seeds[random() % seeds.size()].bytes, random);
    return seed;
  };
  const struct Folder {
    fs::path path = fs::temp_directory_path() / fmt::format("braid_mutants_{}", ::getpid());
    ~Folder() { fs::remove_all(path); }
  } folder;
  std::vector<test::CaseFailure> failures = test::run_limited(count, [&](int k) {
    const fs::path own = folder.path / std::to_string(k);
    fs::create_directories(own);
    const struct Removed {
      const fs::path& path;
      ~Removed() { fs::remove_all(path); }
    } removed{own};
    compile_seed(own, mutant(k));
  });
  for (const auto& [number, what] : failures) {
    const Seed seed = mutant(number);
    const std::string name = fmt::format("mutant_{}.{}", first + static_cast<std::uint64_t>(number),
                                         seed.is_text ? "braid" : "onnx");
    std::ofstream(name, std::ios::binary) << seed.bytes;
    ADD_FAILURE() << what << "\nBRAID_TEST_SEED=" << first + static_cast<std::uint64_t>(number)
                  << " makes it the first case; it is in " << name;
  }
}

TEST(MutatedModels, GiveAProgramOrAUserError) { check_mutants(model_seeds(), test::random_cases(500)); }
TEST(MutatedTexts, GiveAProgramOrAUserError) { check_mutants(text_seeds(), test::random_cases(500)); }

}  // namespace
}  // namespace braid
