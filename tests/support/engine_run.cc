#include "tests/support/engine_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "ir/interpreter.h"
#include "ir/interpreter_kernels.h"

namespace braid::test {
namespace {

using ir::CollectiveKind;

rt::CollectiveKind runtime_kind(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return rt::CollectiveKind::all_reduce;
    case CollectiveKind::all_gather:
      return rt::CollectiveKind::all_gather;
    case CollectiveKind::reduce_scatter:
      return rt::CollectiveKind::reduce_scatter;
    case CollectiveKind::broadcast:
      return rt::CollectiveKind::broadcast;
    case CollectiveKind::all_to_all:
      return rt::CollectiveKind::all_to_all;
    case CollectiveKind::send:
      return rt::CollectiveKind::send;
    case CollectiveKind::recv:
      return rt::CollectiveKind::recv;
  }
  return rt::CollectiveKind::barrier;
}

rt::ReduceOp runtime_op(ir::ReduceKind kind) {
  switch (kind) {
    case ir::ReduceKind::sum:
      return rt::ReduceOp::sum;
    case ir::ReduceKind::prod:
      return rt::ReduceOp::prod;
    case ir::ReduceKind::max:
      return rt::ReduceOp::max;
    case ir::ReduceKind::min:
      return rt::ReduceOp::min;
    case ir::ReduceKind::avg:
      return rt::ReduceOp::avg;
  }
  return rt::ReduceOp::sum;
}

rt::DType runtime_type(ir::DType dtype) {
  for (int k = 0; k < rt::kDTypeCount; ++k) {
    if (ir::to_string(dtype) == rt::to_string(static_cast<rt::DType>(k))) return static_cast<rt::DType>(k);
  }
  throw std::runtime_error("a type that the runtime does not have");
}

void require(const rt::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

class EngineRank {
 public:
  EngineRank(const ir::Schedule& schedule, std::span<const ir::Tensor> inputs, rt::World& world,
             const EngineRun& options)
      : schedule_(schedule),
        graph_(schedule.graph),
        inputs_(inputs),
        world_(world),
        options_(options),
        faulty_(options.fault != PlantedFault::none && options.faulty_rank == world.rank()),
        random_(options.delays * 1000 + static_cast<std::uint64_t>(world.rank())) {
    for (const ir::CommGroup& group : graph_.groups) {
      groups_.push_back(nullptr);
      if (const std::vector<int>* part = group.part_of(world.rank()))
        require(world.group(*part, group.name, &groups_.back()));
    }
  }

  void step() {
    // Poisoned again: after the releases of the step before, no rank reads this rank's segment.
    memory_ = std::make_unique<ir::RankMemory>(schedule_, world_.rank(), ir::bind_dims(graph_, inputs_), true,
                                               world_.segment());
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      memory_->write(memory_->view(graph_.inputs[k].buffer), inputs_[k].bytes, "input");
    seen_ = 0;
    for (std::size_t at = 0; at < schedule_.nodes.size(); ++at) {
      memory_->begin_step(static_cast<int>(at));
      for (ir::OpId op : ir::ops_of(schedule_.nodes[at])) {
        pause();
        execute(op);
      }
      memory_->step_done(static_cast<int>(at));
    }
  }

  std::vector<ir::Tensor> outputs() {
    std::vector<ir::Tensor> out;
    for (const ir::GraphOutput& o : graph_.outputs) {
      const ir::ByteView v = memory_->view(o.buffer);
      out.push_back({v.dtype, v.sizes, memory_->read(v, o.name)});
    }
    return out;
  }

 private:
  struct Started {
    rt::Communicator* group = nullptr;  // null: this rank takes no part
    std::vector<rt::Ticket> tickets;    // of each operand
    std::vector<ir::ByteView> outputs;
    std::vector<std::vector<std::byte>> wrong;  // what a planted fault reads instead
    int number = 0;
  };

  void pause() {
    if (options_.delays == 0) return;
    const auto roll = random_() % 32;
    if (roll == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 100));
    if (roll == 1) std::this_thread::yield();
  }
  // Ranks whose peer forgets its waits take their time before they start a collective, those whose peer
  // forgets its releases before they complete one: only a peer that is ahead can do harm, and nothing else
  // makes it so.
  void linger_for(PlantedFault fault) const {
    if (options_.fault == fault && !faulty_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  bool planted(PlantedFault fault, int number) const {
    return faulty_ && options_.fault == fault && (options_.which < 0 || options_.which == number);
  }

  void execute(ir::OpId id) {
    const ir::Operation& op = graph_[id];
    if (const auto* k = op.as<ir::Loops>()) return run_kernel(*memory_, op, *k);
    if (const auto* k = op.as<ir::Gemm>()) return run_kernel(*memory_, op, *k);
    if (const auto* k = op.as<ir::CollectiveKernel>()) return start(id, op, *k);
    if (const auto* k = op.as<ir::WaitKernel>()) return wait(k->start);
    if (const auto* k = op.as<ir::ReleaseKernel>()) return release(k->start);
    throw std::runtime_error("'" + op.name + "' is not run by this test");
  }

  // All elements, for the plan's sake.
  void touch(const ir::ByteView& v, bool write, const std::string& who) const {
    for (std::int64_t k = 0; k < v.numel(); ++k) v.touch(v.offset + k * ir::size_of(v.dtype), write, who);
  }

  void start(ir::OpId id, const ir::Operation& op, const ir::CollectiveKernel& k) {
    Started& s = started_[id];
    s = {};
    rt::Communicator* group = groups_[static_cast<std::size_t>(k.group.index)];
    const bool message = k.kind == CollectiveKind::send || k.kind == CollectiveKind::recv;
    if (group == nullptr || (message && group->index() == k.root)) return;
    s.group = group;
    s.number = seen_++;
    linger_for(PlantedFault::missing_wait);
    for (std::size_t i = 0; i < std::max(k.inputs.size(), k.outputs.size()); ++i) {
      std::optional<ir::ByteView> in, out;
      if (i < k.inputs.size()) in = memory_->view(k.inputs[i]);
      if (i < k.outputs.size()) out = memory_->view(k.outputs[i]);
      if (in) touch(*in, false, op.name);
      if (out) s.outputs.push_back(*out);
      rt::CollectiveCall call;
      call.kind = runtime_kind(k.kind);
      call.dtype = runtime_type((in ? in : out)->dtype);
      call.op = runtime_op(k.reduce);
      call.algorithm = k.algorithm == ir::Algorithm::one_shot   ? rt::Algorithm::one_shot
                       : k.algorithm == ir::Algorithm::two_shot ? rt::Algorithm::two_shot
                                                                : rt::Algorithm::automatic;
      call.peer = std::max(0, k.root);
      std::int64_t count = (in ? in : out)->numel();
      if (k.kind == CollectiveKind::reduce_scatter) count = out->numel();
      if (k.kind == CollectiveKind::all_to_all) count /= group->size();
      call.count = static_cast<std::size_t>(count);
      if (in) call.input = in->storage + in->offset;
      if (out) call.output = out->storage + out->offset;
      if (in && planted(PlantedFault::wrong_offset, s.number)) {
        std::vector<std::byte> turned = memory_->read(*in, op.name);
        std::rotate(turned.begin(),
                    turned.begin() + std::min<std::ptrdiff_t>(ir::size_of(in->dtype), std::ssize(turned)),
                    turned.end());
        s.wrong.push_back(std::move(turned));
        call.input = s.wrong.back().data();
      }
      call.label = op.name.c_str();
      rt::Ticket ticket;
      require(group->start(call, &ticket));
      s.tickets.push_back(ticket);
    }
    if (!k.blocking) return;
    wait(id);
    release(id);
  }

  void wait(ir::OpId id) {
    const Started& s = started_.at(id);
    if (s.group == nullptr) return;
    if (!planted(PlantedFault::missing_wait, s.number)) {
      linger_for(PlantedFault::missing_release);
      for (rt::Ticket t : s.tickets) require(s.group->wait(t));
    }
    for (const ir::ByteView& v : s.outputs) touch(v, true, graph_[id].name);
  }

  void release(ir::OpId id) {
    const Started& s = started_.at(id);
    if (s.group == nullptr || planted(PlantedFault::missing_release, s.number)) return;
    if (planted(PlantedFault::missing_wait, s.number)) {
      for (rt::Ticket t : s.tickets) require(s.group->wait(t));  // the engine wants it before the release
    }
    for (rt::Ticket t : s.tickets) require(s.group->release(t));
  }

  const ir::Schedule& schedule_;
  const ir::Graph& graph_;
  std::span<const ir::Tensor> inputs_;
  rt::World& world_;
  EngineRun options_;
  bool faulty_;
  std::mt19937_64 random_;
  std::unique_ptr<ir::RankMemory> memory_;  // of one step
  std::vector<rt::Communicator*> groups_;
  std::map<ir::OpId, Started> started_;
  int seen_ = 0;  // collectives of this step
};

}  // namespace

rt::WorldOptions world_for(const ir::Schedule& schedule) {
  rt::WorldOptions options;
  options.segment_bytes = static_cast<std::size_t>(schedule.plan->comm_bytes);
  options.staging_bytes = 16 * 1024;
  options.timeout_ms = 30000;
  return options;
}

std::vector<ir::Tensor> run_on_engine(const ir::Schedule& schedule, std::span<const ir::Tensor> inputs,
                                      rt::World& world, const EngineRun& options) {
  EngineRank rank(schedule, inputs, world, options);
  for (int k = 0; k < options.steps; ++k) rank.step();
  return rank.outputs();
}

}  // namespace braid::test
