// The work that operators declare (frontend/work.h), against that of the kernels that they are lowered to.
#include "split/work.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "analysis/costs/cost_model.h"
#include "analysis/costs/roofline.h"
#include "frontend/op_registry.h"
#include "frontend/sharding/split_names.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/work_cases.h"

namespace braid::frontend::sharding {
namespace {

// Operators without a case, and why.
std::map<std::string, std::string> exceptions() {
  std::map<std::string, std::string> all;
  const auto add = [&](const char* why, std::initializer_list<const char*> ops) {
    for (const char* op : ops) all.emplace(op, why);
  };
  add("no plan splits its bodies, so that they cost the same in all", {"If", "Loop", "Scan"});
  add("lists are taken apart while compiling",
      {"Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceConstruct",
       "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence",
       "ConcatFromSequence"});
  add("its result is known while compiling",
      {"Constant", "NonZero", "NonMaxSuppression", "Unique", "MelWeightMatrix", "Shape", "Size"});
  add("plain models have no collectives; those of other axes are priced by the bytes that they transfer",
      {"DistCollective", "ai.braid.AllGather", "ai.braid.AllReduce", "ai.braid.AllToAll",
       "ai.braid.BatchSendRecv", "ai.braid.Broadcast", "ai.braid.OfRank", "ai.braid.Recv",
       "ai.braid.ReduceScatter", "ai.braid.Send", "ai.braid.ShardDimAllToAll", "ai.braid.WaitTensor",
       "com.microsoft.AllGather", "com.microsoft.AllReduce", "com.microsoft.AllToAll"});
  return all;
}

std::string name_of_operator(const OpSpec& op) {
  return op.domain.empty() ? op.name : op.domain + "." + op.name;
}

struct Counted {
  double flops = 0, bytes = 0;
};

ImportOptions options_of(const WorkCase& c) {
  ImportOptions options;
  if (c.graph.find("[n") != std::string::npos) options.dims["n"] = {1, 4096};
  return options;
}

Counted declared(const WorkCase& c, const analysis::CostModel& costs) {
  Counted sum;
  const TemporaryFolder folder;
  PlainModel(folder.write("model.onnx", model_of(c)), options_of(c)).with_graph([&](const Graph& graph) {
    SplitCosts sizes;
    sizes.size = [&](const ir::Expr& size) { return costs.value(size); };
    for (const GraphNode& node : graph.nodes) {
      if (node.compile_time) continue;
      const NodeWork work = work_of(graph, node, sizes);
      if (work.free) continue;
      sum.flops += work.flops;
      sum.bytes += work.passed_on + work.tables;
      for (const auto* list : {&work.reads, &work.writes}) {
        for (const auto& [k, bytes] : *list) sum.bytes += bytes;
      }
    }
  });
  return sum;
}

void add_kernels(const ir::Schedule& schedule, const ir::ScheduleNode& node,
                 const analysis::StorageUsers& users, const analysis::SizeOf& size, Counted& sum) {
  if (node.kind == ir::ScheduleNode::Kind::grouped) {
    for (const ir::ScheduleNode& member : node.members) add_kernels(schedule, member, users, size, sum);
    return;
  }
  std::vector<ir::OpId> ops = ir::ops_of(node);
  std::sort(ops.begin(), ops.end());
  const auto inside = [&](ir::BufferId b) {
    return ops.size() > 1 && users.only_inside(ir::root_storage(schedule.graph, b), ops);
  };
  for (const ir::OpId op : ops) {
    const analysis::KernelWork work = analysis::kernel_work(schedule.graph, schedule.graph[op], size, inside);
    sum.flops += work.flops;
    sum.bytes += work.bytes;
  }
}

Counted lowered(const WorkCase& c, const analysis::CostModel& costs) {
  ir::Schedule schedule = import_proto(model_of(c), options_of(c));
  passes::run_passes(schedule, passes::default_passes(), {});
  Counted sum;
  const analysis::StorageUsers users(schedule.graph);
  const analysis::SizeOf size = [&](const ir::Expr& e) { return costs.value(e); };
  for (const ir::ScheduleNode& node : schedule.nodes) add_kernels(schedule, node, users, size, sum);
  return sum;
}

TEST(Work, EveryOperatorHasACaseOrAReason) {
  std::set<std::string> known;
  for (const WorkCase& c : work_cases()) known.insert(c.op);
  const std::map<std::string, std::string> without = exceptions();
  for (const OpSpec& op : all_ops())
    EXPECT_NE(known.contains(name_of_operator(op)), without.contains(name_of_operator(op)))
        << name_of_operator(op);
}

TEST(Work, IsThatOfTheKernels) {
  const auto costs = analysis::cost_model_for("h100");
  const auto within = [](double a, double b, double factor) { return a <= factor * b && b <= factor * a; };
  for (const WorkCase& c : work_cases()) {
    SCOPED_TRACE(c.graph);
    try {
      const Counted own = declared(c, *costs), kernels = lowered(c, *costs);
      EXPECT_TRUE(within(own.flops, kernels.flops, c.flops))
          << c.op << ": " << own.flops << " flops are declared, kernels have " << kernels.flops;
      EXPECT_TRUE(within(own.bytes, kernels.bytes, c.bytes))
          << c.op << ": " << own.bytes << " bytes are declared, kernels have " << kernels.bytes;
    } catch (const std::exception& error) {
      ADD_FAILURE() << c.op << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace braid::frontend::sharding
