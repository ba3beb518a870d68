#include "runtime/emulated/kernel_operation.h"

#include <limits>
#include <mutex>
#include <tuple>
#include <utility>

#include "runtime/emulated/kernel_counts.h"
#include "runtime/emulated/options.h"

namespace braid::emulated {

__thread AccessLog* current_log __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

// A first block that makes more accesses before it synchronises counts as having made them in order.
constexpr size_t kLogBeforeFlags = size_t{1} << 18;
constexpr uint16_t kDone = 0xffff;  // no thread: the entry is part of an operation already

// Returns the logical thread for thread `slot` to synchronise in a block of a stream's kernels. It has the
// stream's name: findings do not mention threads, and a name per thread would give many findings.
LogicalThread logical_thread_of(const Lane& lane, unsigned block, size_t slot) {
  static std::mutex mutex;
  static auto* threads = new std::map<std::tuple<LogicalThread, unsigned, size_t>, LogicalThread>;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = threads->try_emplace({lane.thread, block, slot});
  if (fresh) at->second = checker().add_thread(lane.text);
  return at->second;
}

}  // namespace

KernelOperation::KernelOperation(TaskContext& context, std::string name, dim3 block)
    : context_(context),
      name_(std::move(name)),
      whole_(checker().begin(context.lane.thread, context.clock, name_, context.label)),
      begin_(context.clock),
      counter_(options().count_accesses ? std::make_unique<AccessCounter>(block) : nullptr) {}

std::string KernelOperation::describe() const {
  std::string text = name_;
  if (!context_.label.empty()) text += " [" + context_.label + "]";
  return text + " on " + context_.lane.text;
}

void KernelOperation::begin_block(unsigned block) {
  block_ = block;
  if (by_blocks_) {
    block_clock_ = begin_;
  } else if (options().check_accesses) {
    log_.limit = kLogBeforeFlags;
    current_log = block == 0 ? &log_ : nullptr;
  }
}

bool KernelOperation::goes_by_blocks() {
  if (by_blocks_ || block_ != 0) return by_blocks_;
  by_blocks_ = true;
  block_clock_ = begin_;
  log_.limit = std::numeric_limits<size_t>::max();
  // Accesses before the last barrier precede all later ones.
  AccessRanges before = take_accesses();
  if (!log_.overflown) {
    auto uninitialized = std::move(before.uninitialized);
    before = replay(interval_begin_);
    before.uninitialized = std::move(uninitialized);
    log_.entries.erase(log_.entries.begin(),
                       log_.entries.begin() + static_cast<std::ptrdiff_t>(interval_begin_));
  } else {
    log_.entries.clear();
  }
  interval_begin_ = 0;
  add_operation(context_.lane.of_block(block_), block_clock_, std::move(before));
  return true;
}

void KernelOperation::add_operation(LogicalThread thread, VectorClock& clock, AccessRanges ranges) {
  if (ranges.empty() && ranges.uninitialized.empty()) return;
  const auto part = checker().begin(thread, clock, name_, context_.label);
  checker().finish(part, std::move(ranges));
}

AccessRanges KernelOperation::take_accesses() {
  AccessRanges ranges = context_.accesses.finish();
  if (counter_ != nullptr) counter_->touched(ranges);
  return ranges;
}

AccessRanges KernelOperation::replay(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const AccessLog::Entry& e = log_.entries[i];
    if (e.thread != kDone) part_.record(e.address, e.size, e.kind);
  }
  AccessRanges ranges = part_.finish();
  ranges.uninitialized.clear();  // the kernel's own set has told which reads came too early
  return ranges;
}

KernelOperation::Thread& KernelOperation::synchronising(unsigned thread) {
  const auto [at, fresh] = threads_.try_emplace(thread);
  Thread& t = at->second;
  if (fresh) {
    const size_t slot = 2 * (threads_.size() - 1);
    t.logical_thread = logical_thread_of(context_.lane, block_, slot);
    t.of_flags = logical_thread_of(context_.lane, block_, slot + 1);
  }
  if (by_blocks_ && t.interval != interval_) {
    t.interval = interval_;
    t.clock = block_clock_;
  }
  return t;
}

AccessRanges KernelOperation::taken(unsigned thread, uintptr_t address) {
  bool any = false;
  for (AccessLog::Entry& e : log_.entries) {
    if (e.thread != thread || (address != 0 && e.address != address)) continue;
    part_.record(e.address, e.size, e.kind);
    e.thread = kDone;
    any = true;
  }
  if (!any) return {};
  AccessRanges ranges = part_.finish();
  ranges.uninitialized.clear();
  return ranges;
}

void KernelOperation::flush(unsigned index, Thread& thread) {
  add_operation(thread.logical_thread, thread.clock, taken(index, 0));
}

void KernelOperation::fence(unsigned index, Scope scope) {
  Thread& thread = synchronising(index);
  flush(index, thread);
  thread.clock.join(std::exchange(thread.seen_device, {}));
  thread.fenced_device = thread.clock;
  thread.has_fenced_device = true;
  if (scope != Scope::kSystem) return;
  thread.clock.join(std::exchange(thread.seen_system, {}));
  thread.fenced_device = thread.fenced_system = thread.clock;
  thread.has_fenced_system = true;
}

void KernelOperation::saw(unsigned index, const ReleaseClocks& clocks, Scope scope, bool acquires) {
  const bool device = scope != Scope::kBlock && clocks.device_index == context_.stream.device.index;
  const bool system = scope == Scope::kSystem && clocks.has_system;
  if (!device && !system) return;
  Thread& thread = synchronising(index);
  if (acquires) flush(index, thread);
  if (device) (acquires ? thread.clock : thread.seen_device).join(clocks.device);
  if (system) (acquires ? thread.clock : thread.seen_system).join(clocks.system);
}

void KernelOperation::publish(unsigned index, uintptr_t address, ReleaseClocks& clocks, Scope scope,
                              bool releases) {
  if (scope == Scope::kBlock || !by_blocks_ || (!releases && threads_.count(index) == 0)) return;
  Thread& thread = synchronising(index);
  if (releases) flush(index, thread);
  VectorClock written = thread.clock;
  add_operation(thread.of_flags, written, taken(index, address));
  thread.clock.set(thread.of_flags, written[thread.of_flags]);
  const int here = context_.stream.device.index;
  const auto add = [&](const VectorClock& device, const VectorClock* system) {
    if (clocks.device_index != here) clocks.device = {};
    clocks.device_index = here;
    clocks.device.join(device);
    clocks.device.set(thread.of_flags, written[thread.of_flags]);
    if (system == nullptr) return;
    clocks.system.join(*system);
    clocks.system.set(thread.of_flags, written[thread.of_flags]);
    clocks.has_system = true;
  };
  const bool all = scope == Scope::kSystem;
  if (releases) add(thread.clock, all ? &thread.clock : nullptr);
  if (thread.has_fenced_device)
    add(thread.fenced_device, all && thread.has_fenced_system ? &thread.fenced_system : nullptr);
}

void KernelOperation::barrier() {
  if (!by_blocks_) {
    interval_begin_ = log_.entries.size();
    return;
  }
  // Threads that have synchronised have clocks of their own; all others follow what the block follows.
  VectorClock after = block_clock_;
  for (auto& [index, thread] : threads_) {
    if (thread.interval != interval_) continue;
    flush(index, thread);
    after.join(thread.clock);
  }
  auto uninitialized = take_accesses().uninitialized;
  AccessRanges ranges = replay(log_.entries.size());
  ranges.uninitialized = std::move(uninitialized);
  add_operation(context_.lane.of_block(block_), block_clock_, std::move(ranges));
  block_clock_.join(after);
  log_.entries.clear();
  ++interval_;
}

void KernelOperation::end_block() {
  if (!by_blocks_) {
    log_.entries.clear();
    threads_.clear();
    current_log = nullptr;
    return;
  }
  barrier();
  end_.join(block_clock_);
  threads_.clear();
}

void KernelOperation::finish() {
  end_block();  // of a kernel that was given up: its present block
  current_log = nullptr;
  context_.clock.join(end_);
  checker().finish(whole_, take_accesses());
  if (counter_ != nullptr)
    add_counts({context_.stream.device.index, context_.node, name_, context_.label}, *counter_);
}

}  // namespace braid::emulated
