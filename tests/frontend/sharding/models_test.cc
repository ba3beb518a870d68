// Plain models, split by the search and by plans that are drawn, against the results of the plain model:
// interpreter, N ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "frontend/import.h"
#include "ir/interpreter.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/frontend/sharding/proof.h"
#include "tests/paths.h"
#include "tests/support/onnx_cases.h"
#include "tests/support/random.h"
#include "tests/support/schedule_checks.h"

namespace braid::frontend::sharding {
namespace {

namespace fs = std::filesystem;

struct Totals {
  int models = 0, split_models = 0, split_nodes = 0, collectives = 0, split_caches = 0;
};

int collectives_of(const ir::Schedule& schedule) {
  int count = 0;
  for (const ir::Operation& op : schedule.graph.ops) count += op.as<ir::CollectiveKernel>() != nullptr;
  return count;
}

// Splits one case and compares all its data sets. Every rank is given its part of the inputs; parts of
// outputs are joined.
void check(const fs::path& folder, const Mesh& mesh, unsigned seed, double rtol, double atol, Totals& totals,
           Caches caches = Caches::whole) {
  const int ranks = mesh.ranks();
  SCOPED_TRACE(fmt::format("{} on {} ranks, seed {}", folder.filename().string(), to_string(mesh), seed));
  std::string path;
  ImportOptions options = test::import_options_of(folder, path);
  if (options.ranks != 1) return;
  ir::Schedule plain;
  try {
    plain = import_model(path, options);
  } catch (const ir::UserError&) {
    return;  // refused whole too
  }
  Chosen chosen;
  options.ranks = ranks;
  options.split = chosen_request(chosen, seed, caches, mesh);
  try {
    const ir::Schedule schedule = import_model(path, options);
    EXPECT_EQ(test::text_and_verifier_complaints(schedule), "");
    EXPECT_EQ(parse_mesh_plan(to_string(chosen.plan), "plan"), chosen.plan);
    ++totals.models;
    totals.split_models += chosen.split_nodes > 0 ? 1 : 0;
    totals.split_nodes += chosen.split_nodes;
    totals.collectives += collectives_of(schedule);
    totals.split_caches += static_cast<int>(chosen.outputs.size());
    EXPECT_TRUE(chosen.inputs.empty() || chosen.inputs.size() == chosen.outputs.size());
    std::vector<std::string> inputs, outputs;
    for (const auto& input : schedule.graph.inputs) inputs.push_back(input.name);
    for (const auto& output : schedule.graph.outputs) outputs.push_back(output.name);
    const auto sets = test::read_data_sets(folder, 1);
    for (const std::vector<test::DataSet>& set : sets) {
      std::vector<std::vector<ir::Tensor>> per_rank(static_cast<std::size_t>(ranks));
      for (std::size_t k = 0; k < set[0].inputs.size(); ++k) {
        const auto spec = chosen.inputs.find(inputs[k]);
        const auto parts =
            cut(set[0].inputs[k], spec == chosen.inputs.end() ? Spec() : spec->second, ranks, 1);
        for (std::size_t r = 0; r < per_rank.size(); ++r) per_rank[r].push_back(parts[r]);
      }
      const ir::InterpreterResult result = ir::run(schedule, per_rank);
      for (std::size_t k = 0; k < set[0].outputs.size(); ++k) {
        std::vector<ir::Tensor> parts;
        for (const auto& of_rank : result.outputs) parts.push_back(of_rank[k]);
        const auto spec = chosen.outputs.find(outputs[k]);
        const ir::Tensor whole = joined(parts, spec == chosen.outputs.end() ? Spec() : spec->second);
        const bool half = ir::size_of(set[0].outputs[k].dtype) == 2;
        EXPECT_EQ(test::difference(whole, set[0].outputs[k], half ? 1e-2 : rtol, half ? 1e-3 : atol), "")
            << "output " << outputs[k] << "\n"
            << to_string(chosen.plan);
      }
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n" << to_string(chosen.plan);
  }
}

// One in `every` of the cases; all of them in the deep tier.
Totals check_all(const fs::path& root, const std::vector<Mesh>& meshes, const std::vector<unsigned>& seeds,
                 double rtol, double atol, std::size_t every = 1) {
  Totals totals;
  if (!fs::exists(root)) return totals;
  const bool all = test::random_cases(1) > 1;
  std::size_t count = 0;
  for (const fs::path& folder : test::sorted_entries(root)) {
    if (!all && count++ % every != 0) continue;
    for (const Mesh& mesh : meshes) {
      for (const unsigned seed : seeds) check(folder, mesh, seed, rtol, atol, totals);
    }
  }
  fmt::print("{} splits, {} of them of some node, {} nodes, {} collectives\n", totals.models,
             totals.split_models, totals.split_nodes, totals.collectives);
  return totals;
}

fs::path models(const char* part) { return paths::test_models(part); }

TEST(SplitModels, TransformersEqualThePlainOnes) {
  const Totals totals = check_all(models("transformers"), {Mesh::line(2), Mesh::line(4)}, {0, 1}, 1e-4, 1e-5);
  if (totals.models == 0) GTEST_SKIP() << "no models: ctest makes them";
  EXPECT_EQ(totals.models, totals.split_models);
}

TEST(SplitModels, TransformersOnSeveralAxesEqualThePlainOnes) {
  const Totals totals =
      check_all(models("transformers"), {parse_mesh("a=2,b=2", "mesh")}, {0, 1}, 1e-4, 1e-5, 2);
  if (totals.models == 0) GTEST_SKIP() << "no models: ctest makes them";
  EXPECT_EQ(totals.models, totals.split_models);
}

TEST(SplitModels, OperatorsOnSeveralAxesEqualThePlainOnes) {
  const Totals totals = check_all(models("ops"), {parse_mesh("a=2,b=2", "mesh")}, {5}, 1e-4, 1e-5, 3);
  if (totals.models == 0) GTEST_SKIP() << "no models: ctest makes them";
}

// Two layers with a past key and a past value each.
TEST(SplitModels, KeepTheirCachesInParts) {
  Totals totals;
  for (const char* name :
       {"gpt2_decode", "gpt2_slice_decode", "gpt2_static_decode", "llama_decode", "llama_grouped_decode"}) {
    if (!fs::exists(models("transformers") / name)) GTEST_SKIP() << "no models: ctest makes them";
    const int before = totals.split_caches;
    check(models("transformers") / name, Mesh::line(2), 0, 1e-4, 1e-5, totals, Caches::in_parts);
    EXPECT_EQ(totals.split_caches - before, 4) << name;
  }
}

// Prefill has no past, but what it returns is the first one.
TEST(SplitModels, BeginTheirCachesInParts) {
  Totals totals;
  for (const char* name : {"gpt2_prefill", "llama_prefill"}) {
    if (!fs::exists(models("transformers") / name)) GTEST_SKIP() << "no models: ctest makes them";
    const int before = totals.split_caches;
    check(models("transformers") / name, Mesh::line(2), 0, 1e-4, 1e-5, totals, Caches::in_parts);
    EXPECT_EQ(totals.split_caches - before, 4) << name;
  }
}

TEST(SplitModels, ArchitecturesEqualThePlainOnes) {
  std::vector<Mesh> meshes = {Mesh::line(2)};
  if (test::random_cases(1) > 1) meshes.push_back(Mesh::line(4));
  const Totals totals = check_all(models("architectures"), meshes, {0}, 1e-3, 1e-4, 5);
  if (totals.models == 0) GTEST_SKIP() << "no models: ctest makes them";
  EXPECT_GT(totals.split_models, totals.models / 2);
}

TEST(SplitModels, OperatorsEqualThePlainOnes) {
  const Totals totals = check_all(models("ops"), {Mesh::line(2)}, {3}, 1e-4, 1e-5);
  if (totals.models == 0) GTEST_SKIP() << "no models: ctest makes them";
}

}  // namespace
}  // namespace braid::frontend::sharding
