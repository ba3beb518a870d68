// An ordered sequence of collectives among fixed members over shared memory: the engine of a communicator.
//
// Each member posts a collective (PostLine), and members find each other's data through the posts: in the
// member's segment (direct) or in its staging area, through which it passes in rounds of at most one staging
// slot. Rounds are numbered over the life of the channel, and a collective has the same number of rounds on
// every member, whether or not a member stages. So two counters per member (ProgressLine::avail, ::consumed)
// determine which members may read and overwrite what. Round r uses staging slot r % kStagingSlots, which is
// free once all have consumed round r - kStagingSlots.
//
// Algorithms of all-reduce:
//   one-shot      post -> reduce
//                 every rank reduces all inputs
//   push          post -> reduce, push -> all done
//                 all inputs and outputs are direct; rank r reduces slice r and writes it into every output
//   remote        post -> reduce -> read -> all done
//                 inputs or outputs are in ordinary memory that peers may read (shm_channel_remote.cc): as
//                 push, but every rank reads the other slices itself
//   two-shot      post -> reduce -> collect
//                 rank r reduces slice r of a round into its staging slot; then all ranks collect the slices
//
// Only start() can block, on a full ring: collectives are state machines that progress() advances.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/collective_kinds.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/paced_link.h"
#include "runtime/comm/shm_world_core.h"

namespace braid::rt::shm {

// The number of blocks of a round in a staging slot.
constexpr size_t staged_blocks(CollectiveKind kind, size_t members) {
  return row_of(kind).in == Blocks::all ? members : 1;
}

// The layout of a channel inside its group block.
struct ChannelLayout {
  int members = 0;
  int stagers = 0;          // members 0..stagers-1 have a staging area
  size_t staging_slot = 0;  // bytes

  size_t bytes() const;
  size_t progress_offset() const { return 0; }
  size_t posts_offset() const;
  size_t staging_offset() const;
};

class Channel {
 public:
  // `members` are world ranks, `me` is this rank's index in them, `name` is for messages. On a paced link
  // posts carry the time of the start, and a sender waits for the receiver's start; otherwise a sender's wait
  // ends when its input has been taken.
  Channel(WorldCore& core, std::byte* memory, const ChannelLayout& layout, std::vector<int> members, int me,
          std::string name, const std::optional<LinkPacing>& pacing);

  Status start(const CollectiveCall& call, uint32_t* seq);
  Status wait(uint32_t seq);
  Status release(uint32_t seq);
  bool test(uint32_t seq);
  LinkTimes link_times(uint32_t seq) const;

  bool idle() const { return head_ == next_; }
  // Advances the collectives in order as far as possible without blocking.
  int progress() { return progress_to(next_); }

  // Changes whenever a collective has made progress.
  uint64_t progress_mark() const { return (uint64_t{head_} << 32) + consumed_ + avail_; }

  // Describes what a world rank has called here and this rank has not; empty if nothing.
  std::string unanswered(int rank) const;

  void join() { own_progress().joined.store(1); }
  const std::string& name() const { return name_; }

 private:
  enum class Stage : uint8_t { posts, rounds, finish };
  struct Op {
    CollectiveKind kind;
    DType dtype;
    ReduceOp op;
    int root;
    size_t count;
    const std::byte* input;
    std::byte* output;
    uint8_t flags;   // as posted
    bool staged;     // my input goes through staging
    bool misplaced;  // my input is outside my segment
    bool large;      // all-reduce of the two-shot class
    uint32_t seq;
    uint32_t begin_round;
    uint32_t rounds;
    size_t chunk;  // elements of `count` per round
    Stage stage;
    int checked_posts;
    bool any_staged;
    bool push;
    bool any_remote;  // an input is read in ordinary memory
    bool remote;      // all of it, without rounds
    bool exposed;     // peers read or write my memory until all have finished
    bool two_shot;
    bool reduced;              // two-shot: this round's slice is reduced
    int collected;             // remote: slices read, or pieces copied
    int64_t patience_ends_ns;  // remote message: until then only the receiver copies it; 0: not yet known
    uint32_t round;            // current, absolute
    int64_t last_start_ns;     // of all members, on a paced link
    int64_t due_ns;            // when a paced link has delivered it
    int64_t slept_ns;          // what the wait slept until then
    char label[kLabelBytes];
    uint32_t end_round() const { return begin_round + rounds; }
  };
  struct Slice {
    size_t begin, size;
  };

  // The call in which this rank is blocked (WorldCore::block_until).
  struct Completion;
  struct Release;
  bool has_started(const Op& op, int rank) const;

  int size() const { return static_cast<int>(members_.size()); }
  ProgressLine& progress_line(int member) const { return progress_[member]; }
  ProgressLine& own_progress() const { return progress_[me_]; }
  PostLine& post(int member, uint32_t seq) const { return posts_[member * kRing + seq % kRing]; }
  std::byte* staging(int member, uint32_t round) const;
  bool is_source(const Op& op, int member) const;
  bool finished(uint32_t seq) const { return static_cast<int32_t>(head_ - seq) > 0; }

  Status check_call(const CollectiveCall& call, size_t in_bytes, size_t out_bytes) const;
  void choose_rounds(Op& op, Algorithm hint) const;
  void choose_access(Op& op, Algorithm hint, size_t in_bytes, size_t out_bytes);
  void publish_post(Op& op);
  void stage_pending(bool posting = false);
  void copy_to_staging(const Op& op, uint32_t round);

  int progress_to(uint32_t end);
  int advance(Op& op);
  int advance_posts(Op& op);
  int advance_rounds(Op& op);
  int advance_two_shot(Op& op, size_t offset, size_t count);
  int disagree(const Op& op, int member);

  bool readable_by_all();
  void try_members();
  bool fetch(const Op& op, int member, bool output, size_t offset, std::byte* to, size_t bytes) const;
  int fetch_round(const Op& op, size_t offset, size_t count);
  int reduce_remote(const Op& op, size_t block, size_t offset, size_t count, std::byte* to);
  int advance_remote_all_reduce(Op& op);
  int advance_remote_message(Op& op);
  int advance_remote(Op& op);

  void choose_path(Op& op);
  void move_data(const Op& op, size_t offset, size_t count);
  void reduce_and_push(const Op& op);

  int first_unconsumed(uint32_t rounds);
  bool available(const Op& op, int member, uint32_t round) const;
  void publish(std::atomic<uint32_t>& word, uint32_t value);
  const std::byte* source(const Op& op, int member, size_t block, size_t offset, uint32_t round) const;
  Slice slice(const Op& op, int member, size_t count) const;

  std::string describe(const Op& op) const;
  std::string describe_posted(int member, uint32_t seq) const;
  std::string describe_missing(const Op& op) const;

  WorldCore& core_;
  std::vector<int> members_;
  int me_;
  std::string name_;
  std::optional<PacedLink> link_;
  size_t staging_slot_;
  ProgressLine* progress_;
  PostLine* posts_;
  std::byte* staging_;

  std::array<Op, kRing> ops_{};
  uint32_t head_ = 0;        // oldest unfinished collective
  uint32_t next_ = 0;        // sequence number of the next one
  uint32_t stage_head_ = 0;  // oldest one whose input is not completely staged
  uint32_t next_round_ = 0;
  uint32_t avail_ = 0;  // own ProgressLine values
  uint32_t consumed_ = 0;
  std::vector<uint32_t> peer_consumed_;  // last seen
  bool tried_ = false;                   // reads_all is published
  bool readable_ = false;                // all others have published it
  std::unique_ptr<std::byte[]> bounce_;  // a staging slot per member for data read from ordinary memory
  std::vector<const void*> sources_;     // scratch
  std::vector<void*> destinations_;
};

}  // namespace braid::rt::shm
