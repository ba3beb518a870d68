#include "runtime/emulated/flags.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "runtime/emulated/block.h"
#include "runtime/emulated/kernel_operation.h"
#include "runtime/emulated/options.h"

namespace braid::emulated {
namespace {

using std::chrono::steady_clock;

struct Flags {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t changes = 0;
  std::map<const uint32_t*, VectorClock> raised_by;  // the clocks of flags that are up
};

Flags& flags() {
  static Flags* instance = new Flags;
  return *instance;
}

// Whether the flag was `from`; if so, it is now the opposite.
bool change(uint32_t* flag, uint32_t from, KernelOperation& operation) {
  Flags& all = flags();
  const std::lock_guard lock(all.mutex);
  // The value itself is in device memory, where programs clear it.
  uint32_t expected = from;
  if (!__atomic_compare_exchange_n(flag, &expected, 1 - from, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return false;
  if (from == 0) {
    all.raised_by[flag] = operation.raise();
  } else {
    const auto raised = all.raised_by.find(flag);  // none: the 1 was written without raising the flag
    operation.lower(raised == all.raised_by.end() ? VectorClock() : raised->second);
    if (raised != all.raised_by.end()) all.raised_by.erase(raised);
  }
  ++all.changes;
  all.changed.notify_all();
  return true;
}

bool change_when(uint32_t* flag, uint32_t from, const int* abandoned) {
  const char* const what = from == 0 ? "raise_flag" : "lower_flag";
  BlockRunner& runner = *BlockRunner::current();
  const uintptr_t address = reinterpret_cast<uintptr_t>(flag);
  if (!DeviceMemory::contains(address)) {
    runner.fail(FindingKind::kIllegalAccess, [&] { return std::string(what) + " outside of device memory"; });
  }
  if (!runner.operation().goes_by_blocks()) {
    runner.fail(FindingKind::kInvalidUse, [&] {
      return std::string(what) + ": the first block of this kernel uses no flag, which is not emulated";
    });
  }
  if (const std::string* fault =
          runner.operation().accesses().record(address, sizeof(uint32_t), AccessKind::kAtomic);
      fault != nullptr)
    runner.fail(FindingKind::kIllegalAccess, [&] { return std::string(what) + ": " + *fault; });
  const auto deadline = steady_clock::now() + options().time_out;
  while (!change(flag, from, runner.operation())) {
    if (__atomic_load_n(abandoned, __ATOMIC_RELAXED) != 0) return false;
    if (steady_clock::now() > deadline) {
      runner.fail(FindingKind::kCollectiveTimeOut, [&] {
        const Allocation allocation = device_memory().at(device_memory().find(address));
        return std::string(what) + ": no rank has " + (from == 0 ? "lowered" : "raised") +
               " the flag at byte " + std::to_string(address - allocation.begin) + " of " +
               allocation.describe() + " within " + std::to_string(options().time_out.count()) + " ms";
      });
    }
    runner.let_others_run(what);
  }
  return true;
}

}  // namespace

uint64_t flag_changes() {
  const std::lock_guard lock(flags().mutex);
  return flags().changes;
}

void await_flag_change(uint64_t seen) {
  std::unique_lock lock(flags().mutex);
  flags().changed.wait_for(lock, std::chrono::milliseconds(1), [&] { return flags().changes != seen; });
}

bool raise_flag(uint32_t* flag, const int* abandoned) { return change_when(flag, 0, abandoned); }
bool lower_flag(uint32_t* flag, const int* abandoned) { return change_when(flag, 1, abandoned); }

}  // namespace braid::emulated
