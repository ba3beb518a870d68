#include "runtime/mapped_weights.h"

#include <algorithm>
#include <atomic>

#include "runtime/instance_error.h"
#include "runtime/team.h"
#include "runtime/weight_file.h"

namespace braid::rt {
namespace {

// Blocks checked although they are not needed yet: up to 1 MiB, or an eighth of the others.
constexpr uint64_t kFewBlocks = 16;
constexpr uint64_t kSmallPart = 8;
constexpr int64_t kBlocksPerThread = 16;  // with fewer, a thread is not worth its start

[[noreturn]] void refuse(const std::string& message) { throw InstanceError{BRAID_INVALID_ARGUMENT, message}; }

}  // namespace

MappedWeights::MappedWeights(const void* file, uint64_t bytes, uint64_t wanted, int32_t rank, uint64_t id)
    : name_(rank < 0 ? "weights.bin" : "weights.rank" + std::to_string(rank) + ".bin") {
  if (wanted == 0) return;
  if (!file) refuse(name_ + " is missing");
  WeightFileHeader head;
  if (!read_weight_header(file, bytes, &head)) refuse(name_ + " is not a weight file of this version");
  if (head.compilation_id != id) refuse(name_ + " belongs to another program: compile the model again");
  if (head.rank != rank) refuse(name_ + " holds the weights of rank " + std::to_string(head.rank));
  if (bytes != wanted) {
    refuse(name_ + " has " + std::to_string(bytes) + " bytes, but the program needs " +
           std::to_string(wanted));
  }
  file_ = static_cast<const std::byte*>(file);
  bytes_ = bytes;
  tensors_end_ = head.tensors_end;
  intact_.resize(weight_blocks(tensors_end_));
}

void MappedWeights::check(const void* begin, const void* end) {
  const auto offset = [&](const void* p) {
    const auto at = static_cast<uint64_t>(static_cast<const std::byte*>(p) - file_);
    return std::clamp<uint64_t>(at, sizeof(WeightFileHeader), tensors_end_) - sizeof(WeightFileHeader);
  };
  check_blocks(offset(begin) / kWeightBlock, (offset(end) + kWeightBlock - 1) / kWeightBlock);
}

void MappedWeights::check_small_rest() {
  const uint64_t rest = intact_.size() - checked_;
  if (rest <= std::max(kFewBlocks, checked_ / kSmallPart)) check_blocks(0, intact_.size());
}

void MappedWeights::check_blocks(uint64_t begin, uint64_t end) {
  std::vector<uint64_t> open;
  for (uint64_t k = begin; k < end; ++k) {
    if (!intact_[k]) open.push_back(k);
  }
  const auto count = static_cast<int64_t>(open.size());
  std::atomic<bool> damaged = false;
  parallel_for(count, count >= 2 * kBlocksPerThread, [&](int64_t from, int64_t to) {
    for (int64_t k = from; k < to; ++k) {
      if (!weight_block_intact(file_, tensors_end_, open[static_cast<size_t>(k)])) damaged = true;
    }
  });
  if (damaged) refuse(name_ + " is damaged: its contents have changed since compilation");
  for (uint64_t k : open) intact_[k] = true;
  checked_ += open.size();
}

}  // namespace braid::rt
