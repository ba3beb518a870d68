#include "runtime/emulated/block.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/emulated/access_counter.h"
#include "runtime/emulated/flags.h"
#include "runtime/emulated/kernel_operation.h"
#include "runtime/emulated/options.h"

namespace braid::emulated {

__thread KernelThread* current_kernel_thread __attribute__((tls_model("initial-exec"))) = nullptr;
extern __thread AccessSet* current_accesses __attribute__((tls_model("initial-exec")));

namespace {
thread_local BlockRunner* running_runner = nullptr;

bool same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }
bool same(Place a, Place b) { return a.line == b.line && same(a.file, b.file); }
}  // namespace

BlockRunner::BlockRunner() { refused_.close(); }
BlockRunner::~BlockRunner() = default;

BlockRunner* BlockRunner::current() { return current_kernel_thread != nullptr ? running_runner : nullptr; }

BlockRunner& block_runner() {
  // On the heap: memory for variables of threads is scarce in a library that is opened late.
  thread_local const auto runner = std::make_unique<BlockRunner>();
  return *runner;
}

const Fault* BlockRunner::run(const Launch& launch, const LaunchParameters& parameters,
                              KernelOperation& operation) {
  const auto& [function, grid, block, shared_bytes, shared_limit] = launch;
  parameters_ = &parameters;
  operation_ = &operation;
  fault_.reset();
  count_ = block.x * block.y * block.z;
  threads_.resize(count_);
  ready_.resize(count_);
  warps_.assign((count_ + kLanes - 1) / kLanes, Lanes{});
  checks_.begin_launch(operation, grid, block, shared_bytes, shared_limit);
  memory_.parameters = {reinterpret_cast<uintptr_t>(parameters.memory), parameters.bytes};
  watch_.begin_launch(function, operation.name());
  running_runner = this;
  current_shared = &checks_.shared();
  current_races = checks_.races();
  current_memory = &memory_;
  current_counter = operation.counter();
  atomic_scope = Scope::kSystem;
  uint3 index;
  for (index.z = 0; index.z < grid.z && !fault_; ++index.z) {
    for (index.y = 0; index.y < grid.y && !fault_; ++index.y) {
      for (index.x = 0; index.x < grid.x && !fault_; ++index.x) {
        for (unsigned i = 0; i < count_; ++i) {
          threads_[i] = Thread{};
          threads_[i].built_in = {index_in(block, i), index, block, grid};
        }
        checks_.begin_block();
        watch_.begin_block();
        if (current_counter != nullptr) current_counter->begin_block();
        operation.begin_block((index.z * grid.y + index.y) * grid.x + index.x);
        run_block(count_);
        if (!fault_) operation.end_block();
      }
    }
  }
  watch_.end_launch();
  checks_.end_launch();
  running_runner = nullptr;
  current_shared = nullptr;
  current_races = nullptr;
  current_memory = nullptr;
  current_counter = nullptr;
  current_kernel_thread = nullptr;
  current_accesses = nullptr;
  if (fault_) {  // fibers that hold abandoned threads are restarted
    for (auto& fiber : fibers_) fiber->restart();
    free_fibers_.clear();
    for (auto& fiber : fibers_) free_fibers_.push_back(fiber.get());
  }
  return fault_.get();
}

void BlockRunner::run_block(unsigned threads) {
  next_ = ended_ = at_barrier_ = 0;
  barrier_and_ = 1, barrier_or_ = barrier_count_ = 0;
  ready_first_ = ready_count_ = 0;
  polling_.clear();
  polled_ = 0;
  while (ended_ < threads && !fault_) {
    if (watch_.overdue()) {
      record_overdue();
      break;
    }
    Fiber* fiber = nullptr;
    if (ready_count_ > 0) {
      const unsigned thread = ready_[ready_first_];
      ready_first_ = (ready_first_ + 1) % ready_.size();
      --ready_count_;
      polled_ = 0;
      fiber = std::exchange(threads_[thread].fiber, nullptr);
      switch_to(thread);
    } else if (next_ < threads) {
      fiber = free_fiber();
      if (fiber == nullptr) break;
      polled_ = 0;
    } else if (!polling_.empty()) {
      if (polled_ >= polling_.size()) {
        await_flag_change(flags_seen_);
        polled_ = 0;
      }
      if (polled_++ == 0) flags_seen_ = flag_changes();
      const unsigned thread = polling_.front();
      polling_.pop_front();
      fiber = std::exchange(threads_[thread].fiber, nullptr);
      switch_to(thread);
    } else {
      diagnose();
      break;
    }
    running_fiber_ = fiber;
    fiber_kept_ = false;
    memory_.stack = {fiber->stack_begin(), Fiber::kStackBytes};
    watch_.run_fiber(fiber);
    fiber->resume();
    if (!fiber_kept_) free_fibers_.push_back(fiber);
  }
}

// Null, with a fault, if there is no memory for one more.
Fiber* BlockRunner::free_fiber() {
  if (free_fibers_.empty()) {
    try {
      fibers_.push_back(std::make_unique<Fiber>([this] { fiber_main(); }));
    } catch (const std::bad_alloc&) {
      fault_ = std::make_unique<Fault>(
          Fault{FindingKind::kKernelFault, "this machine has no memory left for the threads of a block"});
      return nullptr;
    }
    free_fibers_.push_back(fibers_.back().get());
  }
  Fiber* fiber = free_fibers_.back();
  free_fibers_.pop_back();
  return fiber;
}

bool BlockRunner::is_stack(uintptr_t address) const {
  return std::any_of(fibers_.begin(), fibers_.end(),
                     [&](const auto& fiber) { return address - fiber->stack_begin() < Fiber::kStackBytes; });
}

void BlockRunner::switch_to(unsigned thread) {
  running_ = thread;
  current_kernel_thread = &threads_[thread].built_in;
  memory_.built_in = {reinterpret_cast<uintptr_t>(current_kernel_thread), sizeof(KernelThread)};
  watch_.run_thread();
  current_accesses = &operation_->accesses();
  checks_.ordering().run_thread(thread);
  if (current_counter != nullptr) current_counter->run_thread(thread);
}

void BlockRunner::fiber_main() {
  for (;;) {
    while (ready_count_ == 0 && next_ < count_) {
      switch_to(next_++);
      call_kernel();
      checks_.end_thread(running_);
      if (current_counter != nullptr) current_counter->arrive();
      threads_[running_].ended = true;
      ++ended_;
    }
    current_kernel_thread = nullptr;
    current_accesses = nullptr;
    running_fiber_->suspend();
  }
}

void BlockRunner::call_kernel() {
  try {
    parameters_->call(parameters_->memory);
    return;
  } catch (...) {
  }
  fail(FindingKind::kKernelFault, [] { return "an exception leaves the kernel"; });
}

void BlockRunner::wait(const char* what, Place place, unsigned mask) {
  Thread& thread = threads_[running_];
  thread.waits_for = what;
  thread.place = place;
  thread.mask = mask;
  thread.fiber = running_fiber_;
  fiber_kept_ = true;
  running_fiber_->suspend();
  thread.waits_for = nullptr;
}

void BlockRunner::let_others_run(const char* what) {
  polling_.push_back(running_);
  wait(what, {}, 0);
}

void BlockRunner::spin(const char* what, uintptr_t address, uint64_t value, unsigned patience) {
  using std::chrono::steady_clock;
  Thread& thread = threads_[running_];
  if (thread.spins_at != address || thread.spin_value != value) {
    thread.spins_at = address;
    thread.spin_value = value;
    thread.spins = 0;
    thread.spins_since = steady_clock::now();
  }
  if (++thread.spins < patience) return;
  if (steady_clock::now() > thread.spins_since + options().time_out) {
    fail(FindingKind::kCollectiveTimeOut, [&] {
      const Allocation allocation = device_memory().at(device_memory().find(address));
      return std::string(what) + ": waits for byte " + std::to_string(address - allocation.begin) + " of " +
             allocation.describe() + ", which nobody has changed from " + std::to_string(value) + " within " +
             std::to_string(options().time_out.count()) + " ms";
    });
  }
  const Scope scope = std::exchange(atomic_scope, Scope::kSystem);
  let_others_run(what);
  atomic_scope = scope;
}

void BlockRunner::record_fault(FindingKind kind, std::string text, unsigned thread) {
  fault_ = std::make_unique<Fault>(Fault{kind, thread_text(thread) + ": " + std::move(text)});
}

void BlockRunner::refuse_accesses() {
  current_accesses = &refused_;
  memory_.stack = memory_.built_in = {};
}

// Which thread of a block runs when the block's time is over is a matter of chance: the first one is named.
void BlockRunner::record_overdue() {
  record_fault(FindingKind::kKernelTimeOut, watch_.overdue_text(), watch_.block_is_overdue() ? 0 : running_);
}

void BlockRunner::give_up() {
  current_accesses = nullptr;
  current_kernel_thread = nullptr;
  fiber_kept_ = true;
  running_fiber_->suspend();
  std::abort();  // never resumed
}

int BlockRunner::barrier(const char* what, Place place, BarrierResult result, int predicate) {
  if (current_counter != nullptr) current_counter->arrive();
  barrier_and_ &= predicate != 0;
  barrier_or_ |= predicate != 0;
  barrier_count_ += predicate != 0;
  if (++at_barrier_ < count_) {
    wait(what, place, 0);
  } else {
    for (unsigned i = 0; i < count_; ++i) {
      if (i == running_) continue;
      if (!same(threads_[i].place, place) || !same(threads_[i].waits_for, what))
        fail(FindingKind::kDivergentBarrier, [&] {
          return std::string("waits at ") + what + " of line " + std::to_string(place.line) + ", while " +
                 thread_text(i) + wait_text(threads_[i]);
        });
    }
    checks_.ordering().barrier();
    if (current_counter != nullptr) current_counter->barrier();
    operation_->barrier();
    barrier_results_[0] = std::exchange(barrier_and_, 1);
    barrier_results_[1] = std::exchange(barrier_or_, 0);
    barrier_results_[2] = std::exchange(barrier_count_, 0);
    at_barrier_ = 0;
    for (unsigned i = 0; i < count_; ++i)
      if (i != running_) make_ready(i);
  }
  switch (result) {
    case BarrierResult::kNone:
      return 0;
    case BarrierResult::kAnd:
      return barrier_results_[0];
    case BarrierResult::kOr:
      return barrier_results_[1];
    case BarrierResult::kCount:
      return barrier_results_[2];
  }
  return 0;
}

BlockRunner::Exchange& BlockRunner::join_exchange(const char* what, Place place, unsigned mask,
                                                  const void* value, size_t bytes, void (*all)(void*)) {
  const unsigned warp = running_ / kLanes;
  const unsigned bit = 1u << lane();
  if ((mask & bit) == 0)
    fail(FindingKind::kDivergentBarrier,
         [&] { return std::string(what) + ": the lane is not in its own mask"; });
  const unsigned lanes = std::min<unsigned>(kLanes, count_ - warp * kLanes);
  if (lanes < kLanes && mask >> lanes != 0)
    fail(FindingKind::kDivergentBarrier, [&] {
      return std::string(what) + ": the mask names lanes beyond the block's " + std::to_string(count_) +
             " threads";
    });
  auto& exchanges = warps_[warp].exchanges;
  Exchange* exchange = nullptr;
  for (Exchange& candidate : exchanges) {
    // Lanes may wait at other operations that this lane reaches later; those that never get here are found at
    // the end.
    if (candidate.what != nullptr && candidate.arrived != candidate.mask && candidate.mask == mask &&
        candidate.bytes == bytes && same(candidate.what, what) && same(candidate.place, place))
      exchange = &candidate;
  }
  if (exchange == nullptr) {
    for (Exchange& candidate : exchanges)
      if (candidate.what == nullptr) exchange = &candidate;
    if (exchange == nullptr) exchange = &exchanges.emplace_back();
    exchange->what = what;
    exchange->place = place;
    exchange->mask = mask;
    exchange->bytes = bytes;
    exchange->arrived = exchange->left = 0;
  }
  std::memcpy(exchange->values + static_cast<size_t>(lane()) * bytes, value, bytes);
  exchange->arrived |= bit;
  if (exchange->arrived != mask) {
    wait(what, place, mask);
  } else {
    if (current_counter != nullptr) current_counter->warp_operation(mask);
    if (all != nullptr) {  // on the kernel's own stack, as kernels may not touch other memory of the host
      alignas(16) unsigned char values[kLanes * kLaneBytes];
      std::memcpy(values, exchange->values, kLanes * bytes);
      all(values);
      std::memcpy(exchange->values, values, kLanes * bytes);
    }
    for (int other = 0; other < kLanes; ++other)
      if ((mask >> other & 1) != 0 && other != lane())
        make_ready(warp * kLanes + static_cast<unsigned>(other));
  }
  return *exchange;
}

void BlockRunner::leave_exchange(Exchange& exchange) {
  exchange.left |= 1u << lane();
  if (exchange.left == exchange.mask) exchange.what = nullptr;
}

uint64_t BlockRunner::exchange(const char* what, Place place, unsigned mask, uint64_t value,
                               int source_lane) {
  if (source_lane < 0 || source_lane >= kLanes || (mask >> source_lane & 1) == 0)
    fail(FindingKind::kDivergentBarrier, [&] {
      return std::string(what) + ": takes the value of lane " + std::to_string(source_lane) +
             ", which is not in the mask";
    });
  Exchange& e = join_exchange(what, place, mask, value);
  const uint64_t result = e.word(source_lane);
  leave_exchange(e);
  return result;
}

void BlockRunner::combine(const char* what, Place place, void* value, size_t bytes, void (*all)(void*)) {
  Exchange& e = join_exchange(what, place, 0xffffffffu, value, bytes, all);
  std::memcpy(value, e.values + static_cast<size_t>(lane()) * bytes, bytes);
  leave_exchange(e);
}

unsigned BlockRunner::ballot(const char* what, Place place, unsigned mask, bool predicate) {
  Exchange& e = join_exchange(what, place, mask, predicate ? 1 : 0);
  unsigned result = 0;
  for (int i = 0; i < kLanes; ++i)
    if ((mask >> i & 1) != 0 && e.word(i) != 0) result |= 1u << i;
  leave_exchange(e);
  return result;
}

void BlockRunner::warp_barrier(unsigned mask) {
  // Lanes may come from different lines, too: from sm_70 on they need not be at the same one.
  Exchange& e = join_exchange("__syncwarp", {}, mask, 0);
  // The last lane to come, which orders the accesses, is the first to go on.
  if (e.left == 0) checks_.ordering().warp_barrier(running_ / kLanes, mask);
  leave_exchange(e);
}

void* BlockRunner::static_shared(const void* site, const char* name, size_t size, size_t alignment) {
  std::string fault;
  void* memory = checks_.shared().array(site, name, size, alignment, &fault);
  if (memory == nullptr) fail(FindingKind::kInvalidUse, [&] { return fault; });
  return memory;
}

std::string BlockRunner::thread_text(unsigned thread) const {
  const KernelThread& t = threads_[thread].built_in;
  return "thread " + triple(t.thread_index) + " of block " + triple(t.block_index);
}

std::string BlockRunner::wait_text(const Thread& thread) const {
  std::string text = std::string(" waits at ") + thread.waits_for;
  if (thread.place.line != 0) text += " of line " + std::to_string(thread.place.line);
  return text;
}

// No thread can run, and not all have ended.
void BlockRunner::diagnose() {
  unsigned waiting = 0, first = count_;
  for (unsigned i = 0; i < count_; ++i) {
    if (threads_[i].ended) continue;
    ++waiting;
    if (first == count_) first = i;
  }
  const Thread& thread = threads_[first];
  std::string text = thread_text(first) + wait_text(thread) + " forever: ";
  unsigned ended = 0, other = count_;
  for (unsigned i = 0; i < count_; ++i) {
    if (thread.mask != 0 && (i / kLanes != first / kLanes || (thread.mask >> i % kLanes & 1) == 0)) continue;
    if (threads_[i].ended) ++ended;
    if (!threads_[i].ended && other == count_ &&
        (!same(threads_[i].place, thread.place) || threads_[i].mask != thread.mask ||
         !same(threads_[i].waits_for, thread.waits_for)))
      other = i;
  }
  if (other < count_) {
    text += thread_text(other) + wait_text(threads_[other]);
  } else {
    text += std::to_string(ended) + " of the threads it waits for have ended";
  }
  fault_ = std::make_unique<Fault>(Fault{FindingKind::kDivergentBarrier, text});
}

// ---- what kernel.h declares

int block_barrier(const char* what, Place place, BarrierResult result, int predicate) {
  return BlockRunner::current()->barrier(what, place, result, predicate);
}
uint64_t warp_exchange(const char* what, Place place, unsigned mask, uint64_t value, int source_lane) {
  return BlockRunner::current()->exchange(what, place, mask, value, source_lane);
}
void warp_combine(const char* what, Place place, void* value, size_t bytes, void (*combine)(void*)) {
  BlockRunner::current()->combine(what, place, value, bytes, combine);
}
unsigned warp_ballot(const char* what, Place place, unsigned mask, bool predicate) {
  return BlockRunner::current()->ballot(what, place, mask, predicate);
}
void warp_barrier(unsigned mask) { BlockRunner::current()->warp_barrier(mask); }
int lane_of_warp() { return BlockRunner::current()->lane(); }
int section_start(const char* what, int width) {
  BlockRunner& runner = *BlockRunner::current();
  if (width < 1 || width > kLanes || (width & (width - 1)) != 0)
    runner.fail(FindingKind::kDivergentBarrier, [&] {
      return std::string(what) + ": width " + std::to_string(width) + " is not a power of two up to 32";
    });
  return runner.lane() & ~(width - 1);
}
void* static_shared(const void* site, const char* name, size_t size, size_t alignment) {
  return BlockRunner::current()->static_shared(site, name, size, alignment);
}
void* dynamic_shared() { return BlockRunner::current()->checks().shared().dynamic(); }

}  // namespace braid::emulated
