// Where the data of a collective lies, and the loops that move it.
#include <algorithm>
#include <cstring>

#include "runtime/comm/reduce.h"
#include "runtime/comm/shm_channel.h"

namespace braid::rt::shm {
namespace {

// Results from this size on are written around the caches.
constexpr size_t kStreamingBytes = 8 * 1024 * 1024;

}  // namespace

void Channel::copy_to_staging(const Op& op, uint32_t round) {
  const size_t element = size_of(op.dtype);
  const size_t offset = (round - op.begin_round) * op.chunk;
  const size_t count = std::min(op.chunk, op.count - offset);
  std::byte* slot = staging(me_, round);
  // Data in the segment is copied because the result takes its place; that is part of the algorithm, not
  // staging.
  if (op.misplaced) core_.count_staged(staged_blocks(op.kind, members_.size()) * count * element);
  for (size_t block = 0; block < staged_blocks(op.kind, members_.size()); ++block) {
    std::memcpy(slot + block * op.chunk * element, op.input + (block * op.count + offset) * element,
                count * element);
  }
}

// The slice of `count` elements that `member` reduces; whole cache lines.
Channel::Slice Channel::slice(const Op& op, int member, size_t count) const {
  const size_t line = kLine / size_of(op.dtype);
  const size_t each = round_up((count + members_.size() - 1) / members_.size(), line);
  const size_t begin = std::min(count, each * member);
  return {begin, std::min(count, begin + each) - begin};
}

// Element `offset` of block `block` of a member's input, in `round`.
const std::byte* Channel::source(const Op& op, int member, size_t block, size_t offset,
                                 uint32_t round) const {
  const size_t element = size_of(op.dtype);
  if (member == me_) return op.input + (block * op.count + offset) * element;
  const PostLine& line = post(member, op.seq);
  if (line.flags & kInputDirect) {
    return core_.segment(members_[member]) + line.input_offset + (block * op.count + offset) * element;
  }
  const size_t round_offset = (round - op.begin_round) * op.chunk;
  if (line.flags & kRemote) return bounce_.get() + member * staging_slot_ + (offset - round_offset) * element;
  return staging(member, round) + (block * op.chunk + offset - round_offset) * element;
}

int Channel::advance_two_shot(Op& op, size_t offset, size_t count) {
  const size_t element = size_of(op.dtype);
  if (!op.reduced) {
    // My slot takes the result, even if my input did not go through it.
    if (const int member = first_unconsumed(op.round + 1 - kStagingSlots); member != kReady)
      return members_[member];
    const Slice mine = slice(op, me_, count);
    for (int member = 0; member < size(); ++member) {
      sources_[member] = source(op, member, 0, offset + mine.begin, op.round);
    }
    destinations_[0] = staging(me_, op.round) + mine.begin * element;
    destinations_[1] = op.output + (offset + mine.begin) * element;
    reduce(op.dtype, op.op, sources_, std::span(destinations_).first(2), mine.size, false);
    op.reduced = true;
    publish(own_progress().phase, op.round + 1);
  }
  for (int member = 0; member < size(); ++member) {
    if (member != me_ && !reached(progress_line(member).phase.load(), op.round + 1)) return members_[member];
  }
  for (int member = 0; member < size(); ++member) {
    if (member == me_) continue;
    const Slice theirs = slice(op, member, count);
    std::memcpy(op.output + (offset + theirs.begin) * element,
                staging(member, op.round) + theirs.begin * element, theirs.size * element);
  }
  op.reduced = false;
  return kReady;
}

void Channel::reduce_and_push(const Op& op) {
  const size_t element = size_of(op.dtype);
  const Slice mine = slice(op, me_, op.count);
  for (int member = 0; member < size(); ++member) {
    sources_[member] = source(op, member, 0, mine.begin, op.begin_round);
    std::byte* output =
        member == me_ ? op.output : core_.segment(members_[member]) + post(member, op.seq).output_offset;
    destinations_[member] = output + mine.begin * element;
  }
  reduce(op.dtype, op.op, sources_, destinations_, mine.size, op.count * element >= kStreamingBytes);
}

// Everything except two-shot and push: reads the peers and writes my own output. Elements [offset,
// offset+count).
void Channel::move_data(const Op& op, size_t offset, size_t count) {
  if (count == 0) return;
  const size_t element = size_of(op.dtype);
  const uint32_t round = op.begin_round + static_cast<uint32_t>(offset / op.chunk);
  const auto copy = [&](std::byte* to, const std::byte* from) {
    if (to != from) copy_block(to, from, count * element);
  };
  const CollectiveRow& row = row_of(op.kind);
  const size_t block = row.in == Blocks::all ? me_ : 0;
  if (row.reduces) {
    for (int member = 0; member < size(); ++member)
      sources_[member] = source(op, member, block, offset, round);
    destinations_[0] = op.output + offset * element;
    reduce(op.dtype, op.op, sources_, std::span(destinations_).first(1), count,
           op.count * element >= kStreamingBytes);
    return;
  }
  if (row.point_to_point && me_ == op.root) return;  // both sides of a pair post a send
  // My own block first: in place, a peer's block may land on it.
  for (int step = 0; step < size(); ++step) {
    const int member = (me_ + step) % size();
    if (!is_source(op, member)) continue;
    const size_t to = row.out == Blocks::all ? member * op.count : 0;
    copy(op.output + (to + offset) * element, source(op, member, block, offset, round));
  }
}

}  // namespace braid::rt::shm
