// Every operator with hostile constants and sizes: ONNX's node cases and those of tests/frontend/reference/,
// each changed in one place. Every model gives programs for both targets, which the interpreter can run, or a
// user error. A sample in the fast tier, all in the deep one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "ir/interpreter.h"
#include "ir/iterations.h"
#include "tests/frontend/models.h"
#include "tests/frontend/operator_mutations.h"
#include "tests/paths.h"
#include "tests/support/limited_child.h"
#include "tests/support/onnx_cases.h"
#include "tests/support/random.h"

namespace braid::frontend {
namespace {

namespace fs = std::filesystem;

struct Seed {
  fs::path folder;
  onnx::ModelProto model;
  std::vector<ir::Tensor> inputs;
};

std::vector<fs::path> seed_folders() {
  std::vector<fs::path> all;
  const fs::path reference = paths::test_models("reference"), node = paths::onnx_cases("node");
  if (fs::exists(node)) all = test::sorted_entries(node);
  // Expanded functions consist of operators that have cases of their own.
  std::erase_if(
      all, [](const fs::path& p) { return p.filename().string().find("_expanded") != std::string::npos; });
  if (!fs::exists(reference)) return all;
  for (const fs::path& op : test::sorted_entries(reference)) {
    for (const fs::path& folder : test::sorted_entries(op)) all.push_back(folder);
  }
  return all;
}

std::optional<Seed> read_seed(const fs::path& folder) {
  Seed seed{folder, {}, {}};
  if (!seed.model.ParseFromString(test::read_file(folder / "model.onnx"))) return std::nullopt;
  if (seed.model.ByteSizeLong() > 100'000) return std::nullopt;
  if (const std::optional<test::DataSet> data = test::read_data_set(folder / "test_data_set_0"))
    seed.inputs = data->inputs;
  return seed;
}

// Inputs of the right types and sizes: the seed's if they fit, and otherwise numbers of all kinds.
std::vector<ir::Tensor> inputs_of(const ir::Schedule& schedule, const Seed& seed) {
  std::vector<ir::Tensor> inputs;
  for (const ir::GraphInput& input : schedule.graph.inputs) {
    const ir::Buffer& buffer = schedule.graph[input.buffer];
    std::vector<std::int64_t> sizes;
    for (const ir::Expr& e : buffer.sizes)
      sizes.push_back(ir::evaluate(e, [](ir::Expr dim) { return ir::bounds(dim).max; }));
    ir::Tensor tensor = ir::make_tensor(buffer.dtype, sizes);
    for (const ir::Tensor& given : seed.inputs) {
      if (given.dtype == tensor.dtype && given.sizes == tensor.sizes) tensor = given;
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

void compile_and_run(const std::string& path, const Seed& seed, const std::string& folder) {
  CompileOptions options;
  options.model = path;
  options.import.dims = default_dims(path, {}, {0, 3});
  const ir::Schedule imported = lower(options);
  constexpr double kFew = 1e6;
  if (ir::iterations_at_most(imported.graph) < kFew) {
    const std::vector<std::vector<ir::Tensor>> inputs = {inputs_of(imported, seed)};
    try {
      ir::run(imported, inputs);
    } catch (const ir::UserError&) {
    }
  }
  for (const char* target : {"cpu", "cuda"}) {
    options.target = target;
    options.output_dir = folder;
    ir::Schedule schedule = lower(options);
    optimise(schedule, options);
    const StagedProgram program(schedule, options);
  }
}

std::string name_of(const Seed& seed, const Mutation& mutation) {
  return (seed.folder.parent_path().filename() / seed.folder.filename()).string() + ", " + mutation.what;
}

TEST(OperatorSweep, HostileModelsGiveProgramsOrUserErrors) {
  std::vector<Seed> seeds;
  std::vector<std::pair<int, int>> cases;              // seed, mutation
  const char* only = std::getenv("BRAID_SWEEP_ONLY");  // a part of the names of cases to repeat
  for (const fs::path& folder : seed_folders()) {
    std::optional<Seed> seed = read_seed(folder);
    if (!seed) continue;
    const std::vector<Mutation> mutations = mutations_of(seed->model, seed->inputs);
    for (std::size_t k = 0; k < mutations.size(); ++k) {
      if (only == nullptr || name_of(*seed, mutations[k]).find(only) != std::string::npos)
        cases.emplace_back(static_cast<int>(seeds.size()), static_cast<int>(k));
    }
    seeds.push_back(std::move(*seed));
  }
  if (cases.empty()) GTEST_SKIP() << "no cases; ctest makes them";
  const auto total = static_cast<std::int64_t>(cases.size());
  const bool deep = only != nullptr || test::random_cases(100) >= 100 * 100;
  const std::int64_t count = deep ? total : std::min<std::int64_t>(total, test::random_cases(3000));
  fmt::print("{} of {} cases of {} models\n", count, total, seeds.size());
  const auto case_at = [&](int k) { return cases[static_cast<std::size_t>(k * total / count)]; };
  const TemporaryFolder folder;
  const std::vector<test::CaseFailure> failures = test::run_limited(static_cast<int>(count), [&](int k) {
    const auto [s, m] = case_at(k);
    const Seed& seed = seeds[static_cast<std::size_t>(s)];
    onnx::ModelProto model = seed.model;
    mutations_of(seed.model, seed.inputs)[static_cast<std::size_t>(m)].apply(model);
    const std::string path = folder.write(std::to_string(k) + ".onnx", model);
    const struct Removed {
      const std::string& path;
      ~Removed() { fs::remove(path); }
    } removed{path};
    compile_and_run(path, seed, folder.file("out"));
  });
  for (const auto& [number, what] : failures) {
    const auto [s, m] = case_at(number);
    const Seed& seed = seeds[static_cast<std::size_t>(s)];
    ADD_FAILURE() << name_of(seed, mutations_of(seed.model, seed.inputs)[static_cast<std::size_t>(m)]) << ": "
                  << what;
  }
}

}  // namespace
}  // namespace braid::frontend
