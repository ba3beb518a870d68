// Communicators whose ranks are in several processes: the messages by which a process tells the others about
// its ranks, and their effects.
//
// The process that made a communicator's id finds out where its ranks are: each rank contacts it first, and
// when all have come, each process gets the list (nccl_rendezvous.cc). From then on processes send messages
// directly. Ranks that are all in one process exchange no message.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/emulated/nccl_comm.h"
#include "runtime/emulated/nccl_links.h"

namespace braid::emulated {

// Null: there was no process to tell.
using Told = std::shared_ptr<Message>;

// The text of a new id, which is also the key of its communicator. The part before " @" is its name.
std::string make_id_text(int number);
std::string name_of_key(const std::string& key);

// Messages with the group's key reach it from now on, those that have come already as well.
void add_group(const std::shared_ptr<CommGroup>& group);
// A rank of this process has come to a communicator that is being made from an id. Call without the group's
// mutex.
void seek_peers(const std::shared_ptr<CommGroup>& group, int rank, const std::vector<int64_t>& payload);

// The rest with the group's mutex held.
Told tell_call(const CommGroup& group, int rank, const CollectiveCall& call, uint64_t number);
void tell_withdrawal(const CommGroup& group, int rank, const CollectiveCall& call, uint64_t number);
Told tell_host_call(const CommGroup& group, int rank, uint64_t number, const std::string& what,
                    const std::vector<int64_t>& payload);
// `gone` as in CommGroup::gone.
Told tell_end(const CommGroup& group, int rank, const std::string& gone);
// CommGroup::fail in all processes, with a finding in each.
void fail_everywhere(CommGroup& group, ncclResult_t result, const std::string& text,
                     std::optional<FindingKind> finding = std::nullopt);

// Waits until the kernel has the message, so that the process may end; or until `over`.
void await_sent(const Told& told, const std::function<bool()>& over);

}  // namespace braid::emulated
