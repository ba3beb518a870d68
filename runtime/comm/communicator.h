// The interface between generated code and the engines that move data between ranks.
//
// A World belongs to one rank. It owns this rank's *communication segment*: memory that peers can read, with
// a size fixed at creation, a fixed address and the same layout on all ranks. A Communicator is a group of
// ranks. A collective is a start, a wait and a release:
//
//   start    publishes my input. Does not block (except when kMaxInFlight collectives of this group are
//            unfinished). All writes of the input and all uses of the output's old contents must come before.
//   wait     returns when my output is complete. Between start and wait the program must not touch the output
//            or write the input.
//   release  returns when the peers have finished with my memory. Until then the input and output ranges
//            *inside the segment* must not be overwritten: my wait says nothing about my peers. It is free if
//            a later collective of the group has already proved that they have finished. Ranges outside the
//            segment need no release.
//
//   A start -> wait -> (use output, do not overwrite the segment ranges) -> release -> ranges are free
//
// Collectives of one communicator finish in the order in which they were started; those of different
// communicators, and send/recv of different pairs, are independent. A blocked wait also makes progress on
// everything else that this rank has started, so ranks may wait in different orders without deadlock. All
// members must start the same collectives of a communicator in the same order.
//
// A World and its communicators may be used by one thread at a time, with or without a worker (WorldOptions).
// No call throws. After an error other than invalid_argument the World is dead: every later call on every
// rank returns the first error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/comm/status.h"
#include "runtime/dtype.h"

namespace braid::rt {

enum class ReduceOp : uint8_t { sum, avg, min, max, prod };
enum class CollectiveKind : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  send,
  recv,
  barrier
};
// one_shot: every rank reads all inputs. two_shot: every rank reduces one slice for all. For all-reduce only.
enum class Algorithm : uint8_t { automatic, one_shot, two_shot };

const char* to_string(ReduceOp op);
const char* to_string(CollectiveKind kind);
const char* to_string(Algorithm algorithm);

// `count` is a number of elements. With n members:
//   all_reduce, broadcast, send, recv   input count, output count
//   all_gather                          input count, output n*count (block m comes from member m)
//   reduce_scatter                      input n*count, output count (block `index()` of the reduction)
//   all_to_all                          input n*count, output n*count (my block m goes to member m)
//   barrier                             no data
// A collective is in place if output == input or, for all_gather and reduce_scatter, if the smaller buffer is
// this member's block of the larger one. Any other overlap is invalid. Reductions are applied in member
// order, so all ranks get bitwise equal results. f16 and bf16 accumulate in float; integer sums wrap; integer
// avg accumulates in 64 bits and truncates towards zero; for bool, sum and max are or, prod and min are and,
// avg is not supported; float min and max propagate NaN.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  Algorithm algorithm = Algorithm::automatic;
  int peer = 0;  // broadcast: the root; send, recv: the other side; as an index into the group's members
  size_t count = 0;
  const void* input =
      nullptr;  // inside segment(): peers read it in place; elsewhere: it is copied through staging
  void* output = nullptr;
  const char* label = "";  // name of the ONNX node, for error messages; read during start only
};

// Identifies a started collective of one communicator.
struct Ticket {
  uint64_t value = 0;
};

// When a paced link (paced_link.h) delivered a collective, on the monotonic clock, and how long its wait
// slept until then. Both are 0 without such a link.
struct LinkTimes {
  int64_t due_ns = 0;
  int64_t slept_ns = 0;
};

class Communicator {
 public:
  static constexpr int kMaxInFlight =
      32;  // collectives started and not waited for, per group (send/recv: per pair)

  virtual ~Communicator() = default;

  virtual int size() const = 0;                      // number of members
  virtual int index() const = 0;                     // of this rank among the members
  virtual std::span<const int> members() const = 0;  // world ranks
  virtual const std::string& name() const = 0;

  virtual Status start(const CollectiveCall& call, Ticket* ticket) = 0;
  virtual Status wait(Ticket ticket) = 0;
  virtual Status release(Ticket ticket) = 0;

  // Whether the result is complete. Makes progress but does not block. An error counts as complete; wait then
  // returns it.
  virtual bool test(Ticket ticket) = 0;

  // The times of a collective after its wait; available until kMaxInFlight later ones have been started.
  virtual LinkTimes link_times(Ticket ticket) const { return (void)ticket, LinkTimes{}; }

  // start, wait and release in one call.
  Status run(const CollectiveCall& call);

  // All members call this once before the first collective: it compares a hash of what each member is going
  // to do. A difference is an error on all members that names the ranks and shows both descriptions (at most
  // 2000 characters of each).
  virtual Status compare_fingerprint(uint64_t hash, std::string_view description) = 0;

  // Ends the whole World on all ranks: every blocked and later call returns `aborted` with this reason.
  virtual void abort(std::string_view reason) = 0;
};

class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // This rank's communication segment: 4096-byte aligned, zeroed, owned by the World.
  virtual std::byte* segment() const = 0;
  virtual size_t segment_bytes() const = 0;

  // The communicator of `ranks` (distinct world ranks in member order), owned by the World. Every member
  // calls it at set-up with the same list and name; calls with equal list and name are matched by their
  // order. *out is null for a rank that is not in the list (which need not call). Does not block.
  virtual Status group(std::span<const int> ranks, std::string_view name, Communicator** out) = 0;

  // The first error of this World other than invalid_argument; ok if there was none.
  virtual Status last_error() const = 0;
  virtual void abort(std::string_view reason) = 0;

  // Bytes that this rank has copied only because of where buffers lay: inputs outside its segment that the
  // engine staged and, in programs compiled with checks, loops that only copy into or out of communication
  // buffers.
  uint64_t copied_bytes() const { return copied_bytes_ + staged_bytes(); }
  void count_copied(uint64_t bytes) { copied_bytes_ += bytes; }

 protected:
  virtual uint64_t staged_bytes() const { return 0; }

 private:
  uint64_t copied_bytes_ = 0;
};

// Whether a separate thread continues a rank's collectives while the rank computes. automatic:
// BRAID_COMM_WORKER (on, off, auto) decides, otherwise on if there are more cores than compute threads.
// Shared memory only.
enum class CommWorker : uint8_t { automatic, on, off };

struct WorldOptions {
  size_t segment_bytes = 0;
  size_t staging_bytes =
      512 * 1024;  // per group and member; collectives that are larger go through it in chunks
  // Peers read large data directly from ordinary memory if the system permits (process_vm_readv); a wait then
  // also waits for the readers. Otherwise, or if false, it goes through staging.
  bool peer_reads = true;
  CommWorker worker = CommWorker::automatic;
  int compute_threads = 0;  // per rank; 0: unknown, no automatic worker
  int64_t timeout_ms = 0;   // longest wait for a peer; 0: BRAID_TIMEOUT_MS, else 30 s
};

}  // namespace braid::rt
