// Split models against plain ones whose sums are taken in the split's order: rounding is all that a split may
// change. The reference is the plain model in which each product whose sum is split is spelled out as
// products of the parts, added in the order of ranks. Both are interpreted; sums of parts are kept in double
// and rounded once, as the interpreter does in an AllReduce.
//
// The names of a model, the order of its nodes, and nodes that do nothing must not change the result.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "frontend/import.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/frontend/sharding/proof.h"
#include "tests/paths.h"
#include "tests/support/onnx_cases.h"

namespace braid::frontend::sharding {
namespace {

namespace fs = std::filesystem;

// A product whose sum is split, and how it takes its inputs.
struct SplitSum {
  std::vector<Spec> inputs;
  std::vector<std::int64_t> sizes;  // of the split dimensions of the inputs
};
using SplitSums = std::map<std::string, SplitSum>;  // by the product's result

struct SplitRun {
  ir::Schedule schedule;
  SplitSums sums;
  bool only_products = true;  // no other node takes or leaves partial results
  int split = 0;
};

SplitRun split_run(const std::string& path, ImportOptions options, int ranks) {
  SplitRun run;
  options.ranks = ranks;
  auto request = std::make_shared<SplitRequest>();
  request->choose = [&run](const Graph& graph, const Mesh& mesh) {
    const int n = mesh.ranks();
    const SplitSpace space(graph, mesh);
    const SplitChoice choice = space.choose(test_costs(0));
    for (const ChosenNode& chosen : choice.nodes) {
      const GraphNode& node = graph.nodes[chosen.node];
      const Strategy& s = *chosen.axes.at(0);
      const auto pending = [](const Spec& spec) { return spec.is_pending(); };
      run.split += s.letter.valid() ? 1 : 0;
      const bool exchanges = s.letter.valid() && !node.operation->inner(graph, node, s, n).empty();
      run.only_products &= !exchanges;
      if (std::none_of(s.outputs.begin(), s.outputs.end(), pending)) continue;
      const std::string& op = node.op;
      if (op == "Gather" && std::none_of(s.inputs.begin(), s.inputs.end(), pending)) continue;  // adds zeros
      if ((op != "MatMul" && op != "Gemm") || !s.letter.valid()) {
        run.only_products = false;
        continue;
      }
      SplitSum& sum = run.sums[plan_name(graph, node)];
      sum.inputs = s.inputs;
      for (std::size_t k = 0; k < s.inputs.size(); ++k) {
        if (!node.inputs[k].valid()) continue;
        const GraphValue& value = graph.values[node.inputs[k]];
        sum.sizes.push_back(s.inputs[k].is_split() ? value.sizes[s.inputs[k].dim].constant() : 0);
      }
    }
    return choice.plan;
  };
  options.split = request;
  run.schedule = import_model(path, options);
  return run;
}

onnx::NodeProto& add(onnx::GraphProto& graph, const std::string& op, const std::vector<std::string>& inputs,
                     const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(output);
  for (const std::string& name : inputs) node.add_input(name);
  node.add_output(output);
  return node;
}

void set(onnx::NodeProto& node, const char* name, std::int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

onnx::ModelProto in_split_order(const onnx::ModelProto& plain, const SplitSums& sums, int ranks) {
  onnx::ModelProto result = plain;
  onnx::GraphProto& graph = *result.mutable_graph();
  graph.clear_node();
  for (const onnx::NodeProto& node : plain.graph().node()) {
    const auto found = node.output_size() == 0 ? sums.end() : sums.find(node.output(0));
    if (found == sums.end()) {
      *graph.add_node() = node;
      continue;
    }
    const SplitSum& sum = found->second;
    const std::string base = node.output(0) + "/reference";
    std::string total;
    for (int r = 0; r < ranks; ++r) {
      const std::string own = fmt::format("{}/{}", base, r);
      onnx::NodeProto part = node;
      part.set_name(own);
      part.set_output(0, own);
      for (std::size_t k = 0; k < sum.inputs.size(); ++k) {
        const Spec& spec = sum.inputs[k];
        const int at = static_cast<int>(k);
        if (spec.is_pending() && r > 0) part.mutable_input()->DeleteSubrange(at, part.input_size() - at);
        if (!spec.is_split()) continue;
        const std::vector<std::int64_t> order = order_of(spec.blocks, sum.sizes[k], ranks);
        const std::string positions = fmt::format("{}/positions{}", own, k),
                          taken = fmt::format("{}/input{}", own, k);
        onnx::TensorProto& tensor = *graph.add_initializer();
        tensor.set_name(positions);
        tensor.set_data_type(onnx::TensorProto::INT64);
        const std::size_t count = order.size() / static_cast<std::size_t>(ranks);
        tensor.add_dims(static_cast<std::int64_t>(count));
        for (std::size_t j = 0; j < count; ++j)
          tensor.add_int64_data(order[static_cast<std::size_t>(r) * count + j]);
        set(add(graph, "Gather", {node.input(at), positions}, taken), "axis", spec.dim);
        part.set_input(at, taken);
      }
      *graph.add_node() = part;
      set(add(graph, "Cast", {own}, own + "/wide"), "to", onnx::TensorProto::DOUBLE);
      if (r > 0) add(graph, "Add", {total, own + "/wide"}, own + "/total");
      total = own + (r > 0 ? "/total" : "/wide");
    }
    set(add(graph, "Cast", {total}, node.output(0)), "to", onnx::TensorProto::FLOAT);
  }
  return result;
}

// A model beside the weights of another one.
std::string write_beside(const TemporaryFolder& scratch, const fs::path& weights,
                         const onnx::ModelProto& model) {
  if (fs::exists(weights / "model.data")) fs::copy_file(weights / "model.data", scratch.file("model.data"));
  return scratch.write("model.onnx", model);
}

onnx::ModelProto read_model(const std::string& path) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(test::read_file(path))) << path;
  return model;
}

std::vector<ir::Tensor> outputs_of(const ir::Schedule& schedule, const std::vector<ir::Tensor>& inputs,
                                   int ranks) {
  const std::vector<std::vector<ir::Tensor>> per_rank(static_cast<std::size_t>(ranks), inputs);
  return ir::run(schedule, per_rank).outputs[0];
}

TEST(SplitOrder, TransformersEqualThePlainOnesBitForBit) {
  const fs::path root = paths::test_models("transformers");
  if (!fs::exists(root)) GTEST_SKIP() << "no models: ctest makes them";
  int compared = 0, products = 0, other_sums = 0;
  for (const fs::path& folder : test::sorted_entries(root)) {
    std::string path;
    const ImportOptions options = test::import_options_of(folder, path);
    if (options.ranks != 1) continue;
    const onnx::ModelProto plain = read_model(path);
    const auto sets = test::read_data_sets(folder, 1);
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", folder.filename().string(), ranks));
      const SplitRun run = split_run(path, options, ranks);
      if (!run.only_products) {
        ++other_sums;
        continue;
      }
      const TemporaryFolder scratch;
      const ir::Schedule reference =
          import_model(write_beside(scratch, folder, in_split_order(plain, run.sums, ranks)), options);
      for (const std::vector<test::DataSet>& set : sets) {
        const auto split = outputs_of(run.schedule, set[0].inputs, ranks),
                   whole = outputs_of(reference, set[0].inputs, 1);
        for (std::size_t k = 0; k < whole.size(); ++k)
          EXPECT_EQ(difference(split[k], whole[k], 0), "") << "output " << k;
      }
      ++compared;
      products += static_cast<int>(run.sums.size());
    }
  }
  fmt::print(
      "{} split models equal to their order of sums, with {} split sums; {} others have sums that are no "
      "products\n",
      compared, products, other_sums);
  EXPECT_GT(compared, 0);
  EXPECT_GT(products, 0);
}

// ---- changes that must not change anything

std::string renamed(const std::string& name) { return name.empty() ? name : "other_" + name; }

void rename_all(onnx::ModelProto& model) {
  onnx::GraphProto& graph = *model.mutable_graph();
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    node.set_name(renamed(node.name()));
    for (std::string& name : *node.mutable_input()) name = renamed(name);
    for (std::string& name : *node.mutable_output()) name = renamed(name);
  }
  for (auto* list : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()}) {
    for (onnx::ValueInfoProto& value : *list) value.set_name(renamed(value.name()));
  }
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) tensor.set_name(renamed(tensor.name()));
}

// Another order in which every node still comes after what it reads.
void permute(onnx::ModelProto& model, unsigned seed) {
  std::mt19937 random(seed);
  onnx::GraphProto& graph = *model.mutable_graph();
  std::vector<onnx::NodeProto> nodes(graph.node().begin(), graph.node().end());
  std::set<std::string> computed, known;
  for (const onnx::NodeProto& node : nodes) computed.insert(node.output().begin(), node.output().end());
  graph.clear_node();
  while (!nodes.empty()) {
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const auto& inputs = nodes[n].input();
      if (std::all_of(inputs.begin(), inputs.end(), [&](const std::string& name) {
            return name.empty() || computed.count(name) == 0 || known.count(name) > 0;
          }))
        ready.push_back(n);
    }
    const std::size_t n = ready[random() % ready.size()];
    known.insert(nodes[n].output().begin(), nodes[n].output().end());
    *graph.add_node() = nodes[n];
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

// Puts an Identity after every third result.
void insert_identities(onnx::ModelProto& model) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::vector<onnx::NodeProto> nodes(graph.node().begin(), graph.node().end());
  graph.clear_node();
  int count = 0;
  for (onnx::NodeProto node : nodes) {
    if (count++ % 3 != 0 || node.output_size() != 1) {
      *graph.add_node() = node;
      continue;
    }
    const std::string result = node.output(0);
    node.set_output(0, result + "/before");
    *graph.add_node() = node;
    add(graph, "Identity", {result + "/before"}, result);
  }
}

TEST(SplitOrder, NamesOrderAndIdentitiesChangeNothing) {
  for (const char* name : {"gpt2_prefill", "llama_decode"}) {
    const fs::path folder = paths::test_models(std::string("transformers/") + name);
    if (!fs::exists(folder)) GTEST_SKIP() << "no models: ctest makes them";
    std::string path;
    const ImportOptions options = test::import_options_of(folder, path);
    const onnx::ModelProto plain = read_model(path);
    const auto sets = test::read_data_sets(folder, 1);
    const std::vector<ir::Tensor>& inputs = sets.at(0).at(0).inputs;
    const SplitRun base = split_run(path, options, 2);
    const std::vector<ir::Tensor> expected = outputs_of(base.schedule, inputs, 2);
    const auto check = [&](const char* what, const onnx::ModelProto& changed, bool same_nodes) {
      SCOPED_TRACE(fmt::format("{}: {}", name, what));
      const TemporaryFolder scratch;
      const SplitRun run = split_run(write_beside(scratch, folder, changed), options, 2);
      if (same_nodes) {
        EXPECT_EQ(run.split, base.split);
      }
      EXPECT_EQ(run.sums.size(), base.sums.size());
      const std::vector<ir::Tensor> outputs = outputs_of(run.schedule, inputs, 2);
      for (std::size_t k = 0; k < expected.size(); ++k)
        EXPECT_EQ(difference(outputs[k], expected[k], 0), "") << "output " << k;
    };
    onnx::ModelProto other = plain;
    rename_all(other);
    check("other names", other, true);
    for (const unsigned seed : {1u, 2u}) {
      other = plain;
      permute(other, seed);
      check("another order of the nodes", other, true);
    }
    other = plain;
    insert_identities(other);
    check("nodes of Identity", other, false);
  }
}

}  // namespace
}  // namespace braid::frontend::sharding
