#include "harness/profile.h"

#include <algorithm>
#include <numeric>

#include "analysis/costs/cost_model.h"
#include "analysis/costs/roofline.h"
#include "harness/program.h"

namespace braid::harness {
namespace {

// Adds the node and, of a group, its members.
void add_work(const ir::Schedule& schedule, const ir::ScheduleNode& node, const analysis::CostModel& model,
              const analysis::StorageUsers& users, std::map<std::string, NodeWork>& all) {
  if (node.kind == ir::ScheduleNode::Kind::grouped) {
    for (const ir::ScheduleNode& member : node.members) add_work(schedule, member, model, users, all);
  }
  std::vector<ir::OpId> ops = ir::ops_of(node);
  std::sort(ops.begin(), ops.end());
  const auto inside = [&](ir::BufferId b) {
    return ops.size() > 1 && users.only_inside(ir::root_storage(schedule.graph, b), ops);
  };
  NodeWork work;
  analysis::Roofline roof;
  for (const ir::OpId id : ops) {
    const ir::Operation& op = schedule.graph[id];
    if (op.as<ir::RegionKernel>() != nullptr || op.as<ir::CollectiveKernel>() != nullptr ||
        op.as<ir::WaitKernel>() != nullptr || op.as<ir::ReleaseKernel>() != nullptr)
      return;
    const analysis::KernelWork k = analysis::kernel_work(
        schedule.graph, op, [&](const ir::Expr& e) { return model.value(e); }, inside);
    work.flops += k.flops;
    work.product = work.product || op.as<ir::Gemm>() != nullptr;
    work.bytes += k.bytes;
    work.f32 = work.f32 && k.dtype == ir::DType::f32;
    roof += analysis::roofline(model.machine(), k);
  }
  work.roof_us = roof.us();
  all[node.kind == ir::ScheduleNode::Kind::single ? schedule.graph[node.op].name : node.name] = work;
}

// `ns_of` gives the time of node k in a step, of which `steps` has the rows.
template <class Row, class Time>
Profile profile_of(const Program& program, int rank, const std::vector<std::vector<Row>>& steps,
                   const Time& ns_of) {
  Profile profile{rank, {}};
  for (std::size_t k = 0; k < program.nodes().size(); ++k) {
    const BraidNode& node = program.nodes()[k];
    std::vector<std::int64_t> times;
    for (const std::vector<Row>& step : steps) times.push_back(ns_of(step, k));
    profile.nodes.push_back({node.name, node.label, median(std::move(times))});
  }
  return profile;
}

Profile host_profile(const Program& program, const std::vector<RankResult>& results) {
  const RankResult& slowest =
      *std::ranges::max_element(results, {}, [](const RankResult& result) { return median(result.step_ns); });
  return profile_of(program, slowest.rank, slowest.node_times,
                    [](const auto& step, std::size_t k) { return step[k + 1].begin_ns - step[k].begin_ns; });
}

Profile cuda_profile(const Program& program, const std::vector<RankResult>& results) {
  Profile slowest;
  for (const RankResult& result : results) {
    if (slowest.rank >= 0 && program.files().emulated) break;
    Profile profile = profile_of(
        program, result.rank, result.node_costs,
        [](const auto& step, std::size_t k) { return static_cast<std::int64_t>(step[k].us * 1e3); });
    for (std::size_t k = 0; k < profile.nodes.size(); ++k)
      profile.nodes[k].launches = result.node_costs.back()[k].launches;
    if (slowest.rank < 0 || profile.ns() > slowest.ns()) slowest = std::move(profile);
  }
  return slowest;
}

}  // namespace

std::map<std::string, NodeWork> work_of(const ir::Schedule& schedule,
                                        const std::map<std::string, std::int64_t>& dims,
                                        const std::string& machine) {
  const analysis::CostModel model(analysis::load_machine(machine), {.dims = dims});
  const analysis::StorageUsers users(schedule.graph);
  std::map<std::string, NodeWork> all;
  for (const ir::ScheduleNode& node : schedule.nodes) add_work(schedule, node, model, users, all);
  return all;
}

std::int64_t Profile::ns() const {
  return std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0},
                         [](std::int64_t sum, const NodeProfile& node) { return sum + node.ns; });
}

Profile slowest_profile(const Program& program, const std::vector<RankResult>& results,
                        const std::map<std::string, NodeWork>& work) {
  Profile profile = program.is_cuda() ? cuda_profile(program, results) : host_profile(program, results);
  for (NodeProfile& node : profile.nodes) {
    if (const auto found = work.find(node.name); found != work.end()) node.work = found->second;
  }
  return profile;
}

}  // namespace braid::harness
