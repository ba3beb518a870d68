#include "runtime/emulated/leaks.h"

#include <string>

#include "runtime/emulated/device_memory.h"
#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/stream.h"

namespace braid::emulated {
namespace {

void report(const std::string& what) { finding_list().add(FindingKind::kLeak, what); }

void report_count(int count, const char* one, const char* several) {
  if (count > 0) report(std::to_string(count) + (count == 1 ? one : several) + " never destroyed");
}

}  // namespace

void report_leaks() {
  for (const Allocation& allocation : device_memory().live())
    report(allocation.describe() + (allocation.label.empty() ? "" : " [" + allocation.label + "]") +
           " is never freed");
  const LiveHandles handles = live_handles();
  for (const std::string& stream : handles.streams) report(stream + " is never destroyed");
  report_count(handles.events, " event is", " events are");
  report_count(live_graphs(), " executable graph is", " executable graphs are");
}

}  // namespace braid::emulated

extern "C" void braid_emulated_report_leaks() { braid::emulated::report_leaks(); }
