#include "runtime/emulated/block_checks.h"

#include <cstring>
#include <utility>

#include "runtime/emulated/device_memory.h"
#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/kernel.h"
#include "runtime/emulated/kernel_operation.h"
#include "runtime/emulated/options.h"

namespace braid::emulated {

__thread BlockChecks* current_copies __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {
const char* text_of(AccessKind kind) {
  return kind == AccessKind::kRead ? "read" : kind == AccessKind::kWrite ? "write" : "atomic access";
}
}  // namespace

std::string triple(uint3 v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

uint3 index_in(dim3 size, unsigned linear) {
  return {linear % size.x, linear / size.x % size.y, linear / size.x / size.y};
}

BlockChecks::BlockChecks() : races_([this](const BlockRaces::Race& race) { report(race); }) {}

void BlockChecks::begin_launch(const KernelOperation& operation, dim3 grid, dim3 block, size_t dynamic_bytes,
                               size_t shared_limit) {
  operation_ = &operation;
  grid_ = grid;
  block_ = block;
  blocks_ = 0;
  check_ = options().check_accesses;
  reported_.clear();
  raced_.clear();
  uninitialized_.clear();
  touched_in_flight_ = false;
  not_waited_for_.clear();
  races_.begin_launch(block.x * block.y * block.z);
  shared_.begin_launch(dynamic_bytes, shared_limit);
}

void BlockChecks::begin_block() {
  ++blocks_;
  races_.begin_block();
  shared_.begin_block();
  copies_.begin_block(block_.x * block_.y * block_.z);
  current_copies = nullptr;
}

void BlockChecks::end_thread(unsigned thread) {
  if (!copies_.any() || !check_ || !not_waited_for_.empty() || copies_.of_thread(thread).empty()) return;
  const AsyncCopy& copy = copies_.of_thread(thread).front();
  not_waited_for_ = operation_->describe() + ": ";
  if (operation_->by_blocks())
    not_waited_for_ +=
        "a thread ends without having waited for its cp.async to " + shared_.name_at(copy.target);
  else
    not_waited_for_ += thread_text(thread) + " of " + block_text(blocks_ - 1) +
                       " ends without having waited for its cp.async to " + shared_.describe(copy.target);
}

void BlockChecks::end_launch() {
  current_copies = nullptr;
  // An access to a copy in flight has told of the same missing wait.
  if (!not_waited_for_.empty() && !touched_in_flight_)
    finding_list().add(FindingKind::kAsyncCopy, operation_->describe() + " / end", not_waited_for_);
  // A read that races with the write may have come first by chance.
  for (auto& [array, text] : uninitialized_) {
    if (raced_.count(array) == 0)
      finding_list().add(FindingKind::kUninitializedRead, operation_->describe() + " / " + array,
                         std::move(text));
  }
}

std::string BlockChecks::thread_text(unsigned thread) const {
  return "thread " + triple(index_in(block_, thread));
}
std::string BlockChecks::block_text(unsigned block) const {
  return "block " + triple(index_in(grid_, block));
}

const std::string* BlockChecks::shared_access(uintptr_t address, size_t size, AccessKind kind) {
  if (current_copies != nullptr) touch_targets(address, size, kind);
  const std::string* uninitialized = nullptr;
  const std::string* fault = shared_.access(address, size, kind, &uninitialized);
  if (uninitialized != nullptr && check_) found_uninitialized(address, *uninitialized);
  return fault;
}

void BlockChecks::found_uninitialized(uintptr_t address, const std::string& array) {
  if (uninitialized_.count(array) != 0) return;
  uninitialized_[array] =
      access_text("reads", shared_.describe(address), array) + ", which no thread of the block has written";
}

std::string BlockChecks::access_text(const char* verb, const std::string& place,
                                     const std::string& whole) const {
  const std::string text = operation_->describe() + ": ";
  if (operation_->by_blocks()) return text + "a thread " + verb + " " + whole;
  return text + thread_text(races_.thread()) + " of " + block_text(blocks_ - 1) + " " + verb + " " + place;
}

std::string BlockChecks::issuer_text(const AsyncCopy& copy) const {
  return (operation_->by_blocks() ? "a thread" : thread_text(copy.thread)) +
         (copies_.committed(copy) ? " has issued the copy and not waited for its group"
                                  : " has issued the copy and not committed it to a group");
}

void BlockChecks::issue_copy(const AsyncCopy& copy) {
  copies_.issue(copy);
  if (check_) current_copies = this;
}

void BlockChecks::finish_copies(unsigned thread, unsigned pending) {
  for (const AsyncCopy& copy : copies_.take_done(thread, pending)) {
    std::memcpy(reinterpret_cast<void*>(copy.target), copy.data.data(), copy.bytes);
    if (!check_ || copy.found) continue;
    races_.shared(copy.target, copy.bytes, AccessKind::kWrite);
    if (copy.valid == 0) continue;
    races_.global(copy.source, copy.valid, AccessKind::kRead);
    if (current_log != nullptr) current_log->add(copy.source, copy.valid, thread, AccessKind::kRead);
  }
  if (!copies_.any()) current_copies = nullptr;
}

void BlockChecks::touch_targets(uintptr_t address, size_t size, AccessKind kind) {
  copies_.for_targets(address, size, [&](AsyncCopy& copy) {
    if (std::exchange(copy.found, true)) return;
    touched_in_flight_ = true;
    const std::string& array = shared_.name_at(address);
    const bool reads = kind == AccessKind::kRead || kind == AccessKind::kAtomic;
    const std::string text = access_text(reads ? "reads" : "writes", shared_.describe(address), array);
    if (reads)
      uninitialized_.try_emplace(array, text + " before cp.async was waited for: " + issuer_text(copy));
    else
      finding_list().add(FindingKind::kAsyncCopy, operation_->describe() + " / " + array,
                         text + ", the target of a cp.async in flight: " + issuer_text(copy));
  });
}

void BlockChecks::write_source(uintptr_t address, size_t size) {
  copies_.for_sources(address, size, [&](AsyncCopy& copy) {
    if (std::exchange(copy.found, true)) return;
    touched_in_flight_ = true;
    const Allocation allocation = device_memory().at(device_memory().find(address));
    const std::string whole = allocation.describe();
    const std::string place = "byte " + std::to_string(address - allocation.begin) + " of " + whole;
    finding_list().add(
        FindingKind::kAsyncCopy, operation_->describe() + " / " + whole,
        access_text("writes", place, whole) + ", the source of a cp.async in flight: " + issuer_text(copy));
  });
}

void BlockChecks::report(const BlockRaces::Race& race) {
  const bool in_shared = race.address - shared_region_begin < kSharedRegionBytes;
  const bool one_block = race.earlier.block == race.later.block;
  std::string place, offset;
  if (in_shared) {
    place = shared_.name_at(race.address);
    offset = shared_.describe(race.address);
    raced_.insert(place);
  } else {
    const Allocation allocation = device_memory().at(device_memory().find(race.address));
    place = allocation.describe();
    offset = "byte " + std::to_string(race.address - allocation.begin) + " of " + place;
  }
  if (!reported_.insert(place + (one_block ? " threads" : " blocks")).second) return;
  std::string text = operation_->describe() + ": ";
  const auto side = [&](const BlockRaces::Side& s) {
    return std::string("the ") + text_of(s.kind) + " by " + thread_text(s.thread) +
           (one_block ? "" : " of " + block_text(s.block));
  };
  if (operation_->by_blocks())
    text += "threads of one block touch " + place + " with no barrier between, and not all only read";
  else if (one_block)
    text += "no barrier orders " + side(race.earlier) + " and " + side(race.later) + " of " +
            block_text(race.later.block) + "; both touch " + offset;
  else
    text += "nothing orders " + side(race.earlier) + " and " + side(race.later) + "; both touch " + offset;
  finding_list().add(FindingKind::kRace,
                     operation_->describe() + " / " + place + (one_block ? " threads" : " blocks"), text);
}

}  // namespace braid::emulated
