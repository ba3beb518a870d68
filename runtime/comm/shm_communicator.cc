#include "runtime/comm/shm_communicator.h"

#include <algorithm>
#include <cstring>

#include "runtime/comm/collective_kinds.h"
#include "runtime/comm/group_rules.h"

namespace braid::rt::shm {
namespace {

constexpr size_t kMinSlot = 4096;
constexpr size_t kPairShare = 8;  // a pair channel's slot is this much smaller than the group's

}  // namespace

GroupLayout::GroupLayout(int size, size_t staging_bytes) : size(size) {
  const size_t slot =
      std::max(round_up(staging_bytes / kStagingSlots, kMinSlot), kMinSlot * round_up(size, 64) / 64);
  all = {.members = size, .stagers = size, .staging_slot = slot};
  pair = {
      .members = 2, .stagers = 1, .staging_slot = std::max(round_up(slot / kPairShare, kMinSlot), kMinSlot)};
}

size_t GroupLayout::pair_offset(int source, int destination) const {
  const int index = source * (size - 1) + destination - (destination > source ? 1 : 0);
  return all_offset() + all.bytes() + pair.bytes() * index;
}

ShmCommunicator::ShmCommunicator(WorldCore& core, std::byte* block, const GroupLayout& layout,
                                 std::vector<int> members, std::string name,
                                 const std::optional<LinkPacing>& pacing, Worker* worker)
    : core_(core),
      worker_(worker),
      members_(std::move(members)),
      me_(static_cast<int>(std::find(members_.begin(), members_.end(), core.rank()) - members_.begin())),
      name_(std::move(name)),
      fingerprints_(reinterpret_cast<FingerprintLine*>(block + layout.fingerprints_offset())) {
  channels_.push_back(std::make_unique<Channel>(core_, block + layout.all_offset(), layout.all, members_, me_,
                                                name_, pacing));
  const auto pair = [&](int source, int destination) {
    if (source == destination) {
      channels_.push_back(nullptr);
      return;
    }
    const std::vector<int> both = {members_[source], members_[destination]};
    const std::string pair_name =
        name_ + "[" + std::to_string(both[0]) + "->" + std::to_string(both[1]) + "]";
    channels_.push_back(std::make_unique<Channel>(core_, block + layout.pair_offset(source, destination),
                                                  layout.pair, both, me_ == source ? 0 : 1, pair_name,
                                                  pacing));
  };
  for (int m = 0; m < size(); ++m) pair(me_, m);
  for (int m = 0; m < size(); ++m) pair(m, me_);
  for (const auto& channel : channels_) {
    if (channel == nullptr) continue;
    channel->join();
    core_.add_channel(channel.get());
  }
}

Channel* ShmCommunicator::channel(Ticket ticket) const {
  const size_t index = ticket.value >> 32;
  return index < channels_.size() ? channels_[index].get() : nullptr;
}

Status ShmCommunicator::start(const CollectiveCall& call, Ticket* ticket) {
  const Worker::Use use(worker_);
  size_t index = 0;
  uint32_t seq = 0;
  Status status;
  if (row_of(call.kind).point_to_point) {
    if (call.peer < 0 || call.peer >= size() || call.peer == me_) {
      return Status::error(StatusCode::invalid_argument, std::string(to_string(call.kind)) + " of group '" +
                                                             name_ + "': no other member " +
                                                             std::to_string(call.peer));
    }
    index = 1 + call.peer + (call.kind == CollectiveKind::recv ? size() : 0);
    CollectiveCall pair_call = call;
    pair_call.peer = 0;
    status = channels_[index]->start(pair_call, &seq);
  } else {
    status = channels_[0]->start(call, &seq);
  }
  ticket->value = (static_cast<uint64_t>(index) << 32) | seq;
  return status;
}

Status ShmCommunicator::wait(Ticket ticket) {
  const Worker::Use use(worker_);
  Channel* used = channel(ticket);
  return used != nullptr ? used->wait(sequence(ticket))
                         : Status::error(StatusCode::invalid_argument, "wait of a foreign ticket");
}

Status ShmCommunicator::release(Ticket ticket) {
  const Worker::Use use(worker_);
  Channel* used = channel(ticket);
  return used != nullptr ? used->release(sequence(ticket))
                         : Status::error(StatusCode::invalid_argument, "release of a foreign ticket");
}

bool ShmCommunicator::test(Ticket ticket) {
  const Worker::Use use(worker_);
  Channel* used = channel(ticket);
  return used == nullptr || used->test(sequence(ticket));
}

LinkTimes ShmCommunicator::link_times(Ticket ticket) const {
  const Worker::Use use(worker_);
  const Channel* used = channel(ticket);
  return used != nullptr ? used->link_times(sequence(ticket)) : LinkTimes{};
}

void ShmCommunicator::abort(std::string_view reason) {
  (void)core_.fail(StatusCode::aborted, "group '" + name_ + "': " + std::string(reason));
}

Status ShmCommunicator::compare_fingerprint(uint64_t hash, std::string_view description) {
  FingerprintLine& mine = fingerprints_[me_];
  mine.hash = hash;
  const size_t length = std::min(description.size(), sizeof mine.text - 1);
  std::memcpy(mine.text, description.data(), length);
  mine.text[length] = '\0';
  const CollectiveCall barrier{.kind = CollectiveKind::barrier, .label = "fingerprint"};
  if (Status status = run(barrier); !status.ok()) return status;

  std::vector<FingerprintView> prints;
  for (int member = 0; member < size(); ++member)
    prints.push_back({fingerprints_[member].hash, fingerprints_[member].text});
  const std::string text = fingerprint_difference(name_, members_, prints);
  if (text.empty()) return run(barrier);  // no rank overwrites what another still compares
  return core_.fail(StatusCode::disagreement, text);
}

Status ShmWorld::start_worker() {
  const WorldHeader& header = core_.arena().header();
  bool wanted = false;
  const Status known =
      wants_worker(static_cast<CommWorker>(header.worker), size(), header.compute_threads, &wanted);
  if (known.ok() && wanted) worker_ = std::make_unique<Worker>(core_);
  return known;
}

Status ShmWorld::group(std::span<const int> ranks, std::string_view name, Communicator** out) {
  *out = nullptr;
  if (core_.failed()) return core_.failure();
  static_assert(sizeof GroupHeader::name == kMaxGroupName + 1);
  if (Status valid = check_group(ranks, name, size()); !valid.ok()) return valid;
  std::vector<int> members(ranks.begin(), ranks.end());
  if (std::find(members.begin(), members.end(), rank()) == members.end()) return {};

  uint32_t occurrence = 0;
  for (const auto& made : communicators_) {
    if (made->name() == name && std::ranges::equal(made->members(), members)) ++occurrence;
  }
  const GroupLayout layout(static_cast<int>(members.size()), core_.arena().header().staging_bytes);
  const size_t member_bytes = members.size() * sizeof(int);
  const uint64_t key = group_key(name, members, occurrence);
  std::byte* block = nullptr;
  Status found = core_.arena().find_or_make_group(
      key, layout.bytes(),
      [&](std::byte* fresh) {
        auto* header = reinterpret_cast<GroupHeader*>(fresh);
        std::memcpy(header->name, name.data(), name.size());
        header->size = static_cast<uint32_t>(members.size());
        header->occurrence = occurrence;
        std::memcpy(fresh + layout.members_offset(), members.data(), member_bytes);
      },
      [&](const std::byte* existing) {
        const auto* header = reinterpret_cast<const GroupHeader*>(existing);
        return name == header->name && header->size == members.size() && header->occurrence == occurrence &&
               std::memcmp(existing + layout.members_offset(), members.data(), member_bytes) == 0;
      },
      &block);
  if (!found.ok()) return found;
  const Worker::Use use(worker_.get());
  communicators_.push_back(std::make_unique<ShmCommunicator>(core_, block, layout, std::move(members),
                                                             std::string(name), pacing_, worker_.get()));
  *out = communicators_.back().get();
  return {};
}

}  // namespace braid::rt::shm
