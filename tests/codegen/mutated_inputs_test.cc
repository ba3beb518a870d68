// Changed models and texts, all the way to source: each gives a program or a user error within 4 GB and 20 s
// of processor time. Seeds are the models that this tree and ONNX test with, those that once crashed, and
// texts of random programs before and after the passes. Folders of compiled programs with changed files: each
// computes what it did before, or is refused. Pipeline schedules have a test of their own
// (tests/pipeline/csv_random_test.cc). BRAID_TEST_SEED and BRAID_RANDOM_SCALE as in random_test.cc.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "analysis/check/check_traces.h"
#include "codegen/manifest.h"
#include "codegen/trace_json.h"
#include "driver/compile.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "runtime/program.h"
#include "tests/codegen/compiled.h"
#include "tests/fuzz/mutate.h"
#include "tests/paths.h"
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
  const fs::path corpus = paths::source("tests/corpus");
  std::vector<Seed> seeds;
  for (const fs::path& root : {corpus, fs::path(paths::onnx_cases())}) {
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
  for (const fs::path& path : files_below(paths::source("tests/corpus"), ".braid"))
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

// A folder of this test, and in it one for each case.
class Folder {
 public:
  Folder() = default;
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_ = fs::temp_directory_path() / fmt::format("braid_mutants_{}", ::getpid());
};

// run_limited with a folder for each case, which goes afterwards.
template <class F>
std::vector<test::CaseFailure> run_in_folders(const Folder& folder, int count, const F& f) {
  return test::run_limited(count, [&](int k) {
    const fs::path own = folder.path() / std::to_string(k);
    fs::create_directories(own);
    const struct Removed {
      const fs::path& path;
      ~Removed() { fs::remove_all(path); }
    } removed{own};
    f(own, k);
  });
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
  const Folder folder;
  const std::vector<test::CaseFailure> failures =
      run_in_folders(folder, count, [&](const fs::path& own, int k) { compile_seed(own, mutant(k)); });
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

// ---- folders of compiled programs

struct ProgramSeed {
  fs::path dir;
  std::map<std::string, std::string> files;
  // The tensors of one step; outputs only give their shapes. Without inputs, the program has several ranks.
  // No program runs before the cases are forked, since the children would lack OpenMP's threads.
  std::vector<ir::Tensor> inputs, outputs;
};

// Runs one step of the program in a folder as `braid run` does, and reads its collectives as `braid check`
// does. Returns nullopt if the manifest names a library that is not there: it would be built, and its source
// may be anything. Throws a UserError if the runtime refuses to open the program.
std::optional<std::vector<ir::Tensor>> step_of(const fs::path& dir, std::vector<ir::Tensor> inputs,
                                               const std::vector<ir::Tensor>& like) {
  const codegen::Manifest manifest = codegen::read_manifest(dir.string());
  try {
    check::check_traces({codegen::read_program_trace(dir.string())});
  } catch (const ir::UserError&) {
  }
  const std::string library =
      (dir / (manifest.name + codegen::target_named(manifest.target).library)).string();
  if (!fs::exists(library)) return std::nullopt;
  std::vector<ir::Tensor> outputs = like;
  for (ir::Tensor& t : outputs) std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0x55});
  try {
    const BraidProgram* table = rt::load_program(library, manifest.id);
    if (inputs.empty()) return std::nullopt;
    rt::Program program = rt::Program::open(table, {.weights_dir = dir.string()});
    std::vector<rt::TensorView> in, out;
    for (ir::Tensor& t : inputs) in.push_back(test::view(t));
    for (ir::Tensor& t : outputs) out.push_back(test::view(t));
    program.run(in, out);
  } catch (const rt::ProgramError& error) {
    if (error.code() != rt::kCannotOpen) throw;
    ir::user_error(error.code(), {}, error.what());
  }
  return outputs;
}

// Weights below and above the number of blocks that are checked wherever they are used, and collectives.
std::vector<ProgramSeed> program_seeds(const fs::path& root) {
  std::string chain = "graph chain\ninput %x0: f32[1, 256]\n";
  constexpr int kMatrices = 8;
  for (int k = 1; k <= kMatrices; ++k) chain += fmt::format("constant %w{}: f32[256, 256] = splat(0.5)\n", k);
  for (int k = 1; k <= kMatrices; ++k)
    chain += fmt::format("%x{}: f32[1, 256] = gemm %x{}, transpose(%w{})\n", k, k - 1, k);
  chain += fmt::format("output %x{}\n", kMatrices);
  const std::vector<std::string> texts = {
      "graph layer\ninput %x: f32[3, 64]\nconstant %w: f32[64, 48] = splat(0.5)\n"
      "constant %b: f32[48] = splat(0.25)\n%h: f32[3, 48] = gemm %x, %w\n"
      "%y: f32[3, 48] = pointwise { %0 = load %h %1 = load %b[i1] %2 = add %0, %1 store %2 }\noutput %y\n",
      chain,
      "graph pair\nranks 2\ngroup @g = [0, 1]\ninput %x: f32[8]\n"
      "%y: f32[8] = all_reduce sum @g (%x) as ar\n%z mutates %y = wait ar\nrelease ar\noutput %z\n"};
  std::vector<ProgramSeed> seeds;
  for (const std::string& text : texts) {
    ir::Schedule schedule = test::schedule_of(text);
    test::fill_constants(schedule.graph, 17);
    ProgramSeed seed;
    CompileOptions options;
    options.name = schedule.graph.name;
    seed.dir = root / options.name;
    options.output_dir = seed.dir.string();
    emit_program(schedule, options);
    build_program(options.output_dir);
    for (const auto& entry : fs::directory_iterator(seed.dir))
      seed.files[entry.path().filename().string()] = test::read_file(entry.path());
    if (schedule.graph.ranks == 1) {
      seed.inputs = test::random_inputs(schedule.graph, {}, 1);
      const std::vector<std::vector<ir::Tensor>> ranks = {seed.inputs};
      seed.outputs = ir::run(schedule, ranks).outputs.at(0);
    }
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

// A value somewhere in the tree: gone, of another kind, out of range, or another of the tree's own.
void mutate_json(nlohmann::json& tree, std::mt19937_64& random) {
  std::vector<nlohmann::json::json_pointer> places;
  const auto collect = [&](const auto& self, const nlohmann::json& node,
                           const nlohmann::json::json_pointer& at) -> void {
    if (!at.empty()) places.push_back(at);
    if (!node.is_structured()) return;
    for (const auto& [key, value] : node.items())
      self(self, value, node.is_array() ? at / static_cast<std::size_t>(std::stoull(key)) : at / key);
  };
  collect(collect, tree, {});
  if (places.empty()) return;
  const auto& place = places[random() % places.size()];
  static const std::vector<nlohmann::json> kValues = {nullptr,
                                                      true,
                                                      -1,
                                                      0,
                                                      1,
                                                      2147483647,
                                                      2147483648,
                                                      1e300,
                                                      "",
                                                      "../x",
                                                      nlohmann::json::array(),
                                                      nlohmann::json::object(),
                                                      18446744073709551615u};
  switch (random() % 3) {
    case 0:
      if (nlohmann::json& parent = tree[place.parent_pointer()]; parent.is_object())
        parent.erase(place.back());
      else
        parent.erase(std::stoull(place.back()));
      return;
    case 1:
      tree[place] = kValues[random() % kValues.size()];
      return;
    default: {
      const nlohmann::json other = tree[places[random() % places.size()]];
      tree[place] = other;
    }
  }
}

// Changes up to two files of a program, in place. Returns what was done.
std::string change(std::map<std::string, std::string>& files, const ProgramSeed& other,
                   std::mt19937_64& random) {
  std::string done;
  for (std::size_t changes = 1 + random() % 2; changes > 0; --changes) {
    auto file = std::next(files.begin(), static_cast<std::ptrdiff_t>(random() % files.size()));
    if (random() % 2 == 0) file = files.find("manifest.json");
    std::string& bytes = file->second;
    const auto its = other.files.find(file->first);
    switch (const std::size_t kind = random() % 8) {
      case 0:
        bytes.resize(random() % (bytes.size() + 1));
        done += fmt::format("{} truncated to {} bytes\n", file->first, bytes.size());
        break;
      case 1:
        if (its != other.files.end()) bytes = its->second;
        done += fmt::format("{} of another program\n", file->first);
        break;
      default:
        if (nlohmann::json tree; kind < 6 && file->first == "manifest.json" &&
                                 (tree = nlohmann::json::parse(bytes, nullptr, false)).is_object()) {
          mutate_json(tree, random);
          bytes = tree.dump();
          done += "manifest.json: a value\n";
        } else {
          bytes = test::mutate(std::move(bytes), its != other.files.end() ? its->second : "", random);
          done += fmt::format("{}: bytes\n", file->first);
        }
    }
  }
  return done;
}

TEST(MutatedFolders, ComputeTheSameOrAreRefused) {
  const Folder folder;
  const std::vector<ProgramSeed> seeds = program_seeds(folder.path());
  const std::uint64_t first = test::first_seed();
  const auto mutant = [&](int k, std::map<std::string, std::string>& files, std::string& done) {
    std::mt19937_64 random(first + static_cast<std::uint64_t>(k));
    const ProgramSeed& seed = seeds[random() % seeds.size()];
    files = seed.files;
    done = change(files, seeds[random() % seeds.size()], random);
    return &seed;
  };
  const auto failures = run_in_folders(folder, test::random_cases(500), [&](const fs::path& own, int k) {
    std::map<std::string, std::string> files;
    std::string done;
    const ProgramSeed& seed = *mutant(k, files, done);
    for (const auto& [name, bytes] : files) {
      if (bytes == seed.files.at(name))
        fs::create_symlink(seed.dir / name, own / name);
      else
        std::ofstream(own / name, std::ios::binary) << bytes;
    }
    const auto outputs = step_of(own, seed.inputs, seed.outputs);
    if (!outputs) return;
    const auto right = step_of(seed.dir, seed.inputs, seed.outputs);
    for (std::size_t o = 0; o < outputs->size(); ++o)
      ir::internal_check((*outputs)[o].bytes == right->at(o).bytes, "another result");
  });
  for (const auto& [number, what] : failures) {
    std::map<std::string, std::string> files;
    std::string done;
    const ProgramSeed& seed = *mutant(number, files, done);
    ADD_FAILURE() << what << "\nBRAID_TEST_SEED=" << first + static_cast<std::uint64_t>(number)
                  << " makes it the first case: program " << seed.dir.filename() << "\n"
                  << done;
  }
}

}  // namespace
}  // namespace braid
