#include "tests/support/split_sweep.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "driver/split_report.h"
#include "frontend/sharding/rules.h"
#include "frontend/signature.h"
#include "split/candidates.h"
#include "split/plan.h"

namespace braid::test {

namespace {

using namespace frontend::sharding;

// The states that a node takes and leaves with one combination per axis; everything else is whole.
std::string plan_of(const Graph& graph, const GraphNode& node, const Mesh& mesh,
                    const std::vector<Strategy>& axes) {
  MeshPlan plan(mesh);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    Plan& own = plan.axes[a];
    for (int k = 0; k < count_of(node.inputs); ++k) {
      if (!node.inputs[k].valid()) continue;
      const std::string& name = graph.values[node.inputs[k]].name;
      own.readers[{name, {plan_name(graph, node), k}}] = axes[a].inputs[k];
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].valid()) continue;
      const GraphValue& value = graph.values[node.outputs[k]];
      if (value.readers.empty()) continue;
      own.values[value.name] = axes[a].outputs[k];
      // All readers take it whole again.
      for (const GraphUse& use : value.readers) {
        const bool is_node = use.node.valid();
        const std::string reader = is_node ? plan_name(graph, graph.nodes[use.node]) : std::string();
        own.readers[{value.name, {reader, is_node ? use.input : -1}}] = Spec::replicated();
      }
    }
  }
  return to_string(plan);
}

}  // namespace

std::optional<SweepCase> sweep_case(const fs::path& folder, bool binds_inputs) {
  SweepCase c{folder, {}, {}};
  c.options.import = import_options_of(folder, c.options.model);
  if (c.options.import.ranks > 1) return std::nullopt;
  const std::vector<std::vector<DataSet>> sets = read_data_sets(folder, 1);
  const frontend::Signature signature = frontend::read_signature(c.options.model);
  if (sets.empty() || sets[0][0].inputs.size() != signature.inputs.size()) return std::nullopt;
  for (std::size_t k = 0; k < signature.inputs.size(); ++k) {
    const ir::Tensor& tensor = sets[0][0].inputs[k];
    c.data.emplace(signature.inputs[k].name, tensor);
    if (!binds_inputs) continue;
    c.options.import.bindable.emplace(signature.inputs[k].name, tensor);
    for (std::size_t d = 0; d < signature.inputs[k].dims.size(); ++d) {
      const std::string& name = signature.inputs[k].dims[d];
      if (name.find_first_not_of("0123456789") != std::string::npos)
        c.options.import.dims[name] = {tensor.sizes[d], tensor.sizes[d]};
    }
  }
  return c;
}

std::vector<Split> asked_splits(const SweepCase& c) {
  std::vector<Split> splits;
  const auto add = [&](const char* what, const std::function<void(SplitOptions&)>& ask) {
    CompileOptions options = c.options;
    ask(options.split);
    splits.push_back({what, [options] {
                        SplitReport report;
                        return lower(options, report);
                      }});
  };
  add("--tp 2", [](SplitOptions& split) { split.tensor_ranks = 2; });
  add("--tp 3", [](SplitOptions& split) { split.tensor_ranks = 3; });
  add("--devices 2", [](SplitOptions& split) { split.devices = 2; });
  add("--mesh a=2,b=2", [](SplitOptions& split) { split.mesh = "a=2,b=2"; });
  return splits;
}

std::vector<Split> forced_splits(const SweepCase& c, const std::string& mesh, std::size_t most) {
  const auto model = std::make_shared<frontend::PlainModel>(c.options.model, c.options.import);
  const Mesh on =
      mesh.find('=') == std::string::npos ? Mesh::line(std::stoi(mesh)) : parse_mesh(mesh, "mesh");
  std::vector<std::string> plans;
  model->with_graph([&](const Graph& graph) {
    for (const GraphNode& node : graph.nodes) {
      if (node.compile_time) continue;
      std::vector<std::vector<Strategy>> of_axes;
      for (const ir::MeshAxis& axis : on.axes)
        of_axes.push_back(strategies(graph, node, axis.size, block_candidates(graph, axis.size)));
      for (const Strategy& first : of_axes[0]) {
        if (on.size() == 1) {
          if (first.letter.valid() || &first != of_axes[0].data())
            plans.push_back(plan_of(graph, node, on, {first}));
          continue;
        }
        for (const Strategy& second : of_axes[1]) {
          if (&first != of_axes[0].data() && &second != of_axes[1].data())
            plans.push_back(plan_of(graph, node, on, {first, second}));
        }
      }
    }
  });
  std::vector<Split> splits;
  const std::size_t step =
      std::max<std::size_t>((plans.size() + most - 1) / std::max<std::size_t>(most, 1), 1);
  for (std::size_t k = 0; k < plans.size(); k += step) {
    splits.push_back({plans[k], [model, ranks = on.ranks(), plan = plans[k]] {
                        return model->lower(ranks, plan_request(plan, "").get());
                      }});
  }
  return splits;
}

std::vector<std::vector<ir::Tensor>> inputs_of(const ir::Schedule& schedule, const SweepCase& c) {
  std::vector<ir::Tensor> inputs;
  for (const ir::GraphInput& input : schedule.graph.inputs) inputs.push_back(c.data.at(input.name));
  return std::vector<std::vector<ir::Tensor>>(static_cast<std::size_t>(schedule.graph.ranks), inputs);
}

std::string split_difference(const std::vector<std::vector<ir::Tensor>>& ranks,
                             const std::vector<ir::Tensor>& plain) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].size() != plain.size())
      return fmt::format("rank {}: {} outputs instead of {}", r, ranks[r].size(), plain.size());
    for (std::size_t k = 0; k < plain.size(); ++k) {
      const ir::DType dtype = plain[k].dtype;
      const double relative = dtype == ir::DType::f64    ? 1e-9
                              : dtype == ir::DType::f16  ? 8e-3
                              : dtype == ir::DType::bf16 ? 6e-2
                                                         : 1e-4;
      double largest = 0;
      for (std::int64_t i = 0; is_float(dtype) && i < plain[k].numel(); ++i) {
        const double x = std::abs(element(plain[k], i));
        if (std::isfinite(x)) largest = std::max(largest, x);
      }
      const std::string found =
          difference(ranks[r][k], plain[k], relative, relative * std::max(largest, 1e-3));
      if (!found.empty()) return fmt::format("rank {}, output {}: {}", r, k, found);
    }
  }
  return {};
}

}  // namespace braid::test
