// bench --profile of a CUDA program.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/cuda_library.h"
#include "cli/profile.h"
#include "cli/time_text.h"

namespace braid::cli {
namespace {

struct Row {
  const BraidNode* node;
  std::int64_t ns = 0, launches = 0;
  const NodeWork* work = nullptr;  // null: not known
};

std::vector<Row> rows_of(const BraidCudaProgram& table, const RankResult& result,
                         const std::map<std::string, NodeWork>& work) {
  std::vector<Row> rows;
  for (int k = 0; k < table.node_count; ++k) {
    Row row{&table.nodes[k]};
    std::vector<std::int64_t> steps;
    for (const std::vector<BraidCudaNodeCost>& step : result.node_costs) {
      const BraidCudaNodeCost& cost = step[static_cast<std::size_t>(k)];
      steps.push_back(static_cast<std::int64_t>(cost.us * 1e3));
      row.launches = cost.launches;
    }
    row.ns = median(std::move(steps));
    if (const auto found = work.find(row.node->name); found != work.end()) row.work = &found->second;
    rows.push_back(row);
  }
  return rows;
}

std::int64_t total_ns(const std::vector<Row>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0},
                         [](std::int64_t sum, const Row& row) { return sum + row.ns; });
}

std::string name_text(const BraidNode& node) {
  const bool named = *node.label != '\0' && std::string_view(node.label) != node.name;
  return fmt::format("{}{}", node.name, named ? fmt::format("  <- {}", node.label) : "");
}

std::string count_text(double count) {
  const char* const units[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (count >= 1000 && unit + 1 < std::size(units)) count /= 1000, ++unit;
  return fmt::format("{:.4g}{}", count, units[unit]);
}

void tell_counts(const std::vector<Row>& rows, bool model, Report& report) {
  report.print("the emulated device has no times: launches per step{}\n",
               model ? ", and operations and bytes as the cost model counts them"
                     : "; compile from the model for operations and bytes");
  report.print("{:>9} {:>9} {:>9}  {}\n", "launches", "FLOP", "bytes", "kernel");
  for (const Row& row : rows) {
    report.print("{:>9} {:>9} {:>9}  {}\n", row.launches, row.work ? count_text(row.work->flops) : "",
                 row.work ? count_text(row.work->bytes) : "", name_text(*row.node));
  }
}

void tell_times(std::vector<Row> rows, const std::string& machine, Report& report) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ns > b.ns; });
  const std::int64_t all = total_ns(rows);
  report.print("nodes one after the other, by CUDA's events; roof of '{}'\n", machine);
  report.print("{:>10} {:>6} {:>9} {:>9} {:>8} {:>8} {:>8}  {}\n", "median", "share", "launches", "GFLOP/s",
               "GB/s", "roof", "of roof", "kernel");
  for (const Row& row : rows) {
    std::string gflops, gb_s, roof, share;
    if (row.work != nullptr && row.ns > 0) {
      const auto ns = static_cast<double>(row.ns);
      if (row.work->flops > 0) gflops = fmt::format("{:.1f}", row.work->flops / ns);
      gb_s = fmt::format("{:.1f}", row.work->bytes / ns);
      roof = time_text(static_cast<std::int64_t>(row.work->roof_us * 1e3));
      share = fmt::format("{:.0f} %", 1e5 * row.work->roof_us / ns);
    }
    report.print("{:>10} {:>5.1f}% {:>9} {:>9} {:>8} {:>8} {:>8}  {}\n", time_text(row.ns),
                 all > 0 ? 100.0 * static_cast<double>(row.ns) / static_cast<double>(all) : 0.0, row.launches,
                 gflops, gb_s, roof, share, name_text(*row.node));
  }
}

}  // namespace

void tell_cuda_profile(const ProgramFiles& program, const std::vector<RankResult>& results,
                       const ir::Schedule* schedule, const std::map<std::string, std::int64_t>& dims,
                       const std::string& machine, Report& report) {
  const rt::CudaLibrary library = open_cuda_library(program);
  const BraidCudaProgram& table = library.table();
  std::map<std::string, NodeWork> work;
  if (schedule != nullptr) work = work_of(*schedule, dims, machine);
  std::vector<Row> rows;
  int slowest = -1;
  for (const RankResult& result : results) {
    std::vector<Row> candidate = rows_of(table, result, work);
    if (slowest >= 0 && (program.emulated || total_ns(candidate) <= total_ns(rows))) continue;
    rows = std::move(candidate);
    slowest = result.rank;
  }
  nlohmann::ordered_json& json = report.json()["profile"];
  json = {{"rank", slowest}, {"timed", !program.emulated}, {"nodes", nlohmann::ordered_json::array()}};
  if (schedule != nullptr) json["machine"] = machine;
  for (const Row& row : rows) {
    nlohmann::ordered_json& entry = json["nodes"].emplace_back();
    entry = {{"name", row.node->name}, {"label", row.node->label}, {"launches", row.launches}};
    if (!program.emulated) entry["median_ns"] = row.ns;
    if (row.work == nullptr) continue;
    entry["flops"] = row.work->flops;
    entry["bytes"] = row.work->bytes;
    if (!program.emulated) entry["roof_ns"] = row.work->roof_us * 1e3;
  }
  report.print("\nkernels of rank {}: ", slowest);
  if (program.emulated)
    tell_counts(rows, schedule != nullptr, report);
  else
    tell_times(std::move(rows), machine, report);
}

}  // namespace braid::cli
