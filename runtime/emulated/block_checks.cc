#include "runtime/emulated/block_checks.h"

#include <utility>

#include "runtime/emulated/device_memory.h"
#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/kernel.h"
#include "runtime/emulated/kernel_operation.h"
#include "runtime/emulated/options.h"

namespace braid::emulated {

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
  races_.begin_launch(block.x * block.y * block.z);
  shared_.begin_launch(dynamic_bytes, shared_limit);
}

void BlockChecks::begin_block() {
  ++blocks_;
  races_.begin_block();
  shared_.begin_block();
}

void BlockChecks::end_launch() {
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
  const std::string* uninitialized = nullptr;
  const std::string* fault = shared_.access(address, size, kind, &uninitialized);
  if (uninitialized != nullptr && check_) found_uninitialized(address, *uninitialized);
  return fault;
}

void BlockChecks::found_uninitialized(uintptr_t address, const std::string& array) {
  if (uninitialized_.count(array) != 0) return;
  std::string text = operation_->describe() + ": ";
  // Flags decide when a thread runs, and texts do not depend on time.
  if (operation_->by_blocks())
    text += "a thread reads " + array;
  else
    text += thread_text(races_.thread()) + " of " + block_text(blocks_ - 1) + " reads " +
            shared_.describe(address);
  uninitialized_[array] = text + ", which no thread of the block has written";
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
