#include "cli/model_counts.h"

#include <span>

namespace braid::cli {

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

}  // namespace braid::cli
