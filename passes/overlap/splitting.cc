#include "passes/overlap/splitting.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/collective_table.h"
#include "ir/error.h"
#include "passes/compact.h"
#include "passes/visit_ids.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

// Elements of a contiguous operand: `unit` (the product of the symbolic sizes) times `count`.
struct Extent {
  Expr unit = 1;
  std::int64_t count = 1;
};
Extent extent_of(const std::vector<Expr>& sizes) {
  Extent e;
  for (const Expr& s : sizes) {
    if (s.is_constant()) {
      e.count *= s.constant();  // cannot overflow: the operand's bytes fit
    } else {
      e.unit = e.unit * s;
    }
  }
  return e;
}

// Returns the begin of piece `number`, in units. Pieces of at least 256 bytes begin at multiples of 256 bytes
// from the tensor's first element.
std::int64_t begin_of(const Extent& e, std::int64_t number, std::int64_t of, std::int64_t item) {
  if (number == of) return e.count;
  const std::int64_t step = e.unit.is_constant(1) ? std::max<std::int64_t>(1, 256 / item) : 1;
  const auto begin = static_cast<std::int64_t>(static_cast<__int128>(e.count) * number / of);
  return e.count / of >= step ? begin / step * step : begin;
}

// Whether views may fill the memory because it has no producer of its own.
bool may_be_filled(const Graph& g, StorageId storage) {
  return storage.valid() && g[storage].kind != StorageKind::input && g[storage].kind != StorageKind::constant;
}

bool owns(const Buffer& b) {
  return std::holds_alternative<FixedLayout>(b.layout) ||
         std::holds_alternative<CommBufferLayout>(b.layout) ||
         std::holds_alternative<FlexibleLayout>(b.layout);
}

// The owning buffer beneath a chain of views, if it has no producer; else invalid.
BufferId filled_base(const Graph& g, BufferId view) {
  while (const auto* v = std::get_if<NonOwningLayout>(&g[view].layout)) view = v->base;
  const Buffer& b = g[view];
  return owns(b) && !b.producer.valid() && may_be_filled(g, b.storage) ? view : BufferId{};
}

}  // namespace

Splitter::Splitter(const Schedule& schedule, const Problem& problem, const CostModel& costs)
    : schedule_(schedule),
      problem_(problem),
      costs_(costs),
      written_through_view_(schedule.graph.buffers.size(), false),
      derived_(schedule.graph.buffers.size(), false) {
  const Graph& g = schedule.graph;
  for (const Buffer& b : g.buffers) {
    if (!b.producer.valid()) continue;
    for (const Buffer* at_ = &b;;) {
      BufferId up;
      if (const auto* v = std::get_if<NonOwningLayout>(&at_->layout)) {
        up = v->base;
        written_through_view_[up] = 1;
      } else if (const auto* m = std::get_if<MutationOutput>(&at_->layout)) {
        up = m->of;
      } else {
        break;
      }
      derived_[up] = 1;
      at_ = &g[up];
    }
  }
}

std::string Splitter::why_whole(CollectiveId collective) const {
  const Collective& c = problem_.collectives[collective];
  const auto& kernel = *schedule_.graph[c.op].as<CollectiveKernel>();
  const auto alone = [&](NodeId node) {
    return at(schedule_.nodes, node).kind == ScheduleNode::Kind::single &&
           problem_.steps_of(node).size() == 1;
  };
  if (row_of(kernel.kind).point_to_point)
    return fmt::format("{}: the peer would have to split as well", to_string(kernel.kind));
  if (kernel.blocking) return "blocking: nothing is gained";
  if (!c.cost.priced_by_size) return "its cost is given and says nothing about parts";
  if (!c.wait.valid()) return "it has no wait in this schedule";
  if (!alone(c.start) || !alone(c.wait) || (c.release.valid() && !alone(c.release)))
    return "it is part of a group";
  return {};
}

std::string Splitter::why_uncut(CollectiveId collective, std::size_t operand) const {
  const Graph& g = schedule_.graph;
  const Collective& c = problem_.collectives[collective];
  const Operation& start = g[c.op];
  const auto& kernel = *start.as<CollectiveKernel>();
  if (!row_of(kernel.kind).elementwise())
    return fmt::format("{}: a piece of every rank's slab is not contiguous", to_string(kernel.kind));
  const TensorRef& out = kernel.outputs[operand];
  const BufferId o = out.buffer;
  if (std::ranges::find(start.outputs, o) == start.outputs.end() || !(out == whole(g, o)))
    return "its result is a part of what it defines";
  if (extent_of(out.sizes).count < 2) return "it has a single element, or none";
  const Operation& wait = g[at(schedule_.nodes, c.wait).op];
  const BufferId w = wait.outputs[operand];
  if (written_through_view_[w] != 0) return "a part of its result is overwritten";
  const BufferId first = unmutated(g, o);
  const Buffer& b = g[first];
  const bool in_place = first != o;
  for (BufferId before = o; before != first;) {
    before = std::get<MutationOutput>(g[before].layout).of;
    const OpId by = g[before].producer;
    if (by.valid() && (g[by].as<CollectiveKernel>() != nullptr || g[by].as<WaitKernel>() != nullptr))
      return "another collective has worked on its memory";
  }
  if (owns(b)) {
    if (!may_be_filled(g, b.storage) || g[b.storage].alias_of.valid())
      return "its result lies in memory of the caller";
    if (!b.producer.valid()) return "its result lies in memory that is filled in pieces";
    if (in_place && g[b.producer].as<RegionKernel>() != nullptr) return "a region makes its operand";
    return {};
  }
  if (!filled_base(g, first).valid()) return "its result is a view of memory that others fill";
  if (derived_[w] != 0) return "its result is a view that changes afterwards";
  return {};
}

std::int64_t Splitter::operand_bytes(const CollectiveKernel& kernel, std::size_t operand) const {
  const TensorRef& r = ir::payload(kernel)[operand];
  return costs_.value(numel(r.sizes)) * size_of(schedule_.graph[r.buffer].dtype);
}

std::int64_t Splitter::payload(CollectiveId collective) const {
  const auto& kernel = *schedule_.graph[problem_.collectives[collective].op].as<CollectiveKernel>();
  std::int64_t bytes = 0;
  for (std::size_t k = 0; k < std::max(kernel.inputs.size(), kernel.outputs.size()); ++k) {
    if (k < kernel.inputs.size() && k < kernel.outputs.size()) bytes += operand_bytes(kernel, k);
  }
  return bytes;
}

Split Splitter::split(CollectiveId collective, const SplitLimits& limits, std::string* reason) const {
  Split out{collective, {}};
  if (std::string why = why_whole(collective); !why.empty()) {
    if (reason != nullptr) *reason = std::move(why);
    return out;
  }
  const auto& kernel = *schedule_.graph[problem_.collectives[collective].op].as<CollectiveKernel>();
  const std::int64_t all = payload(collective);
  const auto rounded_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t most =
      std::max<std::int64_t>(1, limits.max_bytes > 0 ? limits.max_bytes : rounded_up(all, limits.chunks));
  std::string why;
  struct Item {
    Piece piece;
    std::int64_t bytes;
  };
  std::vector<Item> items;
  for (std::size_t k = 0; k < kernel.inputs.size(); ++k) {
    const std::int64_t bytes = operand_bytes(kernel, k);
    std::int64_t pieces = rounded_up(std::max<std::int64_t>(bytes, 1), most);
    if (pieces > 1) {
      if (std::string uncut = why_uncut(collective, k); !uncut.empty()) {
        pieces = 1;
        if (why.empty()) why = std::move(uncut);
      } else {
        pieces = std::min({pieces, extent_of(kernel.outputs[k].sizes).count, std::int64_t{1} << 16});
      }
    }
    for (std::int64_t p = 0; p < pieces; ++p)
      items.push_back({{k, static_cast<int>(p), static_cast<int>(pieces)}, bytes / pieces});
  }
  // By size, a part is filled up; by number, an item goes to the part in which its middle lies.
  std::int64_t before = 0, part = -1, in_part = 0;
  for (const Item& item : items) {
    std::int64_t into = part;
    if (limits.max_bytes > 0) {
      if (part < 0 || in_part + item.bytes > most) into = part + 1;
    } else {
      const auto middle = static_cast<__int128>(2 * before + item.bytes) * limits.chunks;
      into = all > 0 ? static_cast<std::int64_t>(middle / (2 * static_cast<__int128>(all))) : 0;
    }
    if (into != part || out.parts.empty()) {
      out.parts.emplace_back();
      in_part = 0;
    }
    part = into;
    out.parts.back().push_back(item.piece);
    in_part += item.bytes;
    before += item.bytes;
  }
  if (out.parts.size() < 2) {
    out.parts.clear();
    if (reason != nullptr) *reason = std::move(why);
  }
  return out;
}

namespace {

class Cutter {
 public:
  explicit Cutter(Schedule& schedule, const Problem& problem)
      : schedule_(schedule), g_(schedule.graph), p_(problem), nodes_(nodes_of(schedule)) {}

  void add(const Split& split) {
    const Collective& c = p_.collectives[split.collective];
    const OpId start = c.op, wait = op_at(c.wait), release = !c.release.valid() ? OpId{} : op_at(c.release);
    const Operation whole_start = g_[start], whole_wait = g_[wait];
    const auto kernel = *whole_start.as<CollectiveKernel>();
    // Outputs of the operation are in the order of its operands.
    std::map<std::size_t, Target> targets;
    for (std::size_t part = 0; part < split.parts.size(); ++part) {
      Operation s = whole_start, w = whole_wait;
      auto& k = *s.as<CollectiveKernel>();
      s.outputs.clear(), w.outputs.clear(), k.inputs.clear(), k.outputs.clear();
      for (const Piece& piece : split.parts[part]) {
        const TensorRef &in = kernel.inputs[piece.operand], &out = kernel.outputs[piece.operand];
        const BufferId waited = whole_wait.outputs[piece.operand];
        if (piece.of == 1) {
          k.inputs.push_back(in);
          k.outputs.push_back(out);
          s.outputs.push_back(out.buffer);
          w.outputs.push_back(waited);
          continue;
        }
        Target& t = targets[piece.operand];
        if (!t.base.valid()) t = target_of(out.buffer, waited);
        const BufferId view = add_view(t, out, piece);
        k.inputs.push_back(piece_of(in, piece));
        k.outputs.push_back(whole(g_, view));
        s.outputs.push_back(view);
        w.outputs.push_back(g_.add_mutation(view, g_[view].name));
      }
      emit(part, c, start, wait, release, std::move(s), std::move(w));
    }
  }

  void finish() {
    std::vector<ScheduleNode> nodes;
    for (const NodeId n : nodes_.ids()) {
      nodes.push_back(std::move(at(schedule_.nodes, n)));
      for (const OpId op : nodes_[n]) nodes.push_back(ScheduleNode::single(op));
    }
    schedule_.nodes = std::move(nodes);
    schedule_.plan.reset();
    rename();
    compact(schedule_);
  }

 private:
  Schedule& schedule_;
  Graph& g_;
  const Problem& p_;
  IdVector<NodeId, std::vector<OpId>> nodes_;  // operations after each node
  std::map<BufferId, BufferId> renamed_;       // results of waits -> the memory that the pieces fill

  // Pieces are views of `base`, whose first element is that of the result.
  struct Target {
    BufferId base;
    std::string name;
  };

  OpId op_at(NodeId node) const { return at(schedule_.nodes, node).op; }

  static Expr begin(const Extent& e, int number, int of, std::int64_t item) {
    return e.unit * Expr(begin_of(e, number, of, item));
  }
  TensorRef piece_of(const TensorRef& ref, const Piece& piece) const {
    const Extent e = extent_of(ref.sizes);
    const std::int64_t item = size_of(g_[ref.buffer].dtype);
    const Expr from = begin(e, piece.number, piece.of, item), to = begin(e, piece.number + 1, piece.of, item);
    return {ref.buffer, ref.offset + from, {to - from}, {1}};
  }
  BufferId add_view(const Target& t, const TensorRef& out, const Piece& piece) {
    const TensorRef ref = piece_of(out, piece);
    Buffer b;
    b.name = fmt::format("{}.part{}", t.name, piece.number);
    b.dtype = g_[out.buffer].dtype;
    b.sizes = ref.sizes;
    b.layout = NonOwningLayout{t.base, ref.offset, {1}};
    return g_.add_buffer(std::move(b));
  }

  // Makes the memory of result `o` one that is filled in pieces; readers of `waited` will read it.
  Target target_of(BufferId o, BufferId waited) {
    const std::string name = g_[o].name;
    const BufferId first = unmutated(g_, o);
    if (first == o) {  // the memory begins here
      g_[o].producer = {};
      if (std::holds_alternative<FlexibleLayout>(g_[o].layout))
        g_[o].layout = FixedLayout{contiguous_strides(g_[o].sizes)};
      renamed_[waited] = o;
      return {o, name};
    }
    // In place. The former contents become a piece like the others, which the parts change afterwards.
    Buffer base = g_[first];
    base.producer = {};
    base.name += ".all";
    const bool owner = owns(base);
    if (owner) {
      if (std::holds_alternative<FlexibleLayout>(base.layout))
        base.layout = FixedLayout{contiguous_strides(base.sizes)};
      g_[base.storage].name = g_.storage_names.unique(base.name, "storage");
    }
    const BufferId id = g_.add_buffer(std::move(base));
    if (owner) {
      Buffer& before = g_[first];
      before.layout = NonOwningLayout{id, 0, strides_of(g_, id)};
      before.storage = {};
    }
    renamed_[waited] = id;
    return {id, name};
  }

  // The first part takes the place of the whole, operations and names included.
  void emit(std::size_t part, const Collective& c, OpId start, OpId wait, OpId release, Operation s,
            Operation w) {
    if (part == 0) {
      for (BufferId b : s.outputs) g_[b].producer = start;
      for (BufferId b : w.outputs) g_[b].producer = wait;
      g_[start] = std::move(s);
      g_[wait] = std::move(w);
      return;
    }
    s.name = g_[s.outputs.front()].name;
    w.name = g_[w.outputs.front()].name;
    const OpId id = g_.add_op(std::move(s));
    w.kernel = WaitKernel{id};
    nodes_[c.start].push_back(id);
    nodes_[c.wait].push_back(g_.add_op(std::move(w)));
    if (release.valid()) {
      Operation r = g_[release];
      r.name = g_[id].name + ".release";
      r.kernel = ReleaseKernel{id};
      nodes_[c.release].push_back(g_.add_op(std::move(r)));
    }
  }

  void rename() {
    if (renamed_.empty()) return;
    const auto buffer = [&](BufferId& b) {
      if (const auto it = renamed_.find(b); it != renamed_.end()) b = it->second;
    };
    for (Operation& op : g_.ops) visit_ids(op, buffer, [](OpId&) {});
    for (Buffer& b : g_.buffers) {
      if (auto* v = std::get_if<NonOwningLayout>(&b.layout)) buffer(v->base);
      if (auto* m = std::get_if<MutationOutput>(&b.layout)) buffer(m->of);
    }
    for (GraphOutput& o : g_.outputs) buffer(o.buffer);
  }
};

}  // namespace

void split_collectives(Schedule& schedule, const Problem& problem, std::span<const Split> splits) {
  if (splits.empty()) return;
  Cutter cutter(schedule, problem);
  for (const Split& s : splits) {
    internal_check(s.parts.size() > 1, "a collective is split into {} parts, expected at least two",
                   s.parts.size());
    cutter.add(s);
  }
  cutter.finish();
}

}  // namespace braid::passes
