#include "runtime/comm/mpi_operation.h"

#include <algorithm>
#include <cstring>

#include "runtime/comm/reduce.h"

namespace braid::rt::mpi {
namespace {

constexpr int kHeaderTag = 1;      // of collectives
constexpr int kFromSenderTag = 2;  // headers of messages
constexpr int kToSenderTag = 3;
constexpr int kMessageTag = 4;

MPI_Datatype type_of_size(size_t bytes) {
  switch (bytes) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    default:
      return MPI_UINT64_T;
  }
}

}  // namespace

std::string describe(const Header& h) {
  const auto kind = static_cast<CollectiveKind>(h.kind);
  std::string text = std::string(to_string(kind)) + " '" + h.label + "' (" +
                     to_string(static_cast<DType>(h.dtype)) + " x " + std::to_string(h.count);
  if (row_of(kind).reduces) text += std::string(", ") + to_string(static_cast<ReduceOp>(h.op));
  if (row_of(kind).from_root()) text += ", root " + std::to_string(h.peer);
  if (h.algorithm != 0) text += h.algorithm == 1 ? ", one_shot" : ", two_shot";
  return text + ")";
}

Operation::Operation(const CollectiveCall& call, uint64_t seq, const GroupComms& comms, int me, int size)
    : call_(call),
      comms_(comms),
      me_(me),
      size_(size),
      element_(size_of(call.dtype)),
      type_(type_of_size(element_)),
      headers_(static_cast<size_t>(size)),
      receives_(static_cast<size_t>(size), MPI_REQUEST_NULL),
      sends_(static_cast<size_t>(size), MPI_REQUEST_NULL),
      arrived_(static_cast<size_t>(size), 0) {
  header_.kind = static_cast<uint8_t>(call.kind);
  header_.dtype = static_cast<uint8_t>(call.dtype);
  header_.op = row_of(call.kind).reduces ? static_cast<uint8_t>(call.op) : 0;
  header_.algorithm = static_cast<uint8_t>(call.algorithm);
  header_.peer = row_of(call.kind).rooted ? call.peer : 0;
  header_.seq = seq;
  header_.count = call.count;
  std::strncpy(header_.label, call.label, sizeof header_.label - 1);
  headers_[static_cast<size_t>(me)] = header_;
}

int Operation::begin() {
  const auto bytes = static_cast<int>(sizeof(Header));
  for (int m = 0; m < size_; ++m) {
    arrived_[static_cast<size_t>(m)] = m == me_ || (paired() && m != call_.peer);
    if (arrived_[static_cast<size_t>(m)]) continue;
    int out = kHeaderTag, in = kHeaderTag;
    if (paired()) {
      out = call_.kind == CollectiveKind::send ? kFromSenderTag : kToSenderTag;
      in = call_.kind == CollectiveKind::send ? kToSenderTag : kFromSenderTag;
    }
    if (const int e = MPI_Irecv(&headers_[static_cast<size_t>(m)], bytes, MPI_BYTE, m, in, comms_.headers,
                                &receives_[static_cast<size_t>(m)]))
      return e;
    if (const int e =
            MPI_Isend(&header_, bytes, MPI_BYTE, m, out, comms_.headers, &sends_[static_cast<size_t>(m)]))
      return e;
  }
  return poll();
}

int Operation::disagreeing_member() const {
  const auto differs = [&](const Header& h) {
    if (paired()) return h.dtype != header_.dtype || h.count != header_.count || h.seq != header_.seq;
    return std::memcmp(&h, &header_, offsetof(Header, label)) != 0;
  };
  for (int m = 0; m < size_; ++m) {
    if (m == me_ || (paired() && m != call_.peer)) continue;
    if (arrived_[static_cast<size_t>(m)] && differs(headers_[static_cast<size_t>(m)])) return m;
  }
  return -1;
}

std::vector<int> Operation::missing_members() const {
  std::vector<int> missing;
  for (int m = 0; m < size_; ++m) {
    if (!arrived_[static_cast<size_t>(m)]) missing.push_back(m);
  }
  return missing;
}

int Operation::poll() {
  int flag = 0;
  if (state_ == State::headers) {
    for (int m = 0; m < size_; ++m) {
      char& arrived = arrived_[static_cast<size_t>(m)];
      if (arrived) continue;
      if (const int e = MPI_Test(&receives_[static_cast<size_t>(m)], &flag, MPI_STATUS_IGNORE)) return e;
      arrived = flag != 0;
    }
    if (missing_members().empty() && disagreeing_member() < 0) state_ = State::ready;
    return MPI_SUCCESS;
  }
  if (state_ != State::moving) return MPI_SUCCESS;
  if (const int e = MPI_Test(&transfer_, &flag, MPI_STATUS_IGNORE)) return e;
  if (!flag) return MPI_SUCCESS;
  if (row_of(call_.kind).reduces && !reduced_) return finish_exchange();
  // The headers are in this object, which must live until they are sent.
  if (const int e = MPI_Testall(size_, sends_.data(), &flag, MPI_STATUSES_IGNORE)) return e;
  if (flag) finish();
  return MPI_SUCCESS;
}

int Operation::move_data() {
  state_ = State::moving;
  return start_transfer();
}

size_t Operation::slice_begin(int member) const {
  if (call_.kind == CollectiveKind::reduce_scatter) return call_.count * static_cast<size_t>(member);
  return call_.count * static_cast<size_t>(member) / static_cast<size_t>(size_);
}

int Operation::start_transfer() {
  const auto n = static_cast<size_t>(size_);
  const auto count = static_cast<int>(call_.count);
  const size_t bytes = call_.count * element_;
  const auto copy_input = [&](size_t input_bytes) {
    const auto* in = static_cast<const std::byte*>(call_.input);
    input_copy_.assign(in, in + input_bytes);
  };
  switch (call_.kind) {
    case CollectiveKind::barrier:
      return MPI_Ibarrier(comms_.data, &transfer_);
    case CollectiveKind::send:
      return MPI_Isend(call_.input, count, type_, call_.peer, kMessageTag, comms_.headers, &transfer_);
    case CollectiveKind::recv:
      return MPI_Irecv(call_.output, count, type_, call_.peer, kMessageTag, comms_.headers, &transfer_);
    case CollectiveKind::broadcast:
      if (me_ == call_.peer && bytes > 0 && call_.output != call_.input)
        std::memcpy(call_.output, call_.input, bytes);
      return MPI_Ibcast(call_.output, count, type_, call_.peer, comms_.data, &transfer_);
    case CollectiveKind::all_gather:
      copy_input(bytes);  // it may lie in the output
      return MPI_Iallgather(input_copy_.data(), count, type_, call_.output, count, type_, comms_.data,
                            &transfer_);
    case CollectiveKind::all_to_all:
      copy_input(bytes * n);
      return MPI_Ialltoall(input_copy_.data(), count, type_, call_.output, count, type_, comms_.data,
                           &transfer_);
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      break;
  }
  // Every rank receives its slice of all inputs and reduces it.
  const auto mine = static_cast<int>(slice_count(me_));
  for (int m = 0; m < size_; ++m) {
    send_counts_.push_back(static_cast<int>(slice_count(m)));
    send_offsets_.push_back(static_cast<int>(slice_begin(m)));
    counts_.push_back(mine);
    offsets_.push_back(m * mine);
  }
  staging_.resize(n * static_cast<size_t>(mine) * element_);
  return MPI_Ialltoallv(call_.input, send_counts_.data(), send_offsets_.data(), type_, staging_.data(),
                        counts_.data(), offsets_.data(), type_, comms_.data, &transfer_);
}

int Operation::finish_exchange() {
  reduced_ = true;
  const size_t mine = slice_count(me_);
  const bool scatter = call_.kind == CollectiveKind::reduce_scatter;
  result_.resize(scatter ? 0 : mine * element_);
  void* destination = scatter ? call_.output : result_.data();
  std::vector<const void*> sources;
  for (int m = 0; m < size_; ++m)
    sources.push_back(staging_.data() + static_cast<size_t>(m) * mine * element_);
  if (mine > 0) reduce(call_.dtype, call_.op, sources, std::span<void* const>(&destination, 1), mine, false);
  if (scatter) return poll();
  return MPI_Iallgatherv(result_.data(), static_cast<int>(mine), type_, call_.output, send_counts_.data(),
                         send_offsets_.data(), type_, comms_.data, &transfer_);
}

void Operation::finish() {
  state_ = State::done;
  input_copy_ = {};
  staging_ = {};
  result_ = {};
}

}  // namespace braid::rt::mpi
