// World and Communicator of the MPI engine. All MPI calls are made with the World's lock held.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/mpi_operation.h"

namespace braid::rt::mpi {

class MpiWorld;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MpiWorld& world, std::vector<int> members, int me, std::string name, GroupComms comms);
  ~MpiCommunicator() override;

  int size() const override { return static_cast<int>(members_.size()); }
  int index() const override { return me_; }
  std::span<const int> members() const override { return members_; }
  const std::string& name() const override { return name_; }

  Status start(const CollectiveCall& call, Ticket* ticket) override;
  Status wait(Ticket ticket) override;
  Status release(Ticket ticket) override;
  bool test(Ticket ticket) override;
  Status compare_fingerprint(uint64_t hash, std::string_view description) override;
  void abort(std::string_view reason) override;

  bool progress();  // with the lock; true while anything is unfinished
  void free();      // the communicators, once nothing is in flight anywhere

 private:
  // A sequence of ordered operations: all collectives of the group, sends to a member, or receives from it.
  struct Stream {
    uint64_t next = 0;                                       // number of the next operation
    std::map<uint64_t, std::unique_ptr<Operation>> pending;  // not yet waited for
  };
  Status check(const CollectiveCall& call) const;
  Status wait_for(size_t stream, uint64_t seq);
  Operation* find(size_t stream, uint64_t seq);
  std::string describe(const Operation& op) const;
  std::string describe_missing(const Operation& op) const;

  MpiWorld& world_;
  std::vector<int> members_;
  int me_;
  std::string name_;
  GroupComms comms_;
  std::vector<Stream> streams_;  // 0; 1 + m; 1 + size + m
};

class MpiWorld final : public World {
 public:
  MpiWorld(const WorldOptions& options, int64_t timeout_ms);
  ~MpiWorld() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::byte* segment() const override { return segment_.get(); }
  size_t segment_bytes() const override { return segment_bytes_; }
  Status group(std::span<const int> ranks, std::string_view name, Communicator** out) override;
  Status last_error() const override;
  void abort(std::string_view reason) override;

  // ---- for communicators
  using Lock = std::unique_lock<std::mutex>;
  Lock lock() const { return Lock(mutex_); }
  Status fail(StatusCode code, const std::string& message);  // with the lock; tells all ranks
  bool checked(int mpi_error, const std::string& what);      // with the lock; false after an error
  bool failed() const { return !failure_.ok(); }             // with the lock
  const Status& failure() const { return failure_; }
  // Makes progress until `ready` (called with the lock) is true or the World fails. False on time-out.
  template <class Ready>
  bool block_until(Lock& held, Ready ready);
  void wake() { wake_.notify_one(); }
  int64_t timeout_ms() const { return timeout_ms_; }

 private:
  static constexpr int kAbortTag = 1;
  static constexpr int kAbortBytes = 1024;
  struct Free {
    void operator()(std::byte* p) const;
  };
  bool progress();
  void hear_aborts();
  Status meet(const std::vector<int>& members, std::string_view name, int tag);
  void run();

  int rank_ = 0, size_ = 1;
  int64_t timeout_ms_;
  size_t segment_bytes_;
  std::unique_ptr<std::byte, Free> segment_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  MPI_Comm control_ = MPI_COMM_NULL;
  Status failure_;
  std::vector<char> abort_text_;
  std::vector<MPI_Request> aborts_;
  std::vector<std::unique_ptr<MpiCommunicator>> communicators_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace braid::rt::mpi
