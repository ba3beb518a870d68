#include "runtime/comm/mpi_communicator.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "runtime/comm/collective_kinds.h"
#include "runtime/comm/group_rules.h"
#include "runtime/comm/mpi_block.h"
#include "runtime/comm/reduce.h"

namespace braid::rt::mpi {

MpiCommunicator::MpiCommunicator(MpiWorld& world, std::vector<int> members, int me, std::string name,
                                 GroupComms comms)
    : world_(world), members_(std::move(members)), me_(me), name_(std::move(name)), comms_(comms) {
  streams_.resize(1 + 2 * members_.size());
}

MpiCommunicator::~MpiCommunicator() = default;

void MpiCommunicator::free() {
  MPI_Comm_free(&comms_.headers);
  MPI_Comm_free(&comms_.data);
}

Status MpiCommunicator::check(const CollectiveCall& call) const {
  const auto invalid = [&](const std::string& what) {
    return Status::error(StatusCode::invalid_argument, std::string(to_string(call.kind)) + " '" + call.label +
                                                           "' of group '" + name_ + "': " + what);
  };
  const CollectiveRow& row = row_of(call.kind);
  if (call.peer < 0 || call.peer >= size() || (row.point_to_point && call.peer == me_))
    return invalid("no other member " + std::to_string(call.peer));
  if (row.reduces && !reducible(call.dtype, call.op))
    return invalid(std::string(to_string(call.op)) + " of " + to_string(call.dtype) + " has no meaning");
  if (call.count > static_cast<size_t>(INT_MAX) / members_.size())
    return invalid("more elements than MPI counts");
  if (call.count == 0 || call.kind == CollectiveKind::barrier) return {};
  const bool reads = row.in != Blocks::none && (!row.from_root() || call.peer == me_);
  if (reads && call.input == nullptr) return invalid("null input");
  if (row.out != Blocks::none && call.output == nullptr) return invalid("null output");
  return {};
}

Status MpiCommunicator::start(const CollectiveCall& call, Ticket* ticket) {
  if (Status valid = check(call); !valid.ok()) return valid;
  size_t stream = 0;
  if (call.kind == CollectiveKind::send) stream = 1 + static_cast<size_t>(call.peer);
  if (call.kind == CollectiveKind::recv) stream = 1 + members_.size() + static_cast<size_t>(call.peer);
  Stream& s = streams_[stream];
  MpiWorld::Lock held = world_.lock();
  if (world_.failed()) return world_.failure();
  if (s.next >= kMaxInFlight) {
    const uint64_t oldest = s.next - kMaxInFlight;
    held.unlock();
    if (Status done = wait_for(stream, oldest); !done.ok()) return done;
    held.lock();
  }
  const uint64_t seq = s.next++;
  auto op = std::make_unique<Operation>(call, seq, comms_, me_, size());
  Operation& started = *op;
  s.pending.emplace(seq, std::move(op));
  ticket->value = (static_cast<uint64_t>(stream) << 32) | (seq & 0xffffffffu);
  if (!world_.checked(started.begin(), describe(started))) return world_.failure();
  progress();
  held.unlock();
  world_.wake();
  return {};
}

bool MpiCommunicator::progress() {
  bool busy = false;
  for (Stream& s : streams_) {
    // Reductions take two transfers, and MPI requires those of one communicator in one order on all ranks:
    // one collective after another.
    bool may_move = true;
    for (auto& [seq, op] : s.pending) {
      if (op->state() == Operation::State::done) continue;
      busy = true;
      if (!world_.checked(op->poll(), describe(*op))) return false;
      if (const int other = op->disagreeing_member(); other >= 0) {
        (void)world_.fail(StatusCode::disagreement, "collective " + std::to_string(seq) + " of group '" +
                                                        name_ + "' differs: rank " +
                                                        std::to_string(members_[static_cast<size_t>(me_)]) +
                                                        " calls " + mpi::describe(op->mine()) + ", rank " +
                                                        std::to_string(members_[static_cast<size_t>(other)]) +
                                                        " calls " + mpi::describe(op->header_of(other)));
        return false;
      }
      if (op->state() == Operation::State::ready && may_move &&
          !world_.checked(op->move_data(), describe(*op)))
        return false;
      may_move = may_move && op->state() == Operation::State::done;
    }
  }
  return busy;
}

Operation* MpiCommunicator::find(size_t stream, uint64_t seq) {
  if (stream >= streams_.size()) return nullptr;
  for (auto& [number, op] : streams_[stream].pending) {
    if ((number & 0xffffffffu) == (seq & 0xffffffffu)) return op.get();
  }
  return nullptr;
}

Status MpiCommunicator::wait_for(size_t stream, uint64_t seq) {
  MpiWorld::Lock held = world_.lock();
  Operation* op = find(stream, seq);
  if (world_.failed()) return world_.failure();
  if (op == nullptr) return {};  // waited for before
  const bool in_time = world_.block_until(held, [&] { return op->state() == Operation::State::done; });
  if (world_.failed()) return world_.failure();
  if (!in_time) {
    return world_.fail(StatusCode::timed_out, "timed out after " + std::to_string(world_.timeout_ms()) +
                                                  " ms in " + describe_missing(*op));
  }
  return {};
}

Status MpiCommunicator::wait(Ticket ticket) {
  const size_t stream = ticket.value >> 32;
  const uint64_t seq = ticket.value & 0xffffffffu;
  if (stream >= streams_.size() || seq >= streams_[stream].next)
    return Status::error(StatusCode::invalid_argument, "wait of a collective that was not started");
  if (Status done = wait_for(stream, seq); !done.ok()) return done;
  const MpiWorld::Lock held = world_.lock();
  if (const Operation* op = find(stream, seq)) streams_[stream].pending.erase(op->seq());
  return {};
}

Status MpiCommunicator::release(Ticket ticket) {
  const MpiWorld::Lock held = world_.lock();
  if (world_.failed()) return world_.failure();
  if (find(ticket.value >> 32, ticket.value & 0xffffffffu) != nullptr)
    return Status::error(StatusCode::invalid_argument, "release of a collective that was not waited for");
  return {};  // MPI has its own copy of what it reads
}

bool MpiCommunicator::test(Ticket ticket) {
  const MpiWorld::Lock held = world_.lock();
  if (world_.failed()) return true;
  progress();
  const Operation* op = find(ticket.value >> 32, ticket.value & 0xffffffffu);
  return op == nullptr || op->state() == Operation::State::done || world_.failed();
}

std::string MpiCommunicator::describe(const Operation& op) const {
  return mpi::describe(op.mine()) + ", collective " + std::to_string(op.seq()) + " of group '" + name_ + "'";
}

std::string MpiCommunicator::describe_missing(const Operation& op) const {
  std::string text = describe(op) + ":";
  const std::vector<int> missing = op.missing_members();
  for (size_t k = 0; k < missing.size(); ++k) {
    text += std::string(k ? ";" : "") + " rank " + std::to_string(members_[static_cast<size_t>(missing[k])]) +
            " has not started it";
  }
  return missing.empty() ? text + " all have started it, but the transfer makes no progress" : text;
}

void MpiCommunicator::abort(std::string_view reason) {
  const MpiWorld::Lock held = world_.lock();
  (void)world_.fail(StatusCode::aborted, "group '" + name_ + "': " + std::string(reason));
}

Status MpiCommunicator::compare_fingerprint(uint64_t hash, std::string_view description) {
  struct Print {
    uint64_t hash = 0;
    char text[2001] = {};
  };
  std::vector<Print> all(members_.size());
  Print mine;
  mine.hash = hash;
  std::memcpy(mine.text, description.data(), std::min(description.size(), sizeof mine.text - 1));
  const CollectiveCall gather{.kind = CollectiveKind::all_gather,
                              .dtype = DType::u8,
                              .count = sizeof(Print),
                              .input = &mine,
                              .output = all.data(),
                              .label = "fingerprint"};
  if (Status done = run(gather); !done.ok()) return done;
  std::vector<FingerprintView> prints;
  for (const Print& p : all) prints.push_back({p.hash, p.text});
  const std::string text = fingerprint_difference(name_, members_, prints);
  if (text.empty()) return {};
  const MpiWorld::Lock held = world_.lock();
  return world_.fail(StatusCode::disagreement, text);
}

}  // namespace braid::rt::mpi
