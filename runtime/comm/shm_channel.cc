#include "runtime/comm/shm_channel.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "runtime/comm/reduce.h"

namespace braid::rt::shm {
namespace {

// From this many bytes on, reducing one slice per rank costs less than reducing everything on all ranks.
// Measured by bench/collectives/collectives_bench.cc for two ranks; the saved traffic grows with their
// number.
size_t two_shot_threshold(int members) { return members == 2 ? 32 * 1024 : 16 * 1024; }

// From this many bytes of a block on, reading a peer's ordinary memory costs less than staging: a system call
// and the wait for the readers, but half the copies.
constexpr size_t kRemoteBytes = 8 * 1024;

}  // namespace

size_t ChannelLayout::posts_offset() const { return sizeof(ProgressLine) * members; }
size_t ChannelLayout::staging_offset() const {
  return round_up(posts_offset() + sizeof(PostLine) * kRing * members, kPage);
}
size_t ChannelLayout::bytes() const {
  return round_up(staging_offset() + staging_slot * kStagingSlots * stagers, kPage);
}

Channel::Channel(WorldCore& core, std::byte* memory, const ChannelLayout& layout, std::vector<int> members,
                 int me, std::string name, const std::optional<LinkPacing>& pacing)
    : core_(core),
      members_(std::move(members)),
      me_(me),
      name_(std::move(name)),
      staging_slot_(layout.staging_slot),
      progress_(reinterpret_cast<ProgressLine*>(memory + layout.progress_offset())),
      posts_(reinterpret_cast<PostLine*>(memory + layout.posts_offset())),
      staging_(memory + layout.staging_offset()),
      peer_consumed_(members_.size(), 0),
      bounce_(std::make_unique_for_overwrite<std::byte[]>(staging_slot_ * members_.size())),
      sources_(members_.size()),
      destinations_(std::max<size_t>(members_.size(), 2)) {
  if (pacing.has_value()) link_.emplace(*pacing);
}

std::byte* Channel::staging(int member, uint32_t round) const {
  return staging_ + staging_slot_ * (static_cast<size_t>(member) * kStagingSlots + round % kStagingSlots);
}

bool Channel::is_source(const Op& op, int member) const {
  const CollectiveRow& row = row_of(op.kind);
  return row.in != Blocks::none && (!row.rooted || member == op.root);
}

Status Channel::check_call(const CollectiveCall& call, size_t in_bytes, size_t out_bytes) const {
  const auto invalid = [&](const std::string& what) {
    return Status::error(StatusCode::invalid_argument, std::string(to_string(call.kind)) + " '" + call.label +
                                                           "' of group '" + name_ + "': " + what);
  };
  const CollectiveRow& row = row_of(call.kind);
  if (row.reduces && !reducible(call.dtype, call.op)) {
    return invalid(std::string(to_string(call.op)) + " of " + to_string(call.dtype) + " has no meaning");
  }
  if (call.peer < 0 || call.peer >= size()) return invalid("no member " + std::to_string(call.peer));
  if (in_bytes > 0 && call.input == nullptr) return invalid("null input");
  if (out_bytes > 0 && call.output == nullptr) return invalid("null output");
  if (in_bytes == 0 || out_bytes == 0) return {};
  const auto* input = static_cast<const std::byte*>(call.input);
  const auto* output = static_cast<const std::byte*>(call.output);
  const size_t block = call.count * size_of(call.dtype);
  const bool overlap = std::less<>()(input, output + out_bytes) && std::less<>()(output, input + in_bytes);
  const bool in_place = input == output || (row.in < row.out && input == output + block * me_) ||
                        (row.in > row.out && output == input + block * me_);
  return overlap && !in_place ? invalid("input and output overlap") : Status{};
}

// All members make the same choice, since the choice uses only values that they have agreed on.
void Channel::choose_rounds(Op& op, Algorithm hint) const {
  const size_t element = size_of(op.dtype);
  const size_t fit = staging_slot_ / staged_blocks(op.kind, members_.size()) / kLine * kLine / element;
  op.chunk = std::max<size_t>(fit, 1);
  op.rounds = static_cast<uint32_t>(std::max<size_t>((op.count + op.chunk - 1) / op.chunk, 1));
  op.begin_round = next_round_;
  op.round = op.begin_round;
  op.large = op.kind == CollectiveKind::all_reduce && size() > 1 && hint != Algorithm::one_shot &&
             (hint == Algorithm::two_shot || op.count * element >= two_shot_threshold(size()));
}

// How members reach the operands of a call: directly in the segment, in the memory of another process, or
// staged.
void Channel::choose_access(Op& op, Algorithm hint, size_t in_bytes, size_t out_bytes) {
  const CollectiveRow& row = row_of(op.kind);
  const std::byte* segment = core_.segment(core_.rank());
  const auto direct = [&](const std::byte* pointer, size_t bytes) {
    return bytes == 0 || (std::less_equal<>()(segment, pointer) &&
                          std::less_equal<>()(pointer + bytes, segment + core_.segment_bytes()));
  };
  // If my output overwrites parts of my input that peers still read, the input is copied first. Reducing by
  // slices needs no copy: a slice is overwritten by its only reader.
  const bool overwrites =
      in_bytes > 0 && op.output == op.input && size() > 1 &&
      (row.in != row.out ? me_ != 0 : row.in == Blocks::all || (row.reduces && !op.large));
  op.flags = static_cast<uint8_t>(static_cast<int>(hint) << kAlgorithmShift);
  op.misplaced = !direct(op.input, in_bytes);
  if (!op.misplaced && !overwrites) op.flags |= kInputDirect;
  if (direct(op.output, out_bytes)) op.flags |= kOutputDirect;
  if (op.input == op.output) op.flags |= kInPlace;
  const bool ordinary = !(op.flags & kInputDirect) || (op.large && !(op.flags & kOutputDirect));
  if (size() > 1 && ordinary && !overwrites && op.count * size_of(op.dtype) >= kRemoteBytes &&
      readable_by_all())
    op.flags |= kRemote;
  op.staged = size() > 1 && !(op.flags & (kInputDirect | kRemote));
}

Status Channel::start(const CollectiveCall& call, uint32_t* seq) {
  if (core_.failed()) return core_.failure();
  const CollectiveRow& row = row_of(call.kind);
  const size_t block = call.count * size_of(call.dtype);
  const bool gives = !row.from_root() || call.peer == me_;
  const size_t in_bytes = gives ? block * count_of(row.in, members_.size()) : 0;
  const size_t out_bytes = block * count_of(row.out, members_.size());
  if (Status checked = check_call(call, in_bytes, out_bytes); !checked.ok()) return checked;

  if (next_ - head_ == kRing) {
    if (Status finished = wait(head_); !finished.ok()) return finished;
  }
  Op& op = ops_[next_ % kRing];
  if (next_ >= kRing &&
      first_unconsumed(op.end_round()) != kReady) {  // peers may still read the post in this slot
    if (Status read = release(next_ - kRing); !read.ok()) return read;
  }

  // Fields that a kind does not use must not cause a disagreement.
  op.kind = call.kind == CollectiveKind::recv ? CollectiveKind::send : call.kind;
  op.dtype = call.dtype;
  op.op = row.reduces ? call.op : ReduceOp::sum;
  op.root = row.from_root() ? call.peer : 0;
  op.count = call.count;
  op.input = static_cast<const std::byte*>(call.input);
  op.output = static_cast<std::byte*>(call.output);
  op.seq = next_;
  op.stage = Stage::posts;
  op.checked_posts = 0;
  op.any_staged = op.push = op.two_shot = op.reduced = op.any_remote = op.remote = op.exposed = false;
  op.collected = 0;
  op.patience_ends_ns = 0;
  op.last_start_ns = 0;
  const size_t label_bytes = call.label == nullptr ? 0 : strnlen(call.label, kLabelBytes - 1);
  if (label_bytes > 0) std::memcpy(op.label, call.label, label_bytes);
  std::memset(op.label + label_bytes, 0, kLabelBytes - label_bytes);
  const Algorithm hint = op.kind == CollectiveKind::all_reduce ? call.algorithm : Algorithm::automatic;
  choose_rounds(op, hint);

  choose_access(op, hint, in_bytes, out_bytes);

  *seq = next_++;
  next_round_ += op.rounds;
  stage_pending(/*posting=*/true);
  publish_post(op);
  return {};
}

void Channel::publish_post(Op& op) {
  PostLine& line = post(me_, op.seq);
  line.kind = static_cast<uint8_t>(op.kind);
  line.dtype = static_cast<uint8_t>(op.dtype);
  line.op = static_cast<uint8_t>(op.op);
  line.flags = op.flags;
  line.count = op.count;
  const std::byte* segment = core_.segment(core_.rank());
  const auto place = [&](const std::byte* pointer, bool direct) {
    if (op.count == 0) return uint64_t{0};
    return direct ? static_cast<uint64_t>(pointer - segment) : reinterpret_cast<uint64_t>(pointer);
  };
  line.input_offset = place(op.input, op.flags & kInputDirect);
  line.output_offset = place(op.output, op.flags & kOutputDirect);
  line.root = op.root;
  line.avail = avail_;
  line.consumed = consumed_;
  if (link_) {
    op.last_start_ns = monotonic_ns();
    line.start_ns = op.last_start_ns;
  }
  for (int i = 0; i < kLabelBytes / 8; ++i) {
    uint64_t word;
    std::memcpy(&word, op.label + 8 * i, 8);
    line.label[i].store(word, std::memory_order_relaxed);
  }
  publish(line.seq, op.seq + 1);
}

void Channel::publish(std::atomic<uint32_t>& word, uint32_t value) {
  core_.store_flag(word, value);
  core_.ring(members_);
}

// Copies inputs of started collectives into free staging, in order, and announces it. While posting, the post
// itself announces its staging, unless earlier collectives waited for staging too.
void Channel::stage_pending(bool posting) {
  uint32_t staged = avail_;
  const bool announced = posting && stage_head_ + 1 == next_;
  while (stage_head_ != next_) {
    const Op& op = ops_[stage_head_ % kRing];
    if (op.staged) {
      uint32_t round = reached(staged, op.begin_round) ? staged : op.begin_round;
      while (round != op.end_round() && first_unconsumed(round + 1 - kStagingSlots) == kReady) {
        copy_to_staging(op, round);
        staged = ++round;
      }
      if (round != op.end_round()) break;
    }
    ++stage_head_;
  }
  if (staged == avail_) return;
  avail_ = staged;
  if (announced) {
    own_progress().avail.store(avail_, std::memory_order_release);
  } else {
    publish(own_progress().avail, avail_);
  }
}

// The member that has not yet consumed all rounds below `rounds`, or kReady. Includes this member.
int Channel::first_unconsumed(uint32_t rounds) {
  if (!reached(consumed_, rounds)) return me_;
  for (int member = 0; member < size(); ++member) {
    if (member == me_ || reached(peer_consumed_[member], rounds)) continue;
    peer_consumed_[member] = progress_line(member).consumed.load();
    if (!reached(peer_consumed_[member], rounds)) return member;
  }
  return kReady;
}

struct Channel::Completion {
  Channel& channel;
  const Op& op;
  int poll() { return channel.progress_to(op.seq + 1); }
  // Collectives finish in order, so this waits for the oldest one.
  bool started(int rank) { return channel.has_started(channel.ops_[channel.head_ % kRing], rank); }
  std::string call() { return channel.describe(op); }
  std::string missing() { return channel.describe_missing(op); }
};

struct Channel::Release {
  Channel& channel;
  const Op& op;
  int poll() {
    const int member = channel.first_unconsumed(op.end_round());
    return member == kReady ? kReady : channel.members_[member];
  }
  bool started(int rank) { return channel.has_started(op, rank); }
  std::string call() { return "release of " + channel.describe(op); }
  std::string missing() { return "release of " + channel.describe_missing(op); }
};

Status Channel::wait(uint32_t seq) {
  if (static_cast<int32_t>(seq - next_) >= 0) {
    return Status::error(StatusCode::invalid_argument, "wait of a collective that was not started");
  }
  Op& op = ops_[seq % kRing];
  if (finished(seq)) {
    if (core_.failed()) return core_.failure();
  } else {
    if (Status done = core_.block_until(Completion{*this, op}); !done.ok()) return done;
  }
  if (link_ && op.seq == seq) {
    const int64_t begin = monotonic_ns();
    op.slept_ns = std::max<int64_t>(0, op.due_ns - begin);
    sleep_until(op.due_ns);
  }
  return {};
}

LinkTimes Channel::link_times(uint32_t seq) const {
  const Op& op = ops_[seq % kRing];
  return link_ && op.seq == seq ? LinkTimes{op.due_ns, op.slept_ns} : LinkTimes{};
}

bool Channel::test(uint32_t seq) {
  if (!finished(seq) && progress_to(seq + 1) != kReady) return core_.failed();
  const Op& op = ops_[seq % kRing];
  return !link_ || op.seq != seq || op.due_ns <= monotonic_ns();
}

Status Channel::release(uint32_t seq) {
  if (static_cast<int32_t>(seq - next_) >= 0 || !finished(seq)) {
    return Status::error(StatusCode::invalid_argument, "release of a collective that was not waited for");
  }
  if (static_cast<int32_t>(next_ - seq) > kRing)
    return {};  // its place in the ring was taken, which proved that it was consumed
  const Op& op = ops_[seq % kRing];
  if (first_unconsumed(op.end_round()) == kReady) return {};
  return core_.block_until(Release{*this, op});
}

int Channel::progress_to(uint32_t end) {
  while (!reached(head_, end)) {  // a blocked wait elsewhere may have advanced it further
    const int missing = advance(ops_[head_ % kRing]);
    if (missing != kReady) return missing;
    Op& op = ops_[head_ % kRing];
    if (link_) {
      op.due_ns =
          link_->book(op.last_start_ns, link_bytes(op.kind, op.count * size_of(op.dtype), members_.size()));
    }
    ++head_;
  }
  return kReady;
}

// kReady, kFailed, or the world rank that this collective waits for.
int Channel::advance(Op& op) {
  if (op.stage == Stage::posts) {
    if (const int missing = advance_posts(op); missing != kReady) return missing;
    choose_path(op);
    op.stage = Stage::rounds;
  }
  if (op.stage == Stage::rounds) {
    if (const int missing = advance_rounds(op); missing != kReady) return missing;
    op.stage = Stage::finish;
  }
  if (op.push || op.exposed) {
    if (const int member = first_unconsumed(op.end_round()); member != kReady) return members_[member];
  }
  return kReady;
}

int Channel::advance_posts(Op& op) {
  if (op.kind == CollectiveKind::send && me_ == op.root && !link_ && !(op.flags & kRemote)) return kReady;
  for (; op.checked_posts < size(); ++op.checked_posts) {
    const int member = op.checked_posts;
    if (member == me_) continue;
    const PostLine& line = post(member, op.seq);
    if (line.seq.load() != op.seq + 1) return members_[member];
    const bool equal = line.kind == static_cast<uint8_t>(op.kind) &&
                       line.dtype == static_cast<uint8_t>(op.dtype) && line.count == op.count &&
                       line.root == op.root && line.op == static_cast<uint8_t>(op.op) &&
                       (line.flags ^ op.flags) >> kAlgorithmShift == 0;
    if (!equal) return disagree(op, member);
    if (!reached(peer_consumed_[member], line.consumed)) peer_consumed_[member] = line.consumed;
    if (link_) op.last_start_ns = std::max(op.last_start_ns, line.start_ns);
  }
  return kReady;
}

int Channel::disagree(const Op& op, int member) {
  (void)core_.fail(StatusCode::disagreement,
                   "ranks disagree about collective " + std::to_string(op.seq) + " of group '" + name_ +
                       "': rank " + std::to_string(core_.rank()) + " calls " + describe_posted(me_, op.seq) +
                       ", rank " + std::to_string(members_[member]) + " calls " +
                       describe_posted(member, op.seq));
  return kFailed;
}

// The posts tell where the data lies, which decides how it moves; all members see the same posts.
void Channel::choose_path(Op& op) {
  if (size() == 1 || op.kind == CollectiveKind::barrier) return;
  if (op.kind == CollectiveKind::send && me_ == op.root) {
    op.any_staged = op.staged;
    op.remote = (op.flags & kRemote) != 0;
    return;
  }
  try_members();
  bool all_direct = true;
  bool all_readable = true;  // outputs too
  bool overwritten = false;
  for (int member = 0; member < size(); ++member) {
    const uint8_t flags = member == me_ ? op.flags : post(member, op.seq).flags;
    if (is_source(op, member) && !(flags & kInputDirect)) {
      op.any_staged = op.any_staged || !(flags & kRemote);
      op.any_remote = op.any_remote || (flags & kRemote);
    }
    if (!(flags & kInputDirect) || !(flags & kOutputDirect)) {
      all_direct = false;
      all_readable = all_readable && (flags & kRemote);
    }
    if ((flags & (kInputDirect | kRemote)) && (flags & kInPlace)) overwritten = true;
  }
  op.remote = op.any_remote && !op.any_staged && (!op.large || all_readable);
  op.exposed =
      (op.remote && op.large) || (is_source(op, me_) && !(op.flags & kInputDirect) && (op.flags & kRemote));
  op.push = op.large && all_direct;
  // Two ranks that stage are faster one-shot: reading half as much of the peer's staging does not pay for the
  // second hand-over. This is not possible if an output would overwrite what the peer still reads.
  op.two_shot = op.large && !all_direct && !op.remote && (size() > 2 || overwritten);
}

bool Channel::available(const Op& op, int member, uint32_t round) const {
  const PostLine& line = post(member, op.seq);
  if ((line.flags & (kInputDirect | kRemote)) || reached(line.avail, round + 1)) return true;
  return reached(progress_line(member).avail.load(), round + 1);
}

int Channel::advance_rounds(Op& op) {
  if (op.remote || (!op.any_staged && !op.any_remote && !op.two_shot)) {
    if (op.remote) {
      if (const int missing = advance_remote(op); missing != kReady) return missing;
    } else if (op.push) {
      reduce_and_push(op);
    } else {
      move_data(op, 0, op.count);
    }
    consumed_ = op.end_round();
    publish(own_progress().consumed, consumed_);
    return kReady;
  }
  for (; op.round != op.end_round(); ++op.round) {
    stage_pending();
    if (op.staged && !reached(avail_, op.round + 1)) {
      const int member = first_unconsumed(op.round + 1 - kStagingSlots);
      if (member != kReady) return members_[member];
      stage_pending();
    }
    const size_t offset = (op.round - op.begin_round) * op.chunk;
    const size_t count = std::min(op.chunk, op.count - offset);
    if (op.kind != CollectiveKind::send || me_ != op.root) {
      for (int member = 0; member < size(); ++member) {
        if (member != me_ && is_source(op, member) && !available(op, member, op.round))
          return members_[member];
      }
    }
    if (op.any_remote && !op.reduced) {
      if (const int missing = fetch_round(op, offset, count); missing != kReady) return missing;
    }
    if (op.two_shot) {
      if (const int missing = advance_two_shot(op, offset, count); missing != kReady) return missing;
    } else {
      move_data(op, offset, count);
    }
    consumed_ = op.round + 1;
    publish(own_progress().consumed, consumed_);
  }
  stage_pending();
  return kReady;
}

}  // namespace braid::rt::shm
