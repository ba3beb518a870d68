#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "analysis/costs/cost_model.h"
#include "analysis/costs/roofline.h"
#include "cli/measured_roof.h"
#include "cli/time_text.h"
#include "runtime/program.h"

namespace braid::cli {
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

// Returns the median time of each node over the steps, in ns.
std::vector<std::int64_t> median_times(const RankResult& result, int nodes) {
  std::vector<std::int64_t> times;
  for (int k = 0; k < nodes; ++k) {
    std::vector<std::int64_t> steps;
    for (const std::vector<BraidNodeTimes>& step : result.node_times) {
      const auto at = static_cast<std::size_t>(k);
      steps.push_back(step[at + 1].begin_ns - step[at].begin_ns);
    }
    times.push_back(median(std::move(steps)));
  }
  return times;
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

void tell_profile(const ProgramFiles& program, const std::vector<RankResult>& results,
                  const ir::Schedule* schedule, const std::map<std::string, std::int64_t>& dims, int threads,
                  Report& report) {
  const BraidProgram& table = *rt::load_program(program.library, program.id);
  const auto slowest = std::max_element(results.begin(), results.end(), [](const auto& a, const auto& b) {
    return median(a.step_ns) < median(b.step_ns);
  });
  const std::vector<std::int64_t> times = median_times(*slowest, table.node_count);
  const std::int64_t all = std::accumulate(times.begin(), times.end(), std::int64_t{0});
  std::vector<int> order(times.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return times[static_cast<std::size_t>(a)] > times[static_cast<std::size_t>(b)];
  });

  std::map<std::string, NodeWork> work;
  MeasuredRoof roof;
  nlohmann::ordered_json& json = report.json()["profile"];
  json = {{"rank", slowest->rank}, {"nodes", nlohmann::ordered_json::array()}};
  if (schedule != nullptr) {
    work = work_of(*schedule, dims, analysis::kCpuMachine);
    roof = measure_roof(threads);
    json["roof"] = {{"f32_gflops", roof.f32_gflops}, {"gb_s", roof.gb_s}, {"threads", threads}};
    report.print(
        "\nkernels of rank {}; roof of {} thread{}, measured now: {:.1f} GFLOP/s (f32), {:.1f} GB/s read\n",
        slowest->rank, threads, threads == 1 ? "" : "s", roof.f32_gflops, roof.gb_s);
  } else {
    report.print("\nkernels of rank {}; compile from the model for GFLOP/s and GB/s\n", slowest->rank);
  }
  report.print("{:>10} {:>6} {:>9} {:>8} {:>8}  {}\n", "median", "share", "GFLOP/s", "GB/s", "of roof",
               "kernel");
  for (const int k : order) {
    const std::int64_t ns = times[static_cast<std::size_t>(k)];
    const BraidNode& node = table.nodes[k];
    nlohmann::ordered_json& entry = json["nodes"].emplace_back();
    entry = {{"name", node.name}, {"label", node.label}, {"median_ns", ns}};
    std::string gflops, gb_s, share;
    if (const auto found = work.find(node.name); found != work.end() && ns > 0) {
      const NodeWork& w = found->second;
      const double flops = w.flops / static_cast<double>(ns), bytes = w.bytes / static_cast<double>(ns);
      entry["gflops"] = flops;
      entry["gb_s"] = bytes;
      if (w.flops > 0) gflops = fmt::format("{:.1f}", flops);
      gb_s = fmt::format("{:.1f}", bytes);
      const double of_memory = roof.gb_s > 0 ? bytes / roof.gb_s : 0;
      const double of_compute = w.f32 && roof.f32_gflops > 0 ? flops / roof.f32_gflops : 0;
      entry["of_roof"] = std::max(of_memory, of_compute);
      share = fmt::format("{:.0f} % {}", 100 * std::max(of_memory, of_compute),
                          of_compute > of_memory ? "c" : "m");
    }
    report.print("{:>10} {:>5.1f}% {:>9} {:>8} {:>8}  {}{}\n", time_text(ns),
                 all > 0 ? 100.0 * static_cast<double>(ns) / static_cast<double>(all) : 0.0, gflops, gb_s,
                 share, node.name,
                 *node.label == '\0' || std::string_view(node.label) == node.name
                     ? ""
                     : fmt::format("  <- {}", node.label));
  }
  if (schedule != nullptr) {
    report.print(
        "c: of the roof of computing, m: of memory; above 100 % of memory, the data were in a cache. "
        "Operations "
        "and bytes are counted as docs/scheduling.md says.\n");
  }
}

}  // namespace braid::cli
