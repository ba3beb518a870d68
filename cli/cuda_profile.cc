// bench --profile of a CUDA program.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/profile.h"
#include "cli/time_text.h"

namespace braid::cli {
namespace {

using harness::NodeProfile;

std::string name_text(const NodeProfile& node) {
  const bool named = !node.label.empty() && node.label != node.name;
  return fmt::format("{}{}", node.name, named ? fmt::format("  <- {}", node.label) : "");
}

std::string count_text(double count) {
  const char* const units[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (count >= 1000 && unit + 1 < std::size(units)) count /= 1000, ++unit;
  return fmt::format("{:.4g}{}", count, units[unit]);
}

void tell_counts(const std::vector<NodeProfile>& rows, bool model, Report& report) {
  report.print("the emulated device has no times: launches per step{}\n",
               model ? ", and operations and bytes as the cost model counts them"
                     : "; compile from the model for operations and bytes");
  report.print("{:>9} {:>9} {:>9}  {}\n", "launches", "FLOP", "bytes", "kernel");
  for (const NodeProfile& row : rows) {
    report.print("{:>9} {:>9} {:>9}  {}\n", row.launches, row.work ? count_text(row.work->flops) : "",
                 row.work ? count_text(row.work->bytes) : "", name_text(row));
  }
}

void tell_kernel_times(const harness::Profile& profile, const std::string& machine, Report& report) {
  const std::int64_t all = profile.ns();
  std::vector<NodeProfile> rows = profile.nodes;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const NodeProfile& a, const NodeProfile& b) { return a.ns > b.ns; });
  report.print("nodes one after the other, by CUDA's events; roof of '{}'\n", machine);
  report.print("{:>10} {:>6} {:>9} {:>9} {:>8} {:>8} {:>8}  {}\n", "median", "share", "launches", "GFLOP/s",
               "GB/s", "roof", "of roof", "kernel");
  for (const NodeProfile& row : rows) {
    std::string gflops, gb_s, roof, share;
    if (row.work && row.ns > 0) {
      const auto ns = static_cast<double>(row.ns);
      if (row.work->flops > 0) gflops = fmt::format("{:.1f}", row.work->flops / ns);
      gb_s = fmt::format("{:.1f}", row.work->bytes / ns);
      roof = time_text(static_cast<std::int64_t>(row.work->roof_us * 1e3));
      share = fmt::format("{:.0f} %", 1e5 * row.work->roof_us / ns);
    }
    report.print("{:>10} {:>5.1f}% {:>9} {:>9} {:>8} {:>8} {:>8}  {}\n", time_text(row.ns),
                 all > 0 ? 100.0 * static_cast<double>(row.ns) / static_cast<double>(all) : 0.0, row.launches,
                 gflops, gb_s, roof, share, name_text(row));
  }
}

}  // namespace

void tell_cuda_profile(const harness::Profile& profile, bool emulated, bool modelled,
                       const std::string& machine, Report& report) {
  nlohmann::ordered_json& json = report.json()["profile"];
  json = {{"rank", profile.rank}, {"timed", !emulated}, {"nodes", nlohmann::ordered_json::array()}};
  if (modelled) json["machine"] = machine;
  for (const NodeProfile& row : profile.nodes) {
    nlohmann::ordered_json& entry = json["nodes"].emplace_back();
    entry = {{"name", row.name}, {"label", row.label}, {"launches", row.launches}};
    if (!emulated) entry["median_ns"] = row.ns;
    if (!row.work) continue;
    entry["flops"] = row.work->flops;
    entry["bytes"] = row.work->bytes;
    if (!emulated) entry["roof_ns"] = row.work->roof_us * 1e3;
  }
  report.print("\nkernels of rank {}: ", profile.rank);
  if (emulated)
    tell_counts(profile.nodes, modelled, report);
  else
    tell_kernel_times(profile, machine, report);
}

}  // namespace braid::cli
