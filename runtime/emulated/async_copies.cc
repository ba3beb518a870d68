#include "runtime/emulated/async_copies.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/emulated/block.h"
#include "runtime/emulated/device_memory.h"
#include "runtime/emulated/hooks.h"
#include "runtime/emulated/kernel.h"

namespace braid::emulated {

void AsyncCopies::begin_block(unsigned threads) {
  if (!used_ && threads_.size() == threads) return;
  threads_.assign(threads, Thread{});
  used_ = false;
  in_flight_ = 0;
  targets_.clear();
  sources_.clear();
}

void AsyncCopies::issue(AsyncCopy copy) {
  Thread& thread = threads_[copy.thread];
  copy.group = thread.groups;
  thread.copies.push_back(copy);
  ++in_flight_;
  used_ = true;
  ++targets_[copy.target / AsyncCopy::kMostBytes];
  if (copy.valid > 0) ++sources_[copy.source / AsyncCopy::kMostBytes];
}

std::vector<AsyncCopy> AsyncCopies::take_done(unsigned index, uint64_t pending) {
  Thread& thread = threads_[index];
  const uint64_t done = thread.groups - std::min(thread.groups, pending);  // groups below
  const auto end = std::find_if(thread.copies.begin(), thread.copies.end(),
                                [&](const AsyncCopy& c) { return c.group >= done; });
  std::vector<AsyncCopy> taken(thread.copies.begin(), end);
  thread.copies.erase(thread.copies.begin(), end);
  in_flight_ -= taken.size();
  for (const AsyncCopy& copy : taken) {
    leave(targets_, copy.target);
    if (copy.valid > 0) leave(sources_, copy.source);
  }
  return taken;
}

bool AsyncCopies::touches(const Lines& lines, uintptr_t address, size_t size) {
  for (uintptr_t line = address / AsyncCopy::kMostBytes; line <= (address + size - 1) / AsyncCopy::kMostBytes;
       ++line)
    if (lines.count(line) != 0) return true;
  return false;
}

void AsyncCopies::leave(Lines& lines, uintptr_t address) {
  const auto line = lines.find(address / AsyncCopy::kMostBytes);
  if (--line->second == 0) lines.erase(line);
}

// ---- what kernel.h declares

void copy_async(void* target, const void* source, size_t bytes, size_t valid) {
  const uintptr_t code = BRAID_CALLER;
  BlockRunner& runner = *BlockRunner::current();
  require_shared("cp.async", target);
  if (valid > bytes)
    runner.fail(FindingKind::kInvalidUse, [&] {
      return "cp.async of " + std::to_string(bytes) +
             " bytes: " + std::to_string(static_cast<int64_t>(valid)) + " of them are to be read";
    });
  if (valid > 0 && !DeviceMemory::contains(reinterpret_cast<uintptr_t>(source)))
    runner.fail(FindingKind::kIllegalAccess, [] { return "cp.async: the source is not in global memory"; });
  check_alignment(target, bytes);
  check_alignment(source, bytes);
  if (valid > 0) observe_access(code, source, valid, AccessKind::kRead);
  observe_access(code, target, bytes, AccessKind::kWrite);
  AsyncCopy copy{.target = reinterpret_cast<uintptr_t>(target),
                 .source = reinterpret_cast<uintptr_t>(source),
                 .bytes = static_cast<uint32_t>(bytes),
                 .valid = static_cast<uint32_t>(valid),
                 .thread = runner.running(),
                 .group = 0,
                 .data = {}};
  if (valid > 0) std::memcpy(copy.data.data(), source, valid);
  std::memset(target, kPoison, bytes);
  runner.checks().issue_copy(copy);
}

void commit_copies() {
  BlockRunner& runner = *BlockRunner::current();
  runner.checks().copies().commit(runner.running());
}

void wait_for_copies(unsigned pending) {
  BlockRunner& runner = *BlockRunner::current();
  runner.checks().finish_copies(runner.running(), pending);
}

}  // namespace braid::emulated
