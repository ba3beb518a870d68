#include "frontend/sharding/split.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/errors.h"
#include "frontend/op_registry.h"
#include "frontend/schemas.h"

namespace braid::frontend::sharding {

void require_plain(const Model& model, const Opsets& opsets) {
  for (const onnx::NodeProto& node : model.proto.graph().node()) {
    const std::string domain = node.domain() == "ai.onnx" ? std::string() : node.domain();
    const auto version = opsets.find(domain);
    const OpSpec* spec = find_op(domain, node.op_type(), version == opsets.end() ? 1 : version->second);
    if (domain == kBraidDomain || (spec != nullptr && spec->effect))
      ir::user_error(kCannotSplit, location_of(model.path, node),
                     "a model that communicates is split already",
                     "compile it with --ranks, or split a model without collectives");
  }
  for (const auto& [name, tensor] : model.initializers) {
    if (!tensor.data.same_on_all_ranks())
      ir::user_error(kCannotSplit, {.file = model.path},
                     fmt::format("the weight '{}' differs between the ranks' files", name),
                     "a model with one file per rank is split already: compile it with --ranks");
  }
}

Model split_model(const Model& model, const Opsets& opsets, const GraphFacts& facts, int ranks,
                  const SplitRequest& request) {
  const Graph graph = make_graph(model, opsets, facts);
  Plan plan;
  plan.ranks = ranks;
  if (!request.plan.empty()) {
    plan = parse_plan(request.plan, request.plan_file);
  } else if (request.choose) {
    plan = request.choose(graph, ranks);
  }
  const ResolvedPlan resolved =
      resolve(graph, plan, ranks, request.plan_file.empty() ? model.path : request.plan_file);
  if (request.resolved) request.resolved(model, graph, resolved);
  LocalProgram program = apply(model, graph, resolved, ranks);
  if (request.report) request.report(graph, plan, program.inputs, program.outputs);
  return std::move(program.model);
}

}  // namespace braid::frontend::sharding
