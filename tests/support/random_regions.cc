#include "tests/support/random_regions.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "ir/effects.h"
#include "tests/support/random_loops.h"

namespace braid::test {
namespace {

using namespace ir;

class Generator : RandomLoops {
 public:
  explicit Generator(std::uint64_t seed) : RandomLoops(seed) {}

  RandomProgram run() {
    graph().ranks = 1 + pick(3);
    std::vector<int> all(static_cast<std::size_t>(graph().ranks));
    std::iota(all.begin(), all.end(), 0);
    group_ = graph().add_group("all", all);
    add_dim("n", 1, 4);
    add_dim("times", 0, 3);
    const Expr n = dims_[0], times = dims_[1];
    for (const std::vector<Expr>& sizes : std::vector<std::vector<Expr>>{{n, 4}, {4, 4}, {n}})
      add(b_.input("x", sizes));
    ids_ = b_.input("ids", {4}, DType::i64);
    flag_ = b_.input("flag", {}, DType::boolean);
    b_.input("counted", {times});
    for (int k = 2 + pick(3); k > 0; --k) {
      if (pick(2) == 0) pointwise();
      region(0, true);
    }
    results();
    RandomProgram out{std::move(b_.schedule), actual_, {}};
    make_inputs(out);
    return out;
  }

 private:
  GroupId group_;
  BufferId flag_;

  void region(int depth, bool collectives) {
    const std::vector<Expr> sizes = graph()[any()].sizes;
    // The values that are carried from run to run, and the body's yields for them.
    std::vector<BufferId> carried, results;
    for (int k = 1 + pick(2); k > 0; --k) {
      carried.push_back(fresh(sizes, DType::f32));
      fill(carried.back());
    }
    RegionKernel kernel;
    const int kind = pick(6);
    kernel.kind = kind == 0   ? RegionKind::call
                  : kind == 1 ? RegionKind::branch
                  : kind == 2 ? RegionKind::while_true
                              : RegionKind::repeat;
    if (kernel.kind == RegionKind::repeat)
      kernel.trips =
          pick(2) == 0 ? dims_[static_cast<std::size_t>(pick(2))] : Expr(std::int64_t{1 + pick(3)});
    if (kernel.kind == RegionKind::branch) kernel.operands.push_back(flag_);
    const bool may_communicate = collectives && !depends_on_data(kernel.kind);
    std::optional<Counter> counter;
    if (kernel.kind == RegionKind::while_true)
      counter = Counter{scalar(DType::boolean), scalar(DType::i64), pick(4)};
    if (counter) {
      set(counter->count, {}, [](BodyBuilder& b, ValueId) { return b.constant_of(DType::i64, 0); });
      set(counter->go, {},
          [&](BodyBuilder& b, ValueId) { return b.constant_of(DType::boolean, counter->runs > 0); });
    }
    for (int k = kernel.kind == RegionKind::branch ? 2 : 1; k > 0; --k)
      kernel.regions.push_back(body(carried, depth, may_communicate));
    if (counter) {
      count_up(kernel.regions[0], *counter);
      carried.insert(carried.begin(), {counter->go, counter->count});
      kernel.operands.push_back(counter->go);
    }
    add_operands(kernel);
    std::vector<BufferId> outputs;
    for (BufferId c : carried) outputs.push_back(graph().add_mutation(c, ""));
    b_.emit({"region", kernel, outputs, {}, {}});
    for (BufferId b : outputs) {
      if (graph()[b].dtype == DType::f32) add(b);
    }
  }

  // Ends a while loop after `runs` runs.
  struct Counter {
    BufferId go, count;
    int runs = 0;
  };
  BufferId scalar(DType dtype) { return graph().add_owned("", dtype, {}); }
  // to = value(from)
  void set(BufferId to, BufferId from, const std::function<ValueId(BodyBuilder&, ValueId)>& value) {
    BodyBuilder body(pool());
    const ValueId v = from.valid() ? body.load(from, graph()[from].dtype, 0) : ValueId{};
    b_.emit({"count", Loops{{}, 0, ReduceKind::sum, body.finish(value(body, v)), 0}, {to}, {}, {}});
  }
  void count_up(Region& region, const Counter& counter) {
    auto& nodes = b_.schedule.nodes;
    const std::size_t first = nodes.size();
    const BufferId next = scalar(DType::i64), again = scalar(DType::boolean);
    set(next, counter.count,
        [](BodyBuilder& b, ValueId v) { return b.binary(OpCode::add, v, b.constant_of(DType::i64, 1)); });
    set(again, next, [&](BodyBuilder& b, ValueId v) {
      return b.binary(OpCode::lt, v, b.constant_of(DType::i64, counter.runs));
    });
    for (std::size_t k = first; k < nodes.size(); ++k) region.ops.push_back(nodes[k].op);
    nodes.resize(first);
    region.yields.insert(region.yields.begin(), {again, next});
  }

  Region body(const std::vector<BufferId>& carried, int depth, bool collectives) {
    const bool nested = std::exchange(in_region_, true);
    const std::vector<BufferId> outside = ready_;
    const std::size_t first = b_.schedule.nodes.size();
    for (BufferId c : carried) add(c);
    for (int k = 1 + pick(4); k > 0; --k) step(depth, collectives);
    Region out;
    // New values first: once a value has changed in place, its old name is not read any more.
    const bool in_place = pick(2) == 0;
    for (std::size_t k = in_place ? 1 : 0; k < carried.size(); ++k) {
      out.yields.push_back(fresh(graph()[carried[k]].sizes, DType::f32));
      fill(out.yields.back());
    }
    if (in_place) {
      const BufferId changed = graph().add_mutation(carried[0], "");
      BodyBuilder body(pool());
      const ValueId v = body.load(carried[0], DType::f32, b_.at(carried[0]));
      const ValueId doubled = body.binary(OpCode::add, v, v);
      const ValueId small = body.binary(OpCode::min, doubled, body.constant_of(DType::f32, 50));
      b_.emit({"grow",
               Loops{graph()[changed].sizes, 0, ReduceKind::sum, body.finish(small), b_.at(changed)},
               {changed},
               {},
               {}});
      out.yields.insert(out.yields.begin(), changed);
    }
    auto& nodes = b_.schedule.nodes;
    for (std::size_t k = first; k < nodes.size(); ++k) out.ops.push_back(nodes[k].op);
    nodes.resize(first);
    ready_ = outside;
    in_region_ = nested;
    return out;
  }

  void step(int depth, bool collectives) {
    switch (pick(6)) {
      case 0:
        return reduction();
      case 1:
        return product();
      case 2:
        return collectives ? collective() : pointwise();
      case 3:
        return depth < 2 ? region(depth + 1, collectives) : pointwise();
      default:
        return pointwise();
    }
  }

  // Only what is small again goes on, so that products of products stay exact.
  void product() {
    const std::size_t before = ready_.size();
    gemm();
    if (ready_.size() == before) return;
    const BufferId raw = ready_.back();
    ready_.pop_back();
    const BufferId small = fresh(graph()[raw].sizes, DType::f32);
    fill(small, raw);
    add(small);
  }

  void collective() {
    const std::vector<Expr> sizes = graph()[any()].sizes;
    const BufferId operand = b_.comm("c", sizes, group_);
    fill(operand);
    CollectiveKernel k;
    k.kind = pick(3) == 0 ? CollectiveKind::broadcast : CollectiveKind::all_reduce;
    if (k.kind == CollectiveKind::broadcast) k.root = pick(graph().ranks);
    k.group = group_;
    const BufferId started = pick(2) == 0 ? graph().add_mutation(operand, "") : b_.comm("r", sizes, group_);
    k.inputs = {whole(graph(), operand)};
    k.outputs = {whole(graph(), started)};
    k.blocking = pick(4) == 0;
    const OpId start = b_.emit({"collective", k, {started}, {}, {}});
    if (k.blocking) return add(started);
    if (pick(2) == 0) pointwise();
    const BufferId done = graph().add_mutation(started, "");
    b_.emit({"wait", WaitKernel{start}, {done}, {}, {}});
    b_.emit({"release", ReleaseKernel{start}, {}, {}, {}});
    add(done);
  }

  // Adds the operands: buffers that the bodies read and do not make.
  void add_operands(RegionKernel& kernel) {
    std::set<OpId> inside;
    for (const Region& r : kernel.regions) inside.insert(r.ops.begin(), r.ops.end());
    std::set<BufferId> read;
    for (OpId op : inside) {
      for (const Access& a : effects(graph(), op).accesses) {
        if (a.reads() && inside.count(graph()[a.buffer].producer) == 0) read.insert(a.buffer);
      }
    }
    kernel.operands.insert(kernel.operands.end(), read.begin(), read.end());
  }

  void make_inputs(RandomProgram& out) {
    const Graph& g = out.schedule.graph;
    const bool flag = pick(2) == 0;  // the same on all ranks
    for (int rank = 0; rank < g.ranks; ++rank) {
      std::vector<Tensor>& tensors = out.inputs.emplace_back();
      for (const GraphInput& input : g.inputs) {
        const Buffer& b = g[input.buffer];
        std::vector<std::int64_t> sizes;
        for (const Expr& s : b.sizes)
          sizes.push_back(evaluate(s, [&](Expr d) { return actual_.at(d.dim_name()); }));
        const auto count = static_cast<std::size_t>(make_tensor(b.dtype, sizes).numel());
        if (b.dtype == DType::f32) {
          std::vector<float> values(count);
          for (float& v : values) v = static_cast<float>(pick(9) - 4);
          tensors.push_back(make_tensor(b.dtype, sizes, values));
        } else if (b.dtype == DType::i64) {
          std::vector<std::int64_t> values(count);
          for (std::int64_t& v : values) v = pick(4);
          tensors.push_back(make_tensor(b.dtype, sizes, values));
        } else {
          tensors.push_back(make_tensor<std::uint8_t>(b.dtype, sizes, {static_cast<std::uint8_t>(flag)}));
        }
      }
    }
  }
};

}  // namespace

RandomProgram random_regions(std::uint64_t seed) { return Generator(seed).run(); }

}  // namespace braid::test
