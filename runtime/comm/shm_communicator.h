// World and Communicator of the shared-memory engine.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/paced_link.h"
#include "runtime/comm/shm_channel.h"
#include "runtime/comm/shm_worker.h"
#include "runtime/comm/shm_world_core.h"

namespace braid::rt::shm {

// The layout of a group block.
struct GroupLayout {
  GroupLayout(int size, size_t staging_bytes);

  int size;
  ChannelLayout all;   // the channel of all members
  ChannelLayout pair;  // a channel from one member to another
  size_t members_offset() const { return round_up(sizeof(GroupHeader), 128); }
  size_t fingerprints_offset() const { return round_up(members_offset() + sizeof(int) * size, 128); }
  size_t all_offset() const {
    return round_up(fingerprints_offset() + sizeof(FingerprintLine) * size, kPage);
  }
  size_t pair_offset(int source, int destination) const;
  size_t bytes() const { return all_offset() + all.bytes() + pair.bytes() * size * (size - 1); }
};

class ShmCommunicator final : public Communicator {
 public:
  ShmCommunicator(WorldCore& core, std::byte* block, const GroupLayout& layout, std::vector<int> members,
                  std::string name, const std::optional<LinkPacing>& pacing, Worker* worker);

  int size() const override { return static_cast<int>(members_.size()); }
  int index() const override { return me_; }
  std::span<const int> members() const override { return members_; }
  const std::string& name() const override { return name_; }

  Status start(const CollectiveCall& call, Ticket* ticket) override;
  Status wait(Ticket ticket) override;
  Status release(Ticket ticket) override;
  bool test(Ticket ticket) override;
  LinkTimes link_times(Ticket ticket) const override;
  Status compare_fingerprint(uint64_t hash, std::string_view description) override;
  void abort(std::string_view reason) override;

 private:
  // A ticket holds the channel's index and the sequence number in it.
  Channel* channel(Ticket ticket) const;
  static uint32_t sequence(Ticket ticket) { return static_cast<uint32_t>(ticket.value); }

  WorldCore& core_;
  Worker* worker_;
  std::vector<int> members_;
  int me_;
  std::string name_;
  FingerprintLine* fingerprints_;
  // 0: all members; 1 + m: sends to m; 1 + size + m: receives from m. Null for m == me.
  std::vector<std::unique_ptr<Channel>> channels_;
};

class ShmWorld final : public World {
 public:
  ShmWorld(std::shared_ptr<Arena> arena, int rank, const std::optional<LinkPacing>& pacing)
      : core_(std::move(arena), rank), pacing_(pacing) {}
  ~ShmWorld() override { worker_.reset(); }  // before the communicators that it works on
  // Starts the worker if one is wanted.
  Status start_worker();

  int rank() const override { return core_.rank(); }
  int size() const override { return core_.size(); }
  std::byte* segment() const override { return core_.segment(core_.rank()); }
  size_t segment_bytes() const override { return core_.segment_bytes(); }
  Status group(std::span<const int> ranks, std::string_view name, Communicator** out) override;
  Status last_error() const override { return core_.failed() ? core_.failure() : Status{}; }
  void abort(std::string_view reason) override { (void)core_.fail(StatusCode::aborted, std::string(reason)); }

 private:
  uint64_t staged_bytes() const override { return core_.staged_bytes(); }

  WorldCore core_;
  std::optional<LinkPacing> pacing_;
  std::unique_ptr<Worker> worker_;
  std::vector<std::unique_ptr<ShmCommunicator>> communicators_;
};

}  // namespace braid::rt::shm
