#include "runtime/emulated/flags.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <string>
#include <unordered_map>

#include "runtime/emulated/block.h"
#include "runtime/emulated/kernel_operation.h"
#include "runtime/emulated/options.h"

namespace braid::emulated {

__thread Scope atomic_scope __attribute__((tls_model("initial-exec"))) = Scope::kSystem;

namespace {

struct Released {
  uint64_t value;
  ReleaseClocks clocks;
};

struct Flags {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t changes = 0;
  std::unordered_map<uintptr_t, Released> released;
};

Flags& flags() {
  static Flags* instance = new Flags;
  return *instance;
}

bool acquires(int order) {
  order &= 0xffff;  // above are hints
  return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
         order == __ATOMIC_SEQ_CST;
}
bool releases(int order) {
  order &= 0xffff;
  return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

// A kernel that synchronises is checked block by block from its beginning.
void go_by_blocks(BlockRunner& runner, const char* what) {
  if (!runner.operation().goes_by_blocks())
    runner.fail(FindingKind::kInvalidUse, [&] {
      return std::string(what) +
             ": the first block of this kernel has neither fences nor releases nor acquires, which "
             "is not emulated";
    });
  runner.checks().ordering().leave_blocks_to_checker();
}

}  // namespace

AtomicAccess::AtomicAccess(BlockRunner& runner, uintptr_t address, int order)
    : runner_(runner), address_(address), acquires_(acquires(order)), releases_(releases(order)) {
  if (acquires_ || releases_) go_by_blocks(runner, "atomic access");
  lock_ = std::unique_lock(flags().mutex);
}

void AtomicAccess::did_read(uint64_t before) {
  auto& released = flags().released;
  const auto at = released.find(address_);
  if (at == released.end()) return;
  if (at->second.value != before)
    released.erase(at);  // overwritten otherwise, by a copy
  else
    runner_.operation().saw(runner_.running(), at->second.clocks, atomic_scope, acquires_);
}

void AtomicAccess::did_write(uint64_t before, uint64_t after, bool read) {
  Flags& all = flags();
  if (read) did_read(before);
  const auto at = all.released.find(address_);
  ReleaseClocks clocks;
  if (read && at != all.released.end()) clocks = at->second.clocks;
  runner_.operation().publish(runner_.running(), address_, clocks, atomic_scope, releases_);
  if (!clocks.empty())
    all.released[address_] = {after, std::move(clocks)};
  else if (at != all.released.end())
    all.released.erase(at);
  ++all.changes;
  all.changed.notify_all();
}

uint64_t flag_changes() {
  const std::lock_guard lock(flags().mutex);
  return flags().changes;
}

void await_flag_change(uint64_t seen) {
  std::unique_lock lock(flags().mutex);
  flags().changed.wait_for(lock, std::chrono::milliseconds(1), [&] { return flags().changes != seen; });
}

void fence(Scope scope) {
  BlockRunner* runner = BlockRunner::current();
  if (runner == nullptr || scope == Scope::kBlock) return;
  go_by_blocks(*runner, "fence");
  runner->operation().fence(runner->running(), scope);
}

}  // namespace braid::emulated
