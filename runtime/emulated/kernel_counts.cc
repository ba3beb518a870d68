#include "runtime/emulated/kernel_counts.h"

#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "runtime/emulated/access_counter.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/source_lines.h"

namespace braid::emulated {
namespace {

struct Kernel {
  KernelCounts counts;  // without sites
  std::map<std::tuple<bool, uint8_t, uintptr_t>, SiteTotals> sites;
};

struct All {
  std::mutex mutex;
  std::map<CountedKernel, Kernel> kernels;
};
// Never destroyed: streams may still run while the process ends.
All& all() {
  static All* instance = new All;
  return *instance;
}

}  // namespace

void add_counts(const CountedKernel& launched, AccessCounter& counter) {
  counter.finish();
  const std::lock_guard lock(all().mutex);
  Kernel& kernel = all().kernels[launched];
  KernelCounts& counts = kernel.counts;
  ++counts.launches;
  counts.blocks += counter.blocks();
  counts.threads += counter.threads();
  counts.barriers += counter.barriers();
  counts.read_intervals += counter.read_intervals();
  counts.block_sectors += counter.block_sectors();
  counts.read_bytes += counter.read_bytes();
  counts.written_bytes += counter.written_bytes();
  for (size_t i = 0; i < counter.sites().size(); ++i) {
    const SiteKey& key = counter.sites()[i];
    kernel.sites[{key.shared, key.kind, key.code}].add(counter.totals()[i]);
  }
}

std::vector<KernelCounts> take_kernel_counts() {
  std::map<CountedKernel, Kernel> kernels;
  {
    const std::lock_guard lock(all().mutex);
    kernels = std::exchange(all().kernels, {});
  }
  std::vector<uintptr_t> code;
  for (const auto& [key, kernel] : kernels)
    for (const auto& [site, totals] : kernel.sites) code.push_back(std::get<uintptr_t>(site));
  const std::map<uintptr_t, std::string> places = source_lines(code);
  std::vector<KernelCounts> result;
  for (auto& [key, kernel] : kernels) {
    KernelCounts& counts = kernel.counts;
    counts.kernel = key;
    for (const auto& [site, t] : kernel.sites) {
      const auto& [shared, kind, address] = site;
      counts.sites.push_back(
          {places.at(address), shared, kind, t.accesses, t.lanes, t.bytes, t.units, t.least, t.lines});
    }
    result.push_back(std::move(counts));
  }
  return result;
}

}  // namespace braid::emulated

extern "C" void braid_emulated_count_accesses(int on) { braid::emulated::options().count_accesses = on != 0; }

extern "C" void braid_emulated_take_kernel_counts(void* self,
                                                  void (*visit)(void*, const BraidKernelCounts*)) {
  for (const auto& k : braid::emulated::take_kernel_counts()) {
    std::vector<BraidSiteCounts> sites;
    for (const auto& s : k.sites)
      sites.push_back({s.place.c_str(), s.shared ? 1 : 0, s.kind, s.accesses, s.lanes, s.bytes, s.units,
                       s.least, s.lines});
    const BraidKernelCounts counts{sizeof(BraidKernelCounts),
                                   k.kernel.rank,
                                   k.kernel.node,
                                   k.kernel.name.c_str(),
                                   k.kernel.label.c_str(),
                                   k.launches,
                                   k.blocks,
                                   k.threads,
                                   k.barriers,
                                   k.read_intervals,
                                   k.block_sectors,
                                   k.read_bytes,
                                   k.written_bytes,
                                   sites.data(),
                                   static_cast<int32_t>(sites.size())};
    visit(self, &counts);
  }
}
