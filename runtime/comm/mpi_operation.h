// One collective of the MPI engine, as a state machine: headers, transfers, reduction.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/collective_kinds.h"
#include "runtime/comm/communicator.h"

namespace braid::rt::mpi {

// The header that members exchange before data moves.
struct Header {
  uint8_t kind, dtype, op, algorithm;
  int32_t peer;
  uint64_t seq, count;
  char label[104];
};
std::string describe(const Header& header);  // "all_reduce 'node' (f32 x 4, sum)"

// The communicators of a group: headers and messages on one, collectives on the other.
struct GroupComms {
  MPI_Comm headers = MPI_COMM_NULL;
  MPI_Comm data = MPI_COMM_NULL;
};

class Operation {
 public:
  Operation(const CollectiveCall& call, uint64_t seq, const GroupComms& comms, int me, int size);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Everything below requires the World's lock.
  int begin();  // sends the header; returns MPI's error code
  enum class State : uint8_t { headers, ready, moving, done };
  State state() const { return state_; }
  // Called when its data may move, since operations move one after another. Returns MPI's error code.
  int move_data();
  int poll();  // polls once; returns MPI's error code

  // The first member whose header differs from mine; -1: none.
  int disagreeing_member() const;
  const Header& header_of(int member) const { return headers_[static_cast<size_t>(member)]; }
  const Header& mine() const { return header_; }
  std::vector<int> missing_members() const;  // whose header has not arrived
  uint64_t seq() const { return header_.seq; }
  bool paired() const { return row_of(call_.kind).point_to_point; }

 private:
  int start_transfer();
  int finish_exchange();  // of a reduction, once the slices have arrived
  size_t slice_begin(int member) const;
  size_t slice_count(int member) const { return slice_begin(member + 1) - slice_begin(member); }
  void finish();

  CollectiveCall call_;
  Header header_{};
  GroupComms comms_;
  int me_, size_;
  size_t element_;
  MPI_Datatype type_;
  State state_ = State::headers;
  bool reduced_ = false;
  std::vector<Header> headers_;
  std::vector<MPI_Request> receives_, sends_;  // headers
  std::vector<char> arrived_;
  MPI_Request transfer_ = MPI_REQUEST_NULL;
  std::vector<std::byte> input_copy_, staging_, result_;
  std::vector<int> send_counts_, send_offsets_, counts_, offsets_;
};

}  // namespace braid::rt::mpi
