// Collectives whose data lies in ordinary memory that peers may read directly: one copy, no staging.
#include <algorithm>
#include <cstring>

#include "runtime/comm/reduce.h"
#include "runtime/comm/shm_channel.h"

namespace braid::rt::shm {
namespace {

constexpr size_t kPiece = 64 * 1024;    // bytes of each input that are reduced at a time
constexpr int64_t kPatienceNs = 2'000;  // time in which a sender leaves a small message to its receiver

// The number of bytes that one side of a message copies at a time.
size_t claim_bytes(size_t bytes) {
  return std::clamp<size_t>(round_up(bytes / 8, kPage), 32 * 1024, 512 * 1024);
}

}  // namespace

// Whether all others can read my ordinary memory. Each has published this in the channel after trying.
bool Channel::readable_by_all() {
  if (readable_) return true;
  if (link_ || !core_.reads_peers()) return false;
  for (int member = 0; member < size(); ++member) {
    if (member != me_ && progress_line(member).reads_all.load(std::memory_order_relaxed) == 0) return false;
  }
  readable_ = true;
  return true;
}

// Tells the others that I can read their memory, once all of them are attached and I can.
void Channel::try_members() {
  if (tried_ || link_ || !core_.reads_peers()) return;
  for (const int member : members_) {
    if (member != core_.rank() && !core_.reachable(member)) return;
  }
  tried_ = true;
  own_progress().reads_all.store(1);
}

// Copies bytes of a member's input (output) from `offset` on to my memory; false if they cannot be read.
bool Channel::fetch(const Op& op, int member, bool output, size_t offset, std::byte* to, size_t bytes) const {
  const PostLine& line = post(member, op.seq);
  const uint64_t base = output ? line.output_offset : line.input_offset;
  if (line.flags & (output ? kOutputDirect : kInputDirect)) {
    copy_block(to, core_.segment(members_[member]) + base + offset, bytes);
    return true;
  }
  return read_peer(core_.pid(members_[member]), to, base + offset, bytes);
}

// Reduces elements [offset, offset+count) of block `block` of all inputs, none of them staged, in pieces that
// stay in the cache. Returns kReady or the world rank whose memory cannot be read.
int Channel::reduce_remote(const Op& op, size_t block, size_t offset, size_t count, std::byte* to) {
  const size_t element = size_of(op.dtype);
  const size_t piece = std::min(kPiece, staging_slot_) / element;
  for (size_t begin = 0; begin < count; begin += piece) {
    const size_t now = std::min(piece, count - begin);
    const size_t at = (block * op.count + offset + begin) * element;
    for (int member = 0; member < size(); ++member) {
      if (member == me_) {
        sources_[member] = op.input + at;
        continue;
      }
      const PostLine& line = post(member, op.seq);
      if (line.flags & kInputDirect) {
        sources_[member] = core_.segment(members_[member]) + line.input_offset + at;
        continue;
      }
      std::byte* bounce = bounce_.get() + member * staging_slot_;
      if (!fetch(op, member, false, at, bounce, now * element)) return members_[member];
      sources_[member] = bounce;
    }
    destinations_[0] = to + begin * element;
    reduce(op.dtype, op.op, sources_, std::span(destinations_).first(1), now, false);
  }
  return kReady;
}

// Fetches what a round needs of the inputs that are read in place, while others are staged.
int Channel::fetch_round(const Op& op, size_t offset, size_t count) {
  const size_t element = size_of(op.dtype);
  const bool own_block = staged_blocks(op.kind, members_.size()) > 1;
  for (int member = 0; member < size(); ++member) {
    if (member == me_ || !is_source(op, member)) continue;
    const uint8_t flags = post(member, op.seq).flags;
    if ((flags & kInputDirect) || !(flags & kRemote)) continue;
    const size_t at = ((own_block ? static_cast<size_t>(me_) * op.count : 0) + offset) * element;
    if (!fetch(op, member, false, at, bounce_.get() + member * staging_slot_, count * element))
      return members_[member];
  }
  return kReady;
}

// All-reduce: rank r reduces slice r into its own output; then every rank reads the other slices there.
int Channel::advance_remote_all_reduce(Op& op) {
  const size_t element = size_of(op.dtype);
  if (!op.reduced) {
    const Slice mine = slice(op, me_, op.count);
    const int missing = reduce_remote(op, 0, mine.begin, mine.size, op.output + mine.begin * element);
    if (missing != kReady) return missing;
    op.reduced = true;
    publish(own_progress().phase, op.end_round());
  }
  for (int step = 1; step < size(); ++step) {
    const int member = (me_ + step) % size();
    if (op.collected >= step) continue;
    if (!reached(progress_line(member).phase.load(), op.end_round())) return members_[member];
    const Slice theirs = slice(op, member, op.count);
    const size_t at = theirs.begin * element;
    if (!fetch(op, member, true, at, op.output + at, theirs.size * element)) return members_[member];
    op.collected = step;
  }
  return kReady;
}

// A message, or a broadcast to one rank. Whichever side is present copies the next piece: the receiver reads
// it, the sender writes it. A sender that does not wait costs the receiver nothing. A message of one piece is
// left to the receiver if it arrives soon: reading is cheaper than writing, and only one side can copy it.
int Channel::advance_remote_message(Op& op) {
  const size_t bytes = op.count * size_of(op.dtype);
  const size_t piece = claim_bytes(bytes);
  const int other = 1 - me_;
  const bool sends = me_ == op.root;
  const PostLine& line = post(other, op.seq);
  if (sends && op.input != op.output && row_of(op.kind).from_root() && !op.reduced) {
    copy_block(op.output, op.input, bytes);
    op.reduced = true;
  }
  const bool writes = core_.reachable(members_[other]) || (line.flags & kOutputDirect);
  std::atomic<uint64_t>& claims = progress_line(op.root).claims;
  const uint32_t tag = op.seq + 1;
  const uint64_t base = static_cast<uint64_t>(tag) << 32;
  // The number of claimed pieces of this message. If the claims belong to a later message, which is at most a
  // ring ahead, the receiver has taken all of this one and proceeded: its memory is its own again.
  const auto claimed = [&](uint64_t seen) -> uint64_t {
    const uint32_t ahead = static_cast<uint32_t>(seen >> 32) - tag;
    if (ahead == 0) return seen & 0xffffffff;
    return ahead < kRing ? (bytes + piece - 1) / piece : 0;
  };
  if (sends && writes && bytes <= piece && claimed(claims.load(std::memory_order_relaxed)) == 0) {
    const int64_t now = monotonic_ns();
    if (op.patience_ends_ns == 0) op.patience_ends_ns = now + kPatienceNs;
    if (now < op.patience_ends_ns) return members_[other];
  }
  while (!sends || writes) {
    uint64_t seen = claims.load(std::memory_order_relaxed);
    uint64_t next = 0;
    do {
      next = claimed(seen);
      if (next * piece >= bytes) break;
    } while (!claims.compare_exchange_weak(seen, base | (next + 1), std::memory_order_relaxed));
    const size_t at = next * piece;
    if (at >= bytes) break;
    const size_t now = std::min(piece, bytes - at);
    ++op.collected;
    if (sends) {
      if (line.flags & kOutputDirect) {
        copy_block(core_.segment(members_[other]) + line.output_offset + at, op.input + at, now);
      } else if (!write_peer(core_.pid(members_[other]), line.output_offset + at, op.input + at, now)) {
        return members_[other];
      }
    } else if (!fetch(op, other, false, at, op.output + at, now)) {
      return members_[other];
    }
  }
  // The sender waits until it has been read, the receiver only if it did not read all itself.
  op.exposed = sends || static_cast<size_t>(op.collected) * piece < bytes;
  return kReady;
}

int Channel::advance_remote(Op& op) {
  const CollectiveRow& row = row_of(op.kind);
  const size_t block = row.in == Blocks::all ? me_ : 0;
  if (op.large) return advance_remote_all_reduce(op);
  if (row.reduces) return reduce_remote(op, block, 0, op.count, op.output);
  if (row.rooted && row.in == Blocks::one && size() == 2) return advance_remote_message(op);
  const size_t bytes = op.count * size_of(op.dtype);
  for (int step = 1; step <= size(); ++step) {  // my own block last: while the peers may still read it
    const int member = (me_ + step) % size();
    if (!is_source(op, member)) continue;
    std::byte* to = op.output + (row.out == Blocks::all ? member * bytes : 0);
    if (member == me_) {
      const std::byte* from = op.input + block * bytes;
      if (to != from) copy_block(to, from, bytes);
    } else if (!fetch(op, member, false, block * bytes, to, bytes)) {
      return members_[member];
    }
  }
  return kReady;
}

}  // namespace braid::rt::shm
