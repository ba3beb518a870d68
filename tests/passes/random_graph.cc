#include "tests/passes/random_graph.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "ir/dependencies.h"
#include "ir/error.h"
#include "ir/fused_loops.h"
#include "tests/passes/build.h"

namespace braid::test {
namespace {

using namespace ir;

class Generator {
 public:
  Generator(std::uint64_t seed, int steps) : random_(seed), steps_(steps) {}

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
    // Inputs whose sizes name the dimensions, so that they can be bound.
    const Expr n = dims_[0], m = dims_[1];
    for (const std::vector<Expr>& sizes :
         std::vector<std::vector<Expr>>{{n, 4}, {m, 4}, {n, m}, {4, 4}, {n, m, 2}, {4}}) {
      inputs_.push_back(
          b_.input("x" + std::to_string(inputs_.size()), sizes, pick(6) == 0 ? DType::i32 : DType::f32));
      add(inputs_.back());
    }
    ids_ = b_.input("ids", {4}, DType::i64);
    inputs_.push_back(ids_);
    for (int k = 0; k < steps_; ++k) step();
    while (!flights_.empty()) advance_flight(0);
    results();
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

  std::mt19937_64 random_;
  int steps_;
  Builder b_;
  std::vector<Expr> dims_;
  std::map<std::string, std::int64_t> actual_;
  std::vector<GroupId> groups_;
  std::vector<BufferId> inputs_;
  BufferId ids_;
  std::vector<BufferId> ready_;      // may be read
  std::multiset<StorageId> pinned_;  // must not be written: a collective reads or writes them
  std::vector<Flight> flights_;

  Graph& graph() { return b_.graph; }
  ExprPool& pool() { return *graph().pool; }
  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  Expr i(std::size_t k) { return pool().index(static_cast<int>(k)); }
  static Expr zero() { return Expr(std::int64_t{0}); }

  void add_dim(const std::string& name, std::int64_t min, std::int64_t max) {
    dims_.push_back(graph().add_dim(name, {min, max}));
    actual_[name] = min + pick(static_cast<int>(max - min + 1));
  }
  void add(BufferId b) { ready_.push_back(b); }
  BufferId any() {
    // Recent results more often, so that chains arise.
    const int n = static_cast<int>(ready_.size());
    const int k = pick(2) == 0 ? n - 1 - pick(std::min(n, 4)) : pick(n);
    return ready_[static_cast<std::size_t>(k)];
  }
  DType random_dtype() {
    const int k = pick(10);
    return k == 0 ? DType::i32 : k == 1 ? DType::f64 : k == 2 ? DType::bf16 : DType::f32;
  }
  BufferId fresh(std::vector<Expr> sizes, DType dtype) { return b_.activation("t", std::move(sizes), dtype); }

  Expr flat(const std::vector<Expr>& index, const std::vector<Expr>& strides) {
    Expr e = zero();
    for (std::size_t k = 0; k < index.size(); ++k) e = e + index[k] * strides[k];
    return e;
  }

  // A load of `from` at a loop over `sizes`: at its own index, reshaped, broadcast, permuted, reversed,
  // gathered.
  std::optional<ValueId> load(BodyBuilder& body, BufferId from, const std::vector<Expr>& sizes) {
    const std::vector<Expr> have = graph()[from].sizes, strides = strides_of(graph(), from);
    const DType dtype = graph()[from].dtype;
    std::vector<Expr> at(have.size(), zero());
    if (have == sizes && pick(8) != 0) {
      for (std::size_t k = 0; k < have.size(); ++k) at[k] = i(k);
    } else if (!(have == sizes) && numel(have) == numel(sizes) && is_contiguous(have, strides)) {
      const Expr e = simplify(flat(indices(sizes.size()), contiguous_strides(sizes)), sizes);
      return body.load(from, dtype, e);
    } else {
      // Dimension by dimension: an index of that extent where there is one, in any order; else one element,
      // or a gather.
      for (std::size_t k = 0; k < have.size(); ++k) {
        std::vector<std::size_t> fitting;
        for (std::size_t d = 0; d < sizes.size(); ++d) {
          if (sizes[d] == have[k]) fitting.push_back(d);
        }
        if (!fitting.empty() && pick(6) != 0) {
          const Expr index = i(fitting[static_cast<std::size_t>(pick(static_cast<int>(fitting.size())))]);
          at[k] = pick(6) == 0 ? have[k] - 1 - index : index;
        } else if (have[k].is_constant() && have[k].constant() >= 4 && pick(2) == 0) {
          const ValueId id = body.load(ids_, DType::i64, Expr(std::int64_t{pick(4)}));
          at[k] = body.as_index(body.check_index(id, have[k]));
        }
      }
    }
    return body.load(from, dtype, simplify(flat(at, strides), sizes));
  }
  std::vector<Expr> indices(std::size_t n) {
    std::vector<Expr> out;
    for (std::size_t k = 0; k < n; ++k) out.push_back(i(k));
    return out;
  }

  // Small results whatever comes in: the interpreter computes exactly, and so stays exact.
  ValueId combine(BodyBuilder& body, std::vector<ValueId> values, DType dtype) {
    ValueId v = body.cast(values[0], dtype);
    for (std::size_t k = 1; k < values.size(); ++k) {
      constexpr OpCode codes[] = {OpCode::add, OpCode::sub, OpCode::max, OpCode::min};
      v = body.binary(codes[pick(4)], v, body.cast(values[k], dtype));
    }
    const int last = pick(5);
    if (last == 0) v = body.unary(OpCode::neg, v);
    if (last == 1) v = body.binary(OpCode::max, v, body.constant_of(dtype, 0));
    return body.binary(OpCode::max, body.binary(OpCode::min, v, body.constant_of(dtype, 64)),
                       body.constant_of(dtype, -64));
  }

  void emit_loops(BufferId out, const std::vector<Expr>& sizes, int reduced, ReduceKind kind,
                  const LoopBody& body) {
    std::vector<Expr> kept(sizes.begin(), sizes.end() - reduced);
    std::vector<Expr> at = indices(kept.size());
    Expr store;
    if (kept == graph()[out].sizes) {
      store = simplify(flat(at, strides_of(graph(), out)), kept);
    } else {
      store =
          simplify(flat(at, contiguous_strides(kept)), kept);  // another factorisation of a contiguous buffer
    }
    b_.emit({"op", Loops{sizes, reduced, kind, body, store}, {out}, {}, {}});
  }

  // Sizes of a loop that fills a buffer of these sizes: the same, or with two dimensions as one.
  std::vector<Expr> factorisation(BufferId out) {
    std::vector<Expr> sizes = graph()[out].sizes;
    if (sizes.size() >= 2 && is_contiguous(sizes, strides_of(graph(), out)) && pick(4) == 0) {
      const auto k = static_cast<std::size_t>(pick(static_cast<int>(sizes.size()) - 1));
      sizes[k] = sizes[k] * sizes[k + 1];
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(k) + 1);
    }
    return sizes;
  }

  void fill(BufferId out, std::optional<BufferId> first = std::nullopt) {
    const std::vector<Expr> sizes = factorisation(out);
    BodyBuilder body(pool());
    std::vector<ValueId> values;
    if (first) values.push_back(*load(body, *first, sizes));
    for (int n = (first ? 0 : 1) + pick(3); n > 0; --n) values.push_back(*load(body, any(), sizes));
    emit_loops(out, sizes, 0, ReduceKind::sum, body.finish(combine(body, values, graph()[out].dtype)));
  }

  void pointwise() {
    const BufferId like = any();
    const BufferId out = fresh(graph()[like].sizes, random_dtype());
    fill(out, like);
    add(out);
  }

  void reduction() {
    const BufferId from = any();
    const std::vector<Expr> sizes = graph()[from].sizes;
    if (sizes.empty()) return;
    const int reduced = 1 + pick(static_cast<int>(std::min<std::size_t>(sizes.size(), 2)));
    const BufferId out = fresh({sizes.begin(), sizes.end() - reduced}, graph()[from].dtype);
    BodyBuilder body(pool());
    std::vector<ValueId> values = {*load(body, from, sizes)};
    if (pick(2) == 0) values.push_back(*load(body, any(), sizes));
    constexpr ReduceKind kinds[] = {ReduceKind::sum, ReduceKind::max, ReduceKind::min};
    emit_loops(out, sizes, reduced, kinds[pick(3)], body.finish(combine(body, values, graph()[out].dtype)));
    add(out);
  }

  void gemm() {
    std::vector<BufferId> matrices;
    for (BufferId b : ready_) {
      if (graph()[b].sizes.size() == 2 && graph()[b].dtype == DType::f32) matrices.push_back(b);
    }
    std::shuffle(matrices.begin(), matrices.end(), random_);
    for (BufferId x : matrices) {
      for (BufferId y : matrices) {
        TensorRef a = whole(graph(), x), w = whole(graph(), y);
        if (!(a.sizes[1] == w.sizes[0])) {
          std::swap(w.sizes[0], w.sizes[1]);
          std::swap(w.strides[0], w.strides[1]);
        }
        if (!(a.sizes[1] == w.sizes[0])) continue;
        const BufferId out = fresh({a.sizes[0], w.sizes[1]}, DType::f32);
        b_.emit({"gemm", Gemm{a, w, whole(graph(), out), {}}, {out}, {}, {}});
        const std::vector<Expr> sizes = graph()[out].sizes;
        if (pick(2) == 0) {  // a reader that an epilogue can take
          const BufferId next = fresh(sizes, random_dtype());
          fill(next, out);
          add(next);
        } else {
          add(out);
        }
        return;
      }
    }
  }

  // A tensor written in parts along one axis, then read as a whole.
  void concatenation() {
    const BufferId like = any();
    std::vector<Expr> part = graph()[like].sizes;
    if (part.empty()) return;
    const auto axis = static_cast<std::size_t>(pick(static_cast<int>(part.size())));
    const int parts = 2 + pick(2);
    std::vector<Expr> sizes = part;
    sizes[axis] = sizes[axis] * parts;
    const BufferId base = fresh(sizes, graph()[like].dtype);
    const std::vector<Expr> strides = contiguous_strides(sizes);
    for (int k = 0; k < parts; ++k) {
      Buffer view;
      view.name = "part";
      view.dtype = graph()[base].dtype;
      view.sizes = part;
      view.layout = NonOwningLayout{base, part[axis] * strides[axis] * k, strides};
      const BufferId b = graph().add_buffer(view);
      fill(b, like);
      if (pick(3) == 0) step_simple();
    }
    add(base);
  }

  void view() {
    const BufferId base = any();
    const std::vector<Expr> sizes = graph()[base].sizes, strides = strides_of(graph(), base);
    if (sizes.size() < 2) return;
    // One row, or the tensor with its first two dimensions exchanged.
    Buffer v;
    v.name = "view";
    v.dtype = graph()[base].dtype;
    if (pick(2) == 0) {
      v.sizes = {sizes.begin() + 1, sizes.end()};
      v.layout = NonOwningLayout{
          base, pick(2) == 0 ? zero() : (sizes[0] - 1) * strides[0], {strides.begin() + 1, strides.end()}};
    } else {
      v.sizes = sizes;
      std::vector<Expr> s = strides;
      std::swap(v.sizes[0], v.sizes[1]);
      std::swap(s[0], s[1]);
      v.layout = NonOwningLayout{base, zero(), s};
    }
    add(graph().add_buffer(v));
  }

  void forget(StorageId storage) {
    std::erase_if(ready_, [&](BufferId b) { return root_storage(graph(), b) == storage; });
  }

  void mutation() {
    BufferId of = any();
    std::optional<BufferId> reader;
    // Often what a late loop reads, and with its result: a write after a read that fusion might put into
    // one node.
    const Operation& last = graph()[b_.schedule.nodes.back().op];
    if (const auto* loops = last.as<Loops>(); loops != nullptr && pick(4) != 0) {
      for (const Instr& instr : loops->body.instrs) {
        if (instr.code == OpCode::load &&
            std::find(ready_.begin(), ready_.end(), instr.buffer) != ready_.end())
          of = instr.buffer;
      }
      if (std::find(ready_.begin(), ready_.end(), last.outputs[0]) != ready_.end()) reader = last.outputs[0];
    }
    const StorageId s = root_storage(graph(), of);
    const StorageKind kind = graph()[s].kind;
    if (kind != StorageKind::activation || pinned_.contains(s)) return;
    if (std::holds_alternative<NonOwningLayout>(graph()[unmutated(graph(), of)].layout)) return;
    const BufferId changed = graph().add_mutation(of, "");
    const std::vector<Expr> sizes = graph()[changed].sizes;
    BodyBuilder body(pool());
    // Of its own old version it reads only the element that it writes: what others held is undefined by then.
    std::vector<ValueId> values;
    if (pick(2) == 0) {
      values.push_back(body.load(of, graph()[of].dtype,
                                 simplify(flat(indices(sizes.size()), strides_of(graph(), of)), sizes)));
    }
    forget(s);
    if (ready_.empty()) {
      add(of);
      return;
    }
    if (reader && root_storage(graph(), *reader) == s) reader.reset();
    values.push_back(*load(body, reader ? *reader : any(), sizes));
    emit_loops(changed, sizes, 0, ReduceKind::sum,
               body.finish(combine(body, values, graph()[changed].dtype)));
    add(changed);
  }

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
    const auto ranks = static_cast<std::int64_t>(graph()[group].ranks.size());
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
    const bool in_place = k.kind == CollectiveKind::all_reduce || k.kind == CollectiveKind::broadcast;
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

  // Two loops in a body of their own.
  void region() {
    const BufferId from = any();
    const BufferId inner = fresh(graph()[from].sizes, DType::f32),
                   result = fresh(graph()[from].sizes, DType::f32);
    Region body;
    std::set<BufferId> operands;
    const auto take = [&] {
      const OpId op = b_.schedule.nodes.back().op;
      b_.schedule.nodes.pop_back();
      body.ops.push_back(op);
      for (const Instr& instr : graph()[op].as<Loops>()->body.instrs) {
        if (instr.code == OpCode::load && instr.buffer != inner) operands.insert(instr.buffer);
      }
    };
    fill(inner, from);
    take();
    fill(result, inner);
    take();
    body.yields = {result};
    const BufferId out = fresh(graph()[from].sizes, DType::f32);
    RegionKernel kernel;
    kernel.operands.assign(operands.begin(), operands.end());
    kernel.regions = {body};
    b_.emit({"call", kernel, {out}, {}, {}});
    add(out);
  }

  void step_simple() { pick(3) == 0 ? reduction() : pointwise(); }

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
      default:
        return pointwise();
    }
  }

  void results() {
    for (int k = 1 + pick(3); k > 0; --k) {
      const BufferId from = any();
      const BufferId y = b_.result("y", graph()[from].sizes, graph()[from].dtype);
      BodyBuilder body(pool());
      const std::vector<Expr> sizes = graph()[from].sizes;
      const ValueId v = body.load(from, graph()[from].dtype,
                                  simplify(flat(indices(sizes.size()), strides_of(graph(), from)), sizes));
      emit_loops(y, sizes, 0, ReduceKind::sum, body.finish(v));
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
          for (std::int64_t& x : v) x = pick(4);
          t = make_tensor(dtype, sizes, v);
        }
        tensors.push_back(std::move(t));
      }
    }
  }
};

}  // namespace

RandomProgram random_program(std::uint64_t seed, int steps) { return Generator(seed, steps).run(); }

bool shuffle_nodes(Schedule& schedule, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Dependencies deps = find_dependencies(schedule);
  std::vector<int> missing(static_cast<std::size_t>(deps.size())), ready, order;
  for (int k = 0; k < deps.size(); ++k) {
    std::set<int> before;
    for (const Dependency& d : deps.predecessors(k)) before.insert(d.node);
    missing[static_cast<std::size_t>(k)] = static_cast<int>(before.size());
    if (before.empty()) ready.push_back(k);
  }
  while (!ready.empty()) {
    const std::size_t at = random() % ready.size();
    const int k = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    order.push_back(k);
    std::set<int> after;
    for (const Dependency& d : deps.successors(k)) after.insert(d.node);
    for (int s : after) {
      if (--missing[static_cast<std::size_t>(s)] == 0) ready.push_back(s);
    }
  }
  internal_check(static_cast<int>(order.size()) == deps.size(), "dependencies with a cycle");
  internal_check(!deps.violation(order), "the shuffled order breaks a dependency");
  std::vector<ScheduleNode> nodes;
  for (int k : order) nodes.push_back(schedule.nodes[static_cast<std::size_t>(k)]);
  const bool changed = !std::is_sorted(order.begin(), order.end());
  schedule.nodes = std::move(nodes);
  if (changed) schedule.plan.reset();
  return changed;
}

void unroll_fused(Schedule& schedule, const std::map<std::string, std::int64_t>& dims, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph& graph = schedule.graph;
  const auto size = [&](Expr e) { return evaluate(e, [&](Expr d) { return dims.at(d.dim_name()); }); };
  for (ScheduleNode& node : schedule.nodes) {
    if (node.kind != ScheduleNode::Kind::fused) continue;
    const std::vector<OpId> ops = ops_of(node);
    const std::optional<FusedLoops> fused = analyse_fused(graph, ops);
    internal_check(fused.has_value(), "an illegal fused node");
    std::vector<std::vector<Expr>> points = {{}};
    for (const Expr& extent : fused->outer) {
      std::vector<std::vector<Expr>> longer;
      for (const std::vector<Expr>& p : points) {
        for (std::int64_t k = 0; k < size(extent); ++k) {
          longer.push_back(p);
          longer.back().push_back(Expr(k));
        }
      }
      points = std::move(longer);
    }
    std::shuffle(points.begin(), points.end(), random);
    node.kind = ScheduleNode::Kind::grouped;  // members one after the other
    node.members.clear();
    for (const std::vector<Expr>& point : points) {
      for (const FusedLoops::Member& m : fused->members) {
        Operation op = graph[m.op];
        Loops& loops = *op.as<Loops>();
        std::vector<Expr> by = point;
        for (int k = 0; k < m.inner_dims; ++k) by.push_back(graph.pool->index(k));
        for (Instr& instr : loops.body.instrs) instr.index = substitute_indices(instr.index, by);
        loops.store_index = substitute_indices(loops.store_index, by);
        loops.sizes.erase(loops.sizes.begin(),
                          loops.sizes.begin() + static_cast<std::ptrdiff_t>(point.size()));
        node.members.push_back(ScheduleNode::single(graph.add_op(std::move(op))));
      }
    }
  }
}

}  // namespace braid::test
