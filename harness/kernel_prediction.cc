#include "harness/kernel_prediction.h"

#include <fmt/format.h>

#include <set>

#include "harness/launched.h"
#include "harness/program.h"

namespace braid::harness {

analysis::KernelCounts model_counts(const BraidKernelCounts& kernel) {
  analysis::KernelCounts counts;
  const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
  counts.blocks = number(kernel.blocks);
  counts.threads = number(kernel.threads);
  counts.barriers = number(kernel.barriers);
  counts.read_intervals = number(kernel.read_intervals);
  counts.block_sectors = number(kernel.block_sectors);
  counts.read_bytes = number(kernel.read_bytes);
  counts.written_bytes = number(kernel.written_bytes);
  for (const BraidSiteCounts& site : std::span(kernel.sites, static_cast<std::size_t>(kernel.site_count))) {
    if (site.shared != 0) {
      counts.wavefronts += number(site.units);
      continue;
    }
    counts.lines += number(site.lines);
    (site.kind == 0 ? counts.lane_reads : counts.lane_writes) += number(site.lanes);
    (site.kind == 0 ? counts.read_sectors : counts.write_sectors) += number(site.units);
  }
  return counts;
}

std::vector<CountedKernel> count_kernels(const Program& program, const RankTensors& inputs,
                                         ExecuteOptions options) {
  options.warmup = 0;
  options.repeat = 1;
  std::vector<CountedKernel> kernels;
  const std::span<const BraidNode> nodes = program.nodes();
  program.cuda_library()->count_kernels(
      [&] { execute(program, inputs, options); },
      [&](const BraidKernelCounts& k) {
        if (k.rank != 0) return;
        const bool known = k.node >= 0 && k.node < static_cast<int>(nodes.size());
        CountedKernel kernel{known ? nodes[static_cast<std::size_t>(k.node)].name : "", k.name, k.label,
                             static_cast<double>(k.launches), model_counts(k)};
        kernel.counts *= 1 / kernel.launches;
        kernels.push_back(std::move(kernel));
      });
  return kernels;
}

std::string why_not_predicted(const analysis::Machine& machine, const std::string& name,
                              const ExecuteOptions& options) {
  if (!machine.gpu || !analysis::can_predict(*machine.gpu))
    return fmt::format("machine '{}' does not state what a prediction needs of its GPU", name);
  if (launched() || options.ranks_as == RanksAs::processes)
    return "accesses are counted where ranks are threads";
  return "";
}

analysis::CostEntries predicted_costs(const std::vector<CountedKernel>& kernels,
                                      const std::map<std::string, double>& products) {
  analysis::CostEntries ns;
  std::set<std::string> unknown;
  for (const CountedKernel& kernel : kernels) {
    if (kernel.node.empty()) continue;
    if (!kernel.time) unknown.insert(kernel.node);
    ns[kernel.node] += kernel.time ? 1e3 * kernel.time->us * kernel.launches : 0;
  }
  for (const auto& [name, us] : products) ns[name] += 1e3 * us;
  for (const std::string& node : unknown) ns.erase(node);
  return ns;
}

}  // namespace braid::harness
