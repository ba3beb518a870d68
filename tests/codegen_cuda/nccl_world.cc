#include "tests/codegen_cuda/nccl_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>

#include "runtime/emulated/nccl_api.h"
#include "tests/support/time_limit.h"

namespace braid::test {
namespace {

using rt::CollectiveKind;
using rt::Status;
using rt::StatusCode;

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", what, cudaGetErrorString(error)));
}
void check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess)
    throw std::runtime_error(fmt::format("{}: {}", what, ncclGetErrorString(result)));
}

// Returns NCCL's type for `dtype`. Types that NCCL lacks are only moved, as *scale bytes per element.
ncclDataType_t nccl_type(rt::DType dtype, std::size_t* scale) {
  *scale = 1;
  switch (dtype) {
    case rt::DType::f32:
      return ncclFloat32;
    case rt::DType::f64:
      return ncclFloat64;
    case rt::DType::f16:
      return ncclFloat16;
    case rt::DType::bf16:
      return ncclBfloat16;
    case rt::DType::i8:
      return ncclInt8;
    case rt::DType::i32:
      return ncclInt32;
    case rt::DType::i64:
      return ncclInt64;
    case rt::DType::u32:
      return ncclUint32;
    case rt::DType::u64:
      return ncclUint64;
    default:
      *scale = rt::size_of(dtype);
      return ncclUint8;
  }
}

ncclRedOp_t nccl_op(rt::ReduceOp op) {
  switch (op) {
    case rt::ReduceOp::sum:
      return ncclSum;
    case rt::ReduceOp::avg:
      return ncclAvg;
    case rt::ReduceOp::min:
      return ncclMin;
    case rt::ReduceOp::max:
      return ncclMax;
    case rt::ReduceOp::prod:
      return ncclProd;
  }
  return ncclSum;
}

class NcclWorld;

class NcclGroup final : public rt::Communicator {
 public:
  NcclGroup(NcclWorld& world, ncclComm_t comm, std::string name, std::vector<int> ranks, int me)
      : world_(world), comm_(comm), name_(std::move(name)), ranks_(std::move(ranks)), me_(me) {}
  ~NcclGroup() override { ncclCommDestroy(comm_); }

  int size() const override { return static_cast<int>(ranks_.size()); }
  int index() const override { return me_; }
  std::span<const int> members() const override { return ranks_; }
  const std::string& name() const override { return name_; }
  Status start(const rt::CollectiveCall& call, rt::Ticket* ticket) override;
  Status wait(rt::Ticket ticket) override;
  // A collective that is done on the stream has let go of this rank's memory.
  Status release(rt::Ticket ticket) override { return wait(ticket); }
  bool test(rt::Ticket) override { return false; }
  Status compare_fingerprint(uint64_t, std::string_view) override { return {}; }
  void abort(std::string_view) override {}

 private:
  struct Flight {
    cudaEvent_t done = nullptr;
    std::vector<void*> staging;
    void* host = nullptr;  // where the output goes, from the last of `staging`; null: it is there
    std::size_t bytes = 0;
  };
  void enqueue(const rt::CollectiveCall& call, const void* input, void* output);
  void* staged(Flight& flight, const void* at, std::size_t bytes, bool copy);

  NcclWorld& world_;
  ncclComm_t comm_;
  std::string name_;
  std::vector<int> ranks_;  // of this rank's part
  int me_;
  std::map<std::uint64_t, Flight> flights_;
  std::uint64_t started_ = 0;
};

class NcclWorld final : public rt::World {
 public:
  NcclWorld(int rank, const ir::Graph& graph, const ncclUniqueId& id, std::size_t segment_bytes)
      : rank_(rank), size_(graph.ranks), segment_bytes_(std::max<std::size_t>(segment_bytes, 1)) {
    check(cudaSetDevice(rank), "cudaSetDevice");
    check(ncclCommInitRank(&world_, size_, id, rank), "ncclCommInitRank");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(ncclMemAlloc(&segment_, segment_bytes_), "ncclMemAlloc");
    // The host writes it from now on, which the device does not see.
    check(cudaMemset(segment_, 0, segment_bytes_), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (const ir::CommGroup& group : graph.groups) {
      int color = NCCL_SPLIT_NOCOLOR, me = 0;
      std::vector<int> ranks;
      for (std::size_t k = 0; k < group.parts.size(); ++k) {
        const auto at = std::find(group.parts[k].begin(), group.parts[k].end(), rank);
        if (at == group.parts[k].end()) continue;
        color = static_cast<int>(k);
        ranks = group.parts[k];
        me = static_cast<int>(at - group.parts[k].begin());
      }
      ncclComm_t comm = nullptr;
      check(ncclCommSplit(world_, color, me, &comm, nullptr), "ncclCommSplit");
      if (!ranks.empty())
        groups_.push_back(std::make_unique<NcclGroup>(*this, comm, group.name, std::move(ranks), me));
    }
  }
  ~NcclWorld() override {
    cudaStreamSynchronize(stream_);
    groups_.clear();
    ncclCommDestroy(world_);
    ncclMemFree(segment_);
    cudaStreamDestroy(stream_);
    cudaStreamDestroy(copies_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::byte* segment() const override { return static_cast<std::byte*>(segment_); }
  size_t segment_bytes() const override { return segment_bytes_; }
  Status group(std::span<const int> ranks, std::string_view name, rt::Communicator** out) override {
    for (const auto& g : groups_) {
      if (g->name() == name &&
          std::equal(ranks.begin(), ranks.end(), g->members().begin(), g->members().end())) {
        *out = g.get();
        return {};
      }
    }
    return Status::error(StatusCode::invalid_argument, fmt::format("no group '{}'", name));
  }
  Status last_error() const override { return {}; }
  void abort(std::string_view) override { ncclCommAbort(world_); }

  cudaStream_t stream() const { return stream_; }
  cudaStream_t copies() const { return copies_; }  // of results, which need not wait for later collectives
  bool holds(const void* at) const {
    const auto* p = static_cast<const std::byte*>(at);
    return p >= segment() && p < segment() + segment_bytes_;
  }

 private:
  int rank_, size_;
  std::size_t segment_bytes_;
  void* segment_ = nullptr;
  ncclComm_t world_ = nullptr;
  cudaStream_t stream_ = nullptr, copies_ = nullptr;
  std::vector<std::unique_ptr<NcclGroup>> groups_;
};

// Arena memory is the host's: it is copied to the device and back.
void* NcclGroup::staged(Flight& flight, const void* at, std::size_t bytes, bool copy) {
  void* device = nullptr;
  check(cudaMalloc(&device, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  flight.staging.push_back(device);
  if (copy) {
    check(cudaMemcpyAsync(device, at, bytes, cudaMemcpyHostToDevice, world_.stream()), "cudaMemcpyAsync");
  }
  return device;
}

Status NcclGroup::start(const rt::CollectiveCall& call, rt::Ticket* ticket) {
  const std::size_t n = ranks_.size(), each = call.count * rt::size_of(call.dtype);
  const bool deals = call.kind == CollectiveKind::all_to_all;
  const std::size_t in = call.kind == CollectiveKind::reduce_scatter || deals ? each * n : each;
  const std::size_t out = call.kind == CollectiveKind::all_gather || deals ? each * n : each;
  try {
    Flight flight;
    const void* input = call.input;
    void* output = call.output;
    if (input != nullptr && !world_.holds(input)) input = staged(flight, input, in, true);
    if (output != nullptr && !world_.holds(output)) {
      output = output == call.input ? const_cast<void*>(input) : staged(flight, nullptr, out, false);
      flight.host = call.output;
      flight.bytes = out;
    }
    enqueue(call, input, output);
    check(cudaEventCreateWithFlags(&flight.done, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    check(cudaEventRecord(flight.done, world_.stream()), "cudaEventRecord");
    *ticket = {++started_};
    flights_.emplace(started_, std::move(flight));
    return {};
  } catch (const std::exception& e) {
    return Status::error(StatusCode::system, e.what());
  }
}

void NcclGroup::enqueue(const rt::CollectiveCall& call, const void* input, void* output) {
  std::size_t scale = 1;
  const ncclDataType_t type = nccl_type(call.dtype, &scale);
  const std::size_t count = call.count * scale;
  const ncclRedOp_t op = nccl_op(call.op);
  const cudaStream_t stream = world_.stream();
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      return check(ncclAllReduce(input, output, count, type, op, comm_, stream), "ncclAllReduce");
    case CollectiveKind::all_gather:
      return check(ncclAllGather(input, output, count, type, comm_, stream), "ncclAllGather");
    case CollectiveKind::reduce_scatter:
      return check(ncclReduceScatter(input, output, count, type, op, comm_, stream), "ncclReduceScatter");
    case CollectiveKind::broadcast:
      return check(ncclBroadcast(input, output, count, type, call.peer, comm_, stream), "ncclBroadcast");
    case CollectiveKind::all_to_all: {
      check(ncclGroupStart(), "ncclGroupStart");
      const std::size_t slab = call.count * rt::size_of(call.dtype);
      for (int peer = 0; peer < size(); ++peer) {
        const std::size_t at = slab * static_cast<std::size_t>(peer);
        check(ncclSend(static_cast<const char*>(input) + at, count, type, peer, comm_, stream), "ncclSend");
        check(ncclRecv(static_cast<char*>(output) + at, count, type, peer, comm_, stream), "ncclRecv");
      }
      return check(ncclGroupEnd(), "ncclGroupEnd");
    }
    case CollectiveKind::send:
      return check(ncclSend(input, count, type, call.peer, comm_, stream), "ncclSend");
    case CollectiveKind::recv:
      return check(ncclRecv(output, count, type, call.peer, comm_, stream), "ncclRecv");
    case CollectiveKind::barrier:
      return;
  }
}

Status NcclGroup::wait(rt::Ticket ticket) {
  const auto at = flights_.find(ticket.value);
  if (at == flights_.end()) return {};
  Flight flight = std::move(at->second);
  flights_.erase(at);
  try {
    check(cudaEventSynchronize(flight.done), "cudaEventSynchronize");
    check(cudaEventDestroy(flight.done), "cudaEventDestroy");
    if (flight.host != nullptr) {
      check(cudaMemcpyAsync(flight.host, flight.staging.back(), flight.bytes, cudaMemcpyDeviceToHost,
                            world_.copies()),
            "cudaMemcpyAsync");
      check(cudaStreamSynchronize(world_.copies()), "cudaStreamSynchronize");
    }
    for (void* p : flight.staging) check(cudaFree(p), "cudaFree");
    return {};
  } catch (const std::exception& e) {
    return Status::error(StatusCode::system, e.what());
  }
}

}  // namespace

std::string run_on_nccl(const ir::Graph& graph, std::size_t segment_bytes,
                        const std::function<void(rt::World&)>& rank) {
  const TimeLimit limit;
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  std::vector<std::string> errors(static_cast<std::size_t>(graph.ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < graph.ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        NcclWorld world(r, graph, id, segment_bytes);
        rank(world);
      } catch (const std::exception& e) {
        errors[static_cast<std::size_t>(r)] = fmt::format("rank {}: {}\n", r, e.what());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::string all;
  for (const std::string& e : errors) all += e;
  return all;
}

}  // namespace braid::test
