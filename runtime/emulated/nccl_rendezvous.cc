// How the ranks of a communicator find each other from an id. The id names the process that made it, as
// NCCL's id names the root of its bootstrap. That process gathers the ranks and tells all of them where the
// others are.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/nccl_process.h"
#include "runtime/emulated/nccl_remote.h"

namespace braid::emulated {
namespace {

constexpr const char* kAt = " @";

void deliver(const std::vector<Comer>& comers, MessageWriter writer) {
  std::vector<std::string> addresses;
  for (const Comer& comer : comers)
    if (std::find(addresses.begin(), addresses.end(), comer.process) == addresses.end())
      addresses.push_back(comer.process);
  const std::string body = writer.take();
  for (const std::string& address : addresses) {
    if (address == this_process().links.address())
      receive(address, body);
    else
      this_process().links.post(address, std::make_shared<Message>(body));
  }
}

// Why the ranks cannot make a communicator; empty if they can.
std::string contradiction(const std::string& key, const std::vector<Comer>& comers) {
  const std::string where = "ncclCommInitRank of " + name_of_key(key) + ": ";
  for (size_t i = 1; i < comers.size(); ++i) {
    const Comer &a = comers[i - 1], &b = comers[i];
    if (a.rank == b.rank) return where + "rank " + std::to_string(a.rank) + " occurs twice";
    if (a.ranks != b.ranks)
      return where + "rank " + std::to_string(a.rank) + " gives " + std::to_string(a.ranks) +
             " as the number of ranks, rank " + std::to_string(b.rank) + " gives " + std::to_string(b.ranks);
  }
  return {};
}

MessageWriter refusal(const std::string& key, const Rendezvous& meeting) {
  MessageWriter writer(MessageKind::kRefused, key);
  writer << meeting.refused << meeting.why;
  return writer;
}

}  // namespace

std::string make_id_text(int number) {
  const std::string& address = this_process().links.address();
  return "communicator " + std::to_string(number) + (address.empty() ? "" : kAt + address);
}

std::string name_of_key(const std::string& key) { return key.substr(0, key.find(kAt)); }

std::string address_of_key(const std::string& key) {
  const size_t at = key.find(kAt);
  return at == std::string::npos ? std::string() : key.substr(at + 2);
}

void seek_peers(const std::shared_ptr<CommGroup>& group, int rank, const std::vector<int64_t>& payload) {
  Links& links = this_process().links;
  const std::string creator = address_of_key(group->key);
  if (creator.empty()) return;  // an id that only this process can know
  if (creator == links.address()) return rank_comes(group->key, {rank, group->size(), creator, payload});
  MessageWriter writer(MessageKind::kJoin, group->key);
  writer << rank << group->size() << payload;
  links.post(creator, std::make_shared<Message>(writer.take()));
}

void rank_comes(const std::string& key, Comer comer) {
  std::vector<Comer> told;
  MessageWriter writer(MessageKind::kRanks, key);
  {
    std::lock_guard lock(this_process().mutex);
    Rendezvous& meeting = this_process().rendezvous[key];
    std::vector<Comer>& comers = meeting.comers;
    comers.insert(std::upper_bound(comers.begin(), comers.end(), comer,
                                   [](const Comer& a, const Comer& b) { return a.rank < b.rank; }),
                  comer);
    if (meeting.refused != ncclSuccess) {
      told = {comer};
      writer = refusal(key, meeting);
    } else if (meeting.why = contradiction(key, comers); !meeting.why.empty()) {
      meeting.refused = ncclInvalidUsage;
      told = comers;
      writer = refusal(key, meeting);
    } else if (static_cast<int>(comers.size()) < comer.ranks) {
      return;
    } else {
      told = std::move(comers);
      this_process().rendezvous.erase(key);
      writer << told.size();
      for (const Comer& each : told) writer << each.process << each.payload;
    }
  }
  deliver(told, std::move(writer));
}

void rank_list_comes(CommGroup& group, MessageReader& message) {
  std::vector<std::string> addresses;
  std::vector<std::vector<int64_t>> payloads;
  for (size_t left = message.read<size_t>(); left > 0; --left) {
    addresses.push_back(message.read_text());
    payloads.push_back(message.read_list());
  }
  if (!group.forming || group.error != ncclSuccess || addresses.size() != group.processes.size()) return;
  group.forming = false;
  for (size_t r = 0; r < addresses.size(); ++r) {
    if (addresses[r] == this_process().links.address()) continue;
    group.processes[r] = addresses[r];
    this_process().links.watch(addresses[r]);
  }
  for (size_t r = 0; r < addresses.size(); ++r)
    if (!group.processes[r].empty())
      arrive_from_elsewhere(group, static_cast<int>(r), 0, "ncclCommInitRank", payloads[r]);
}

void refusal_comes(CommGroup& group, MessageReader& message) {
  const auto result = message.read<ncclResult_t>();
  const std::string why = message.read_text();
  if (!group.forming) return;
  if (result == ncclInvalidUsage) finding_list().add(FindingKind::kCollectiveMismatch, why);
  group.fail(result, why);
}

void process_is_lost_to_rendezvous(const std::string& address) {
  std::vector<std::pair<std::string, Rendezvous>> broken;
  {
    std::lock_guard lock(this_process().mutex);
    for (auto& [key, meeting] : this_process().rendezvous) {
      const auto lost = std::find_if(meeting.comers.begin(), meeting.comers.end(),
                                     [&](const Comer& comer) { return comer.process == address; });
      if (lost == meeting.comers.end() || meeting.refused != ncclSuccess) continue;
      meeting.refused = ncclRemoteError;
      meeting.why = "ncclCommInitRank of " + name_of_key(key) + ": the process of rank " +
                    std::to_string(lost->rank) + " has ended";
      broken.emplace_back(key, meeting);
    }
  }
  for (const auto& [key, meeting] : broken) deliver(meeting.comers, refusal(key, meeting));
}

}  // namespace braid::emulated
