// The channel's error messages: which collective it is, and what the others do instead.
#include <algorithm>
#include <cstring>

#include "runtime/comm/shm_channel.h"

namespace braid::rt::shm {

namespace {

// Both sides of a message post a send; its receiver is the second member of their channel.
const char* name_of(CollectiveKind kind, int member) {
  return to_string(kind == CollectiveKind::send && member == 1 ? CollectiveKind::recv : kind);
}

}  // namespace

std::string Channel::describe(const Op& op) const {
  return std::string(name_of(op.kind, me_)) + " '" + op.label + "' (collective " + std::to_string(op.seq) +
         " of group '" + name_ + "', " + to_string(op.dtype) + " x " + std::to_string(op.count) + ")";
}

std::string Channel::describe_posted(int member, uint32_t seq) const {
  const PostLine& line = post(member, seq);
  char label[kLabelBytes];
  for (int i = 0; i < kLabelBytes / 8; ++i) {
    const uint64_t word = line.label[i].load(std::memory_order_relaxed);
    std::memcpy(label + 8 * i, &word, 8);
  }
  label[kLabelBytes - 1] = '\0';
  const auto kind = static_cast<CollectiveKind>(line.kind);
  std::string text = std::string(name_of(kind, member)) + " '" + label + "' (" +
                     to_string(static_cast<DType>(line.dtype)) + " x " + std::to_string(line.count);
  if (static_cast<size_t>(kind) < std::size(kCollectiveTable)) {
    if (row_of(kind).reduces) text += std::string(", ") + to_string(static_cast<ReduceOp>(line.op));
    if (row_of(kind).from_root()) text += ", root " + std::to_string(line.root);
  }
  if (line.flags >> kAlgorithmShift != 0) {
    text += line.flags >> kAlgorithmShift == 1 ? ", one_shot" : ", two_shot";
  }
  return text + ")";
}

// Its post may have been replaced by a later one.
bool Channel::has_started(const Op& op, int rank) const {
  const int member = static_cast<int>(std::ranges::find(members_, rank) - members_.begin());
  return post(member, op.seq).seq.load() == op.seq + 1 ||
         reached(progress_line(member).consumed.load(), op.end_round());
}

std::string Channel::unanswered(int rank) const {
  const auto found = std::ranges::find(members_, rank);
  if (found == members_.end()) return {};
  const int member = static_cast<int>(found - members_.begin());
  if (post(member, next_).seq.load() != next_ + 1) return {};
  return describe_posted(member, next_) + " in group '" + name_ + "', which rank " +
         std::to_string(core_.rank()) + " has not called";
}

std::string Channel::describe_missing(const Op& op) const {
  std::string text = describe(op) + ": ";
  bool any = false;
  const auto name = [&](int member, const std::string& what) {
    text += std::string(any ? "; " : "") + "rank " + std::to_string(members_[member]) + " " + what;
    any = true;
  };
  for (int member = 0; member < size(); ++member) {
    if (member == me_ || has_started(op, members_[member])) continue;
    const RankLine& line = core_.arena().rank_line(members_[member]);
    if (static_cast<RankState>(line.state.load()) == RankState::absent) {
      name(member, "has never arrived");
    } else if (progress_line(member).joined.load() == 0) {
      name(member, "has never joined this group");
    } else {
      uint32_t last = op.seq;
      while (last != 0 && op.seq - last < kRing && post(member, last - 1).seq.load() != last) --last;
      name(member, last == 0
                       ? "has not started anything in this group"
                       : "has not started it (its last one is number " + std::to_string(last - 1) + ")");
    }
  }
  if (any) return text;
  for (int member = 0; member < size(); ++member) {
    if (member != me_ && !reached(progress_line(member).consumed.load(), op.end_round())) {
      name(member, "has started it but does not continue");
    }
  }
  return any ? text : text + "no rank is missing";
}

}  // namespace braid::rt::shm
