#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/time_text.h"
#include "harness/measured_roof.h"

namespace braid::cli {

void tell_profile(const harness::Profile& profile, bool modelled, int threads, Report& report) {
  const std::int64_t all = profile.ns();
  std::vector<harness::NodeProfile> nodes = profile.nodes;
  std::ranges::stable_sort(nodes, std::ranges::greater(), &harness::NodeProfile::ns);

  harness::MeasuredRoof roof;
  nlohmann::ordered_json& json = report.json()["profile"];
  json = {{"rank", profile.rank}, {"nodes", nlohmann::ordered_json::array()}};
  if (modelled) {
    roof = harness::measure_roof(threads);
    json["roof"] = {{"f32_gflops", roof.f32_gflops}, {"gb_s", roof.gb_s}, {"threads", threads}};
    report.print(
        "\nkernels of rank {}; roof of {} thread{}, measured now: {:.1f} GFLOP/s (f32), {:.1f} GB/s read\n",
        profile.rank, threads, threads == 1 ? "" : "s", roof.f32_gflops, roof.gb_s);
  } else {
    report.print("\nkernels of rank {}; compile from the model for GFLOP/s and GB/s\n", profile.rank);
  }
  // Below that share of the roof a kernel is worth a look, unless the clock reads around it count.
  constexpr double kFarBelow = 0.1;
  constexpr std::int64_t kClockReads = 1000;  // ns
  report.print("{:>10} {:>6} {:>9} {:>8} {:>8}  {}\n", "median", "share", "GFLOP/s", "GB/s", "of roof",
               "kernel");
  for (const harness::NodeProfile& node : nodes) {
    const std::int64_t ns = node.ns;
    nlohmann::ordered_json& entry = json["nodes"].emplace_back();
    entry = {{"name", node.name}, {"label", node.label}, {"median_ns", ns}};
    std::string gflops, gb_s, share;
    if (node.work && ns > 0) {
      const harness::NodeWork& w = *node.work;
      const double flops = w.flops / static_cast<double>(ns), bytes = w.bytes / static_cast<double>(ns);
      entry["gflops"] = flops;
      entry["gb_s"] = bytes;
      if (w.flops > 0) gflops = fmt::format("{:.1f}", flops);
      gb_s = fmt::format("{:.1f}", bytes);
      const double of_memory = roof.gb_s > 0 ? bytes / roof.gb_s : 0;
      const double of_compute = w.f32 && roof.f32_gflops > 0 ? flops / roof.f32_gflops : 0;
      const double reached = std::max(of_memory, of_compute);
      const bool far_below = modelled && reached < kFarBelow && ns > kClockReads;
      entry["of_roof"] = reached;
      entry["far_below_roof"] = far_below;
      share = fmt::format("{}{:.0f} % {}", far_below ? "! " : "", 100 * reached,
                          of_compute > of_memory ? "c" : "m");
    }
    report.print("{:>10} {:>5.1f}% {:>9} {:>8} {:>8}  {}{}\n", time_text(ns),
                 all > 0 ? 100.0 * static_cast<double>(ns) / static_cast<double>(all) : 0.0, gflops, gb_s,
                 share, node.name,
                 node.label.empty() || node.label == node.name ? "" : fmt::format("  <- {}", node.label));
  }
  if (modelled) {
    report.print(
        "c: of the roof of computing, m: of memory; above 100 % of memory, the data were in a cache; !: "
        "below a tenth of the roof. Operations and bytes are counted as docs/scheduling.md says.\n");
  }
}

}  // namespace braid::cli
