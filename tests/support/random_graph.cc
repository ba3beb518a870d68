#include "tests/support/random_graph.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "ir/coordinate.h"
#include "tests/support/random_loops.h"

namespace braid::test {
namespace {

using namespace ir;

class Generator : RandomLoops {
 public:
  Generator(std::uint64_t seed, int steps)
      : RandomLoops(seed), steps_(steps), ranks_random_(seed ^ 0x72616e6b73) {}

  RandomProgram run() {
    graph().ranks = 1 + pick(4);
    std::vector<int> all(static_cast<std::size_t>(graph().ranks));
    std::iota(all.begin(), all.end(), 0);
    groups_.push_back(graph().add_group("all", all));
    if (graph().ranks > 2) groups_.push_back(graph().add_group("some", {graph().ranks - 1, 0}));
    if (pick(2) == 0) {
      b_.schedule.channels = ChannelPolicy::communicator;
    }
    add_dim("n", 1, 5);
    add_dim("m", 1, 4);
    add_dim("z", 0, 2);
    // Inputs whose sizes name the dimensions, so that they can be bound.
    const Expr n = dims_[0], m = dims_[1], z = dims_[2];
    for (const std::vector<Expr>& sizes : std::vector<std::vector<Expr>>{
             {n, 4}, {m, 4}, {n, m}, {4, 4}, {n, m, 2}, {4}, {n, z}, {z, 4}, {1, z, 1}}) {
      const int type = pick(12);
      inputs_.push_back(b_.input("x" + std::to_string(inputs_.size()), sizes,
                                 type == 0   ? DType::i32
                                 : type == 1 ? DType::i64
                                             : DType::f32));
      add(inputs_.back());
    }
    ids_ = b_.input("ids", {4}, DType::i64);
    inputs_.push_back(ids_);
    for (int k = 0; k < steps_; ++k) step();
    while (!flights_.empty()) advance_flight(0);
    results();
    turn_by_rank();
    group_some();
    RandomProgram out{std::move(b_.schedule), actual_, {}};
    make_inputs(out);
    return out;
  }

 private:
  struct Flight {
    OpId start;
    int phase = 0;  // 0: started, 1: waited for
    std::vector<BufferId> inputs, outputs;
  };

  int steps_;
  std::mt19937_64 ranks_random_;  // of its own, so that the other choices are those without coordinates
  std::vector<GroupId> groups_;
  std::vector<BufferId> inputs_;
  std::vector<Flight> flights_;

  BufferId comm_buffer(std::vector<Expr> sizes, DType dtype, GroupId group) {
    const BufferId b = graph().add_owned("c", dtype, sizes, StorageKind::comm);
    const CommBufferKind kind = pick(3) == 0 ? CommBufferKind::registered : CommBufferKind::symmetric;
    graph()[graph()[b].storage].groups = {group};
    graph()[graph()[b].storage].comm_kind = kind;
    graph()[b].layout = CommBufferLayout{contiguous_strides(sizes), kind, {group}};
    return b;
  }

  void collective() {
    const GroupId group = groups_[static_cast<std::size_t>(pick(static_cast<int>(groups_.size())))];
    const auto ranks = static_cast<std::int64_t>(graph()[group].size());
    const bool everyone = ranks == graph().ranks;
    const BufferId from = any();
    const std::vector<Expr> sizes = graph()[from].sizes;
    const DType dtype = graph()[from].dtype;
    if (dtype == DType::bf16) return;
    CollectiveKernel k;
    k.group = group;
    k.reduce = pick(3) == 0 ? ReduceKind::max : ReduceKind::sum;
    // Ranks outside of the group keep what they had; only collectives in place leave them something defined.
    k.kind = everyone       ? static_cast<CollectiveKind>(pick(5))
             : pick(2) == 0 ? CollectiveKind::all_reduce
                            : CollectiveKind::broadcast;
    std::vector<Expr> in = sizes, out = sizes;
    if (k.kind == CollectiveKind::all_gather || k.kind == CollectiveKind::reduce_scatter ||
        k.kind == CollectiveKind::all_to_all) {
      if (sizes.empty()) return;
      if (k.kind == CollectiveKind::all_gather) out[0] = out[0] * ranks;
      if (k.kind != CollectiveKind::all_gather) in[0] = in[0] * ranks;
      if (k.kind == CollectiveKind::all_to_all) out = in;
    }
    const bool in_place = (k.kind == CollectiveKind::all_reduce || k.kind == CollectiveKind::broadcast) &&
                          !(everyone && pick(2) == 0);
    if (k.kind == CollectiveKind::broadcast) k.root = pick(static_cast<int>(ranks));
    k.blocking = pick(6) == 0;
    Flight flight;
    const auto operand = [&](BufferId source) {
      fill(source);
      const BufferId started = in_place ? graph().add_mutation(source, "") : comm_buffer(out, dtype, group);
      k.inputs.push_back(whole(graph(), source));
      k.outputs.push_back(whole(graph(), started));
      flight.inputs.push_back(source);
      flight.outputs.push_back(started);
    };
    // Coalesced, or the halves of one buffer: by two collectives, or by one.
    const int form = pick(6);
    if (form == 0) {
      operand(comm_buffer(in, dtype, group));
      operand(comm_buffer(in, dtype, group));
    } else if (form <= 2 && in_place && !sizes.empty()) {
      const auto [first, second] = halves(in, dtype, group);
      operand(first);
      if (form == 1) {
        launch(k, flight);
        k.inputs.clear();
        k.outputs.clear();
        flight = {};
      }
      operand(second);
    } else {
      operand(comm_buffer(in, dtype, group));
    }
    launch(k, flight);
  }

  // Two views that together are one communication buffer.
  std::pair<BufferId, BufferId> halves(const std::vector<Expr>& part, DType dtype, GroupId group) {
    std::vector<Expr> sizes = part;
    sizes[0] = sizes[0] * 2;
    const BufferId base = comm_buffer(sizes, dtype, group);
    const std::vector<Expr> strides = contiguous_strides(sizes);
    const auto half = [&](std::int64_t k) {
      Buffer view;
      view.name = "half";
      view.dtype = dtype;
      view.sizes = part;
      view.layout = NonOwningLayout{base, part[0] * strides[0] * k, strides};
      return graph().add_buffer(view);
    };
    const BufferId first = half(0);
    return {first, half(1)};
  }

  void launch(const CollectiveKernel& k, Flight flight) {
    flight.start = b_.emit({"collective", k, flight.outputs, {}, {}});
    if (k.blocking) {
      for (BufferId b : flight.outputs) add(b);
      return;
    }
    for (const auto* buffers : {&flight.inputs, &flight.outputs}) {
      for (BufferId b : *buffers) pinned_.insert(root_storage(graph(), b));
    }
    flights_.push_back(flight);
    if (pick(2) == 0) {
      advance_flight(flights_.size() - 1);
      advance_flight(flights_.size() - 1);
    }
  }

  // Waits happen in the order of starts within a group, as every channel policy allows.
  void advance_flight(std::size_t k) {
    for (std::size_t earlier = 0; earlier < k; ++earlier) {
      if (flights_[earlier].phase == 0) {
        k = earlier;
        break;
      }
    }
    Flight& f = flights_[k];
    if (f.phase == 0) {
      for (BufferId& b : f.outputs) b = graph().add_mutation(b, "");
      b_.emit({graph()[f.start].name + ".wait", WaitKernel{f.start}, f.outputs, {}, {}});
      f.phase = 1;
      for (BufferId b : f.outputs) add(b);
      return;
    }
    b_.emit({graph()[f.start].name + ".release", ReleaseKernel{f.start}, {}, {}, {}});
    for (const auto* buffers : {&f.inputs, &f.outputs}) {
      for (BufferId b : *buffers) pinned_.erase(pinned_.find(root_storage(graph(), b)));
    }
    flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(k));
  }

  void step() {
    if (!flights_.empty() && pick(4) == 0)
      return advance_flight(static_cast<std::size_t>(pick(static_cast<int>(flights_.size()))));
    switch (pick(16)) {
      case 0:
      case 1:
      case 2:
        return reduction();
      case 3:
      case 4:
        return gemm();
      case 5:
        return concatenation();
      case 6:
        return pick(3) == 0 ? region() : view();
      case 7:
        return b_.schedule.nodes.empty() ? pointwise() : mutation();
      case 8:
      case 9:
        return collective();
      case 10:
        return copies();
      default:
        return pointwise();
    }
  }

  // Some loads read what lies further along a dimension, by the rank's coordinate and around its end.
  void turn_by_rank() {
    Graph& g = graph();
    if (g.ranks == 4 && ranks_random_() % 2 == 0)
      g.mesh = {{"a", 2}, {"b", 2}};
    else
      g.mesh = {{"a", g.ranks}};
    for (Operation& op : g.ops) {
      auto* loops = op.as<Loops>();
      // In place a loop reads where it writes.
      if (loops == nullptr || std::holds_alternative<MutationOutput>(g[op.outputs[0]].layout)) continue;
      for (Instr& instr : loops->body.instrs) {
        if (instr.code != OpCode::load || !instr.operands.empty() || ranks_random_() % 3 != 0) continue;
        const MeshAxis& axis = g.mesh[ranks_random_() % g.mesh.size()];
        const Expr by = coordinate(*g.pool, axis.name, axis.size);
        instr.index = substitute(instr.index, [&](Expr s) -> std::optional<Expr> {
          if (!s.is_symbol(SymbolKind::index)) return std::nullopt;
          const Expr size = loops->sizes[static_cast<std::size_t>(s.symbol_number())];
          return bounds(size).min < 1 ? s : mod(s + by, size);
        });
      }
    }
  }

  void group_some() {
    std::vector<ScheduleNode>& nodes = b_.schedule.nodes;
    if (nodes.size() < 4 || pick(4) != 0) return;
    const auto at = static_cast<std::size_t>(pick(static_cast<int>(nodes.size()) - 2));
    ScheduleNode group{ScheduleNode::Kind::grouped, "together", {}, {nodes[at], nodes[at + 1]}};
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(at));
    nodes[at] = group;
  }

  void make_inputs(RandomProgram& out) {
    const Graph& g = out.schedule.graph;
    for (int rank = 0; rank < g.ranks; ++rank) {
      std::vector<Tensor>& tensors = out.inputs.emplace_back();
      for (const GraphInput& input : g.inputs) {
        std::vector<std::int64_t> sizes;
        for (const Expr& s : g[input.buffer].sizes)
          sizes.push_back(evaluate(s, [&](Expr d) { return actual_.at(d.dim_name()); }));
        const DType dtype = g[input.buffer].dtype;
        Tensor t = make_tensor(dtype, sizes);
        const auto n = static_cast<std::size_t>(t.numel());
        if (dtype == DType::f32) {
          std::vector<float> v(n);
          for (float& x : v) x = static_cast<float>(pick(9) - 4);
          t = make_tensor(dtype, sizes, v);
        } else if (dtype == DType::i32) {
          std::vector<std::int32_t> v(n);
          for (std::int32_t& x : v) x = pick(9) - 4;
          t = make_tensor(dtype, sizes, v);
        } else {
          std::vector<std::int64_t> v(n);
          constexpr int kBits[] = {0, 31, 33, 53, 62};
          for (std::int64_t& x : v)
            x = input.buffer == ids_ ? pick(4) : pick(9) - 4 + (std::int64_t{pick(2)} << kBits[pick(5)]);
          t = make_tensor(dtype, sizes, v);
        }
        tensors.push_back(std::move(t));
      }
    }
  }
};

}  // namespace

RandomProgram random_program(std::uint64_t seed, int steps) { return Generator(seed, steps).run(); }

}  // namespace braid::test
