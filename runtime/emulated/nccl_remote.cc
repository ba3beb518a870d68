#include "runtime/emulated/nccl_remote.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/emulated/nccl_process.h"

namespace braid::emulated {
namespace {

std::atomic<Process*> process{nullptr};
std::mutex process_mutex;

void lose(const std::string& address) {
  process_is_lost_to_rendezvous(address);
  std::vector<std::shared_ptr<CommGroup>> groups;
  {
    std::lock_guard lock(this_process().mutex);
    for (const auto& [key, group] : this_process().groups) groups.push_back(group);
  }
  for (const auto& group : groups) {
    std::lock_guard lock(group->mutex);
    if (group->forming && address_of_key(group->key) == address)
      group->fail(ncclRemoteError, "ncclCommInitRank of " + group->name +
                                       ": the process that made its ncclUniqueId has ended or is not there");
    for (int rank = 0; rank < group->size(); ++rank) {
      const size_t r = static_cast<size_t>(rank);
      if (group->processes[r] != address || group->left[r]) continue;
      group->left[r] = true;
      if (group->gone[r].empty()) group->gone[r] = kLost;
      if (group->lost_text.empty())
        group->lost_text = "the process of " + group->rank_text(rank) + " of " + group->name + " has ended";
    }
    group->changed.notify_all();
  }
}

// A child of fork has none of the threads, and must not keep connections open that end with its parent.
void before_fork() {
  process_mutex.lock();
  if (process != nullptr) process.load()->links.lock();
}
void in_parent() {
  if (process != nullptr) process.load()->links.unlock();
  process_mutex.unlock();
}
void in_child() {
  if (Process* const inherited = process.exchange(nullptr)) inherited->links.close_all();
  process_mutex.unlock();
}

Told tell(const std::vector<std::string>& addresses, MessageWriter& writer) {
  const auto message = std::make_shared<Message>(writer.take());
  for (const std::string& address : addresses) this_process().links.post(address, message);
  return message;
}

// The other processes, each once.
std::vector<std::string> others(const CommGroup& group) {
  std::vector<std::string> list;
  for (const std::string& address : group.processes)
    if (!address.empty() && std::find(list.begin(), list.end(), address) == list.end())
      list.push_back(address);
  return list;
}

std::vector<std::string> concerned(const CommGroup& group, const CollectiveCall& call) {
  if (!row_of(call.kind).transfer()) return others(group);
  const std::string& peer = group.processes[static_cast<size_t>(call.root)];
  return peer.empty() ? std::vector<std::string>{} : std::vector{peer};
}

void write_call(MessageWriter& writer, int rank, const CollectiveCall& call, uint64_t number) {
  writer << rank << number << call.kind << call.send << call.recv << call.count << call.type << call.op
         << call.root << call.label << call.captured << call.send_offset << call.recv_offset;
}

CollectiveCall read_call(MessageReader& message) {
  CollectiveCall call{message.read<CollectiveKind>()};
  call.send = message.read<const void*>();
  call.recv = message.read<void*>();
  call.count = message.read<size_t>();
  call.type = message.read<ncclDataType_t>();
  call.op = message.read<ncclRedOp_t>();
  call.root = message.read<int>();
  call.label = message.read_text();
  call.captured = message.read<bool>();
  call.send_offset = message.read<int64_t>();
  call.recv_offset = message.read<int64_t>();
  return call;
}

void fail(CommGroup& group, ncclResult_t result, const std::string& text,
          std::optional<FindingKind> finding) {
  if (finding && group.error == ncclSuccess) finding_list().add(*finding, text);
  group.fail(result, text);
}

// With the group's mutex held.
void obey(CommGroup& group, MessageReader& message, MessageKind kind) {
  if (kind == MessageKind::kRanks) return rank_list_comes(group, message);
  if (kind == MessageKind::kRefused) return refusal_comes(group, message);
  const int rank = message.read<int>();
  switch (kind) {
    case MessageKind::kCall:
    case MessageKind::kWithdrawal: {
      const auto number = message.read<uint64_t>();
      const CollectiveCall call = read_call(message);
      if (kind == MessageKind::kWithdrawal) return withdraw(group, rank, call, number);
      return arrive_from_elsewhere(group, rank, call, number, message.read_text());
    }
    case MessageKind::kHostCall: {
      const auto number = message.read<uint64_t>();
      std::string what = message.read_text();
      return arrive_from_elsewhere(group, rank, number, std::move(what), message.read_list());
    }
    case MessageKind::kEnd:
      group.gone[static_cast<size_t>(rank)] = message.read_text();
      group.left[static_cast<size_t>(rank)] = message.read<bool>();
      return;
    case MessageKind::kFailure: {
      const auto result = message.read<ncclResult_t>();
      const auto finding = message.read<std::optional<FindingKind>>();
      return fail(group, result, message.read_text(), finding);
    }
    default:
      return;
  }
}

// A rank that has the list of ranks already may be ahead of the list.
void handle(CommGroup& group, const std::string_view body) {
  MessageReader message(body);
  const auto kind = message.read<MessageKind>();
  message.read_text();
  std::lock_guard lock(group.mutex);
  if (group.forming && kind != MessageKind::kRanks && kind != MessageKind::kRefused) {
    group.early.emplace_back(body);
    return;
  }
  obey(group, message, kind);
  if (group.forming) return;
  for (const std::string& each : std::exchange(group.early, {})) {
    MessageReader later(each);
    const auto kind_of_later = later.read<MessageKind>();
    later.read_text();
    obey(group, later, kind_of_later);
  }
}

}  // namespace

void receive(const std::string& from, std::string_view body) {
  MessageReader message(body);
  const auto kind = message.read<MessageKind>();
  const std::string key = message.read_text();
  if (kind == MessageKind::kJoin) {
    const int rank = message.read<int>(), ranks = message.read<int>();
    return rank_comes(key, {rank, ranks, from, message.read_list()});
  }
  std::shared_ptr<CommGroup> group;
  {
    std::lock_guard lock(this_process().mutex);
    const auto at = this_process().groups.find(key);
    if (at == this_process().groups.end()) {
      this_process().early[key].emplace_back(body);
      return;
    }
    group = at->second;
  }
  handle(*group, body);
}

Process::Process() : links({receive, lose}) {}

Process& this_process() {
  if (Process* const known = process.load(std::memory_order_acquire)) return *known;
  std::lock_guard lock(process_mutex);
  static const bool once = pthread_atfork(before_fork, in_parent, in_child) == 0;
  if (process == nullptr && once) process = new Process;  // never destroyed: its thread goes on
  return *process;
}

void add_group(const std::shared_ptr<CommGroup>& group) {
  for (;;) {
    std::vector<std::string> early;
    {
      std::lock_guard lock(this_process().mutex);
      auto& list = this_process().early[group->key];
      early.swap(list);
      if (early.empty()) {
        this_process().early.erase(group->key);
        this_process().groups[group->key] = group;
        break;
      }
    }
    for (const std::string& body : early) handle(*group, body);
  }
  for (const std::string& address : others(*group)) this_process().links.watch(address);
}

Told tell_call(const CommGroup& group, int rank, const CollectiveCall& call, uint64_t number) {
  const std::vector<std::string> addresses = concerned(group, call);
  if (addresses.empty()) return nullptr;
  MessageWriter writer(MessageKind::kCall, group.key);
  write_call(writer, rank, call, number);
  writer << std::string_view(static_cast<const char*>(call.send), call.send_bytes(group.size()));
  return tell(addresses, writer);
}

void tell_withdrawal(const CommGroup& group, int rank, const CollectiveCall& call, uint64_t number) {
  const std::vector<std::string> addresses = concerned(group, call);
  if (addresses.empty()) return;
  MessageWriter writer(MessageKind::kWithdrawal, group.key);
  write_call(writer, rank, call, number);
  tell(addresses, writer);
}

Told tell_host_call(const CommGroup& group, int rank, uint64_t number, const std::string& what,
                    const std::vector<int64_t>& payload) {
  const std::vector<std::string> addresses = others(group);
  if (addresses.empty()) return nullptr;
  MessageWriter writer(MessageKind::kHostCall, group.key);
  writer << rank << number << what << payload;
  return tell(addresses, writer);
}

Told tell_end(const CommGroup& group, int rank, const std::string& gone) {
  const std::vector<std::string> addresses = others(group);
  if (addresses.empty()) return nullptr;
  MessageWriter writer(MessageKind::kEnd, group.key);
  writer << rank << gone << static_cast<bool>(group.left[static_cast<size_t>(rank)]);
  return tell(addresses, writer);
}

void fail_everywhere(CommGroup& group, ncclResult_t result, const std::string& text,
                     std::optional<FindingKind> finding) {
  fail(group, result, text, finding);
  const std::vector<std::string> addresses = others(group);
  if (addresses.empty()) return;
  MessageWriter writer(MessageKind::kFailure, group.key);
  writer << 0 << result << finding << text;
  tell(addresses, writer);
}

void await_sent(const Told& told, const std::function<bool()>& over) {
  if (told != nullptr) this_process().links.await_sent(*told, over);
}

}  // namespace braid::emulated
