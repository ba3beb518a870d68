// This process among those with which it shares communicators.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/emulated/nccl_comm.h"
#include "runtime/emulated/nccl_links.h"
#include "runtime/emulated/nccl_messages.h"

namespace braid::emulated {

// A rank that has come to the process that made the communicator's id.
struct Comer {
  int rank = 0, ranks = 0;
  std::string process;  // its address
  std::vector<int64_t> payload;
};

struct Rendezvous {
  std::vector<Comer> comers;
  ncclResult_t refused = ncclSuccess;
  std::string why;
};

struct Process {
  Process();

  std::mutex mutex;  // the rest, but not `links`; before no other but those of the links
  std::map<std::string, std::shared_ptr<CommGroup>> groups;  // by key
  // Messages for groups that are not here yet: a split may be complete in other processes first.
  std::map<std::string, std::vector<std::string>> early;
  std::map<std::string, Rendezvous> rendezvous;  // by key, of ids made here
  Links links;
};

// Made at the first use in each process, also after fork.
Process& this_process();

// Where ranks meet.
void receive(const std::string& from, std::string_view body);
std::string address_of_key(const std::string& key);  // of the process that made it; empty: unknown
void rank_comes(const std::string& key, Comer comer);
// With the group's mutex held.
void rank_list_comes(CommGroup& group, MessageReader& message);
void refusal_comes(CommGroup& group, MessageReader& message);
void process_is_lost_to_rendezvous(const std::string& address);

}  // namespace braid::emulated
