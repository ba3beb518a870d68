// Order by names. A buffer name identifies one version of memory: what its producer wrote or, for memory that
// operations fill in pieces (the parts of a concatenation), what the producers of all its views wrote.
#include <algorithm>
#include <map>
#include <optional>

#include "ir/error.h"
#include "ir/verifier_impl.h"

namespace braid::ir {
namespace {

class OrderCheck {
 public:
  OrderCheck(const Schedule& schedule, Violations& out) : s_(schedule), g_(schedule.graph), out_(out) {
    pieces_.resize(g_.buffers.size());
    place(execution_order(schedule));
    for (std::size_t i = 0; i < g_.buffers.size(); ++i) {
      const BufferId id{static_cast<std::int32_t>(i)};
      if (scheduled(g_[id].producer)) add_piece(id);
    }
  }

  void run() {
    const std::vector<OpId> ops = execution_order(s_);
    list(ops, true);
  }

 private:
  struct Touch {
    int at;  // position in the list
    OpId op;
    OpId flight;  // of start, wait and release: the start
    Access access;
  };

  bool scheduled(OpId op) const { return op.valid() && scheduled_.count(op) != 0; }

  void place(const std::vector<OpId>& ops) {
    for (OpId op : ops) {
      scheduled_.insert(op);
      if (const auto* k = g_[op].as<RegionKernel>()) {
        for (const Region& r : k->regions) place(r.ops);
      }
    }
  }

  // Registers the buffer with the memory that it is a piece of: views lead to it, and mutations of pieces are
  // pieces.
  void add_piece(BufferId id) {
    BufferId b = id;
    for (;;) {
      bool by_view = false;
      if (const auto* m = std::get_if<MutationOutput>(&g_[b].layout)) {
        b = m->of;
      } else if (const auto* v = std::get_if<NonOwningLayout>(&g_[b].layout)) {
        b = v->base;
        by_view = true;
      } else {
        return;
      }
      if (by_view && filled_in_pieces(b)) pieces_[static_cast<std::size_t>(b.index)].push_back(id);
    }
  }

  bool filled_in_pieces(BufferId b) const {
    const Buffer& buffer = g_[b];
    if (buffer.producer.valid() || !buffer.storage.valid()) return false;
    const StorageKind kind = g_[buffer.storage].kind;
    return kind != StorageKind::input && kind != StorageKind::constant;
  }

  // The names whose writes make up this version: itself, the version before it, the pieces.
  const std::set<BufferId>& contributors(BufferId id) {
    if (const auto it = contributors_.find(id); it != contributors_.end()) return it->second;
    std::set<BufferId> out{id};
    const auto add = [&](BufferId other) {
      const std::set<BufferId>& more = contributors(other);
      out.insert(more.begin(), more.end());
    };
    if (const auto* m = std::get_if<MutationOutput>(&g_[id].layout)) add(m->of);
    if (const auto* v = std::get_if<NonOwningLayout>(&g_[id].layout)) add(v->base);
    if (filled_in_pieces(id)) {
      const auto& pieces = pieces_[static_cast<std::size_t>(id.index)];
      out.insert(pieces.begin(), pieces.end());
    }
    return contributors_.emplace(id, std::move(out)).first->second;
  }

  // Positions of the operations that make the version, as far as the view needs them; none for inputs,
  // constants, and values from outside the list. nullopt: it is never written.
  std::optional<std::vector<int>> makers(BufferId id, const TensorRef& view) {
    const Buffer& b = g_[id];
    if (b.producer.valid()) {
      if (!scheduled(b.producer)) return std::nullopt;
      const auto it = position_.find(b.producer);
      return it == position_.end() ? std::vector<int>{} : std::vector<int>{it->second};
    }
    if (std::holds_alternative<MutationOutput>(b.layout)) return std::nullopt;
    if (const auto* v = std::get_if<NonOwningLayout>(&b.layout)) return makers(v->base, view);
    if (!filled_in_pieces(id)) return std::vector<int>{};
    std::vector<int> out;
    bool any = false;
    for (BufferId piece : pieces_[static_cast<std::size_t>(id.index)]) {
      if (!may_overlap(g_, whole(g_, piece), view)) continue;
      any = true;
      if (const auto it = position_.find(g_[piece].producer); it != position_.end())
        out.push_back(it->second);
    }
    // The view reads what an input held before a step; a cache grows in that input.
    if (!any && g_[root_storage(g_, b.storage)].kind == StorageKind::input) return out;
    // Memory that is never filled can still be passed on, e.g. to be mutated as a whole.
    return any ? std::optional(out) : std::nullopt;
  }

  void index_positions(const std::vector<OpId>& ops, int fixed) {
    for (std::size_t k = 0; k < ops.size(); ++k) {
      const int at = fixed >= 0 ? fixed : static_cast<int>(k);
      position_[ops[k]] = at;
      if (const auto* kernel = g_[ops[k]].as<RegionKernel>()) {
        for (const Region& r : kernel->regions) index_positions(r.ops, at);
      }
    }
  }

  void list(const std::vector<OpId>& ops, bool top, const std::vector<BufferId>& yields = {}) {
    position_.clear();
    index_positions(ops, -1);
    std::vector<std::vector<Touch>> reads(g_.storages.size()), writes(g_.storages.size());
    const auto slot = [](const Access& a) { return static_cast<std::size_t>(a.region.storage.index); };
    for (std::size_t k = 0; k < ops.size(); ++k) {
      Effects e = effects(g_, ops[k]);
      OpId flight;
      for (const CommEffect& c : e.comm) flight = g_[ops[k]].as<RegionKernel>() ? OpId{} : c.start;
      for (Access& a : e.accesses) {
        const Touch t{static_cast<int>(k), ops[k], flight, std::move(a)};
        if (t.access.writes()) writes[slot(t.access)].push_back(t);
        if (t.access.kind == AccessKind::read) reads[slot(t.access)].push_back(t);
        // A mutation needs the version before it.
        const auto* m = std::get_if<MutationOutput>(&g_[t.access.buffer].layout);
        if (t.access.kind == AccessKind::reads_modify && m) {
          Touch old = t;
          old.access.buffer = m->of;
          old.access.kind = AccessKind::reads_modify;
          reads[slot(t.access)].push_back(std::move(old));
        }
      }
    }
    const auto read_at_end = [&](BufferId b) {
      const MemoryRegion r = region(g_, b);
      if (!r.storage.valid()) return;
      reads[static_cast<std::size_t>(r.storage.index)].push_back(
          {static_cast<int>(ops.size()), {}, {}, {b, AccessKind::read, whole(g_, b), r}});
    };
    if (top) {
      for (const GraphOutput& o : g_.outputs) read_at_end(o.buffer);
    }
    for (BufferId b : yields) read_at_end(b);
    for (std::size_t s = 0; s < g_.storages.size(); ++s) {
      for (const Touch& r : reads[s]) check_read(r, writes[s], top);
      check_flight(reads[s], writes[s]);
    }
    for (OpId op : ops) check_operands(op);
    for (OpId op : ops) {
      if (const auto* k = g_[op].as<RegionKernel>()) {
        for (const Region& r : k->regions) list(r.ops, false, r.yields);
      }
    }
  }

  std::string name(const Touch& t) const { return t.op.valid() ? g_[t.op].name : "the end"; }

  void check_read(const Touch& r, const std::vector<Touch>& writes, bool top) {
    const BufferId id = r.access.buffer;
    std::optional<std::vector<int>> made = makers(id, r.access.view);
    // Nothing is read: the operation that would fill it may have been removed.
    if (!made && numel(r.access.view.sizes).is_constant(0)) return;
    if (!made) {
      // A chain of mutations may start with memory that is not filled.
      const bool unfilled = r.access.kind == AccessKind::reads_modify && filled_in_pieces(unmutated_base(id));
      if (top && !unfilled) out_.add(kOrder, name(r), "reads '{}', which is never written", g_[id].name);
      if (!unfilled) return;
      made.emplace();
    }
    if (r.op.valid() && g_[id].producer == r.op && g_[r.op].as<Loops>() &&
        r.access.kind == AccessKind::read) {
      out_.add(kOrder, name(r), "reads '{}', which is its own result", g_[id].name);
      return;
    }
    int first = -1, last = -1;
    for (int at : *made) {
      if (at > r.at || (at == r.at && g_[id].producer != r.op && !inside_same(r, id))) {
        out_.add(kOrder, name(r), "reads '{}' before it is written", g_[id].name);
        return;
      }
      first = first < 0 ? at : std::min(first, at);
      last = std::max(last, at);
    }
    const std::set<BufferId>& own = contributors(id);
    for (const Touch& w : writes) {
      if (w.at == r.at || w.at > r.at || w.at < first) continue;
      if (w.flight.valid() && w.flight == r.flight)
        continue;  // a collective pins its inputs while it works in place
      if (own.count(w.access.buffer)) {
        if (w.at <= last) continue;
      } else if (w.at == first && w.at == last) {
        continue;  // a kernel with several results, or a region, that made the version itself
      }
      if (!may_overlap(g_, w.access.view, r.access.view)) continue;
      out_.add(kOrder, name(r), "reads '{}' after '{}' has overwritten it with '{}'", g_[id].name, name(w),
               g_[w.access.buffer].name);
      return;
    }
  }

  BufferId unmutated_base(BufferId b) const {
    for (;;) {
      if (const auto* v = std::get_if<NonOwningLayout>(&g_[b].layout)) {
        b = v->base;
      } else {
        return b;
      }
    }
  }

  // Inside a region, the kernel reads what it computes there.
  bool inside_same(const Touch& r, BufferId id) const {
    const auto* k = r.op.valid() ? g_[r.op].as<RegionKernel>() : nullptr;
    return k && (!g_[id].producer.valid() || contains(g_, *k, g_[id].producer));
  }

  // Both are contiguous. If sizes do not decide it, the engine checks at run time.
  bool surely_overlap(const TensorRef& a, const TensorRef& b) const {
    const MemoryRegion x = region(g_, a), y = region(g_, b);
    return x.storage.valid() && x.storage == y.storage && provably_non_negative(x.end - y.begin - 1) &&
           provably_non_negative(y.end - x.begin - 1);
  }

  // A result is either exactly its operand (in place) or overlaps no operand.
  void check_operands(OpId id) {
    const auto* k = g_[id].as<CollectiveKernel>();
    if (k == nullptr) return;
    for (std::size_t i = 0; i < k->outputs.size(); ++i) {
      const TensorRef& out = k->outputs[i];
      for (std::size_t j = 0; j < i; ++j) {
        if (surely_overlap(out, k->outputs[j]))
          out_.add(kFlight, g_[id].name, "two of its results share memory, '{}'", g_[out.buffer].name);
      }
    }
    for (std::size_t i = 0; i < k->outputs.size(); ++i) {
      const TensorRef& out = k->outputs[i];
      for (std::size_t j = 0; j < k->inputs.size(); ++j) {
        const TensorRef& in = k->inputs[j];
        if ((i == j && region(g_, in).begin == region(g_, out).begin) || !surely_overlap(out, in)) continue;
        out_.add(kFlight, g_[id].name, "its result '{}' overlaps its operand '{}'", g_[out.buffer].name,
                 g_[in.buffer].name);
      }
    }
  }

  // No other operation touches what a collective writes between its start and its wait.
  void check_flight(const std::vector<Touch>& reads, const std::vector<Touch>& writes) {
    for (const Touch& start : writes) {
      if (!start.access.by_peers || start.flight != start.op) continue;
      int end = -1;
      for (const Touch& w : writes) {
        const auto* k = g_[w.op].as<WaitKernel>();
        if (k && k->start == start.op) end = std::max(end, w.at);
      }
      for (const std::vector<Touch>* touches : {&reads, &writes}) {
        for (const Touch& t : *touches) {
          if (t.at <= start.at || t.at >= end || t.flight == start.op) continue;
          if (!may_overlap(g_, t.access.view, start.access.view)) continue;
          out_.add(kFlight, name(t), "touches '{}' while the collective '{}' writes it",
                   g_[t.access.buffer].name, g_[start.op].name);
        }
      }
    }
  }

  const Schedule& s_;
  const Graph& g_;
  Violations& out_;
  std::set<OpId> scheduled_;
  std::map<OpId, int>
      position_;  // in the list being checked; of operations in regions: that of the region kernel
  std::vector<std::vector<BufferId>> pieces_;
  std::map<BufferId, std::set<BufferId>> contributors_;
};

}  // namespace

void verify_order(const Schedule& schedule, Violations& out) { OrderCheck(schedule, out).run(); }

}  // namespace braid::ir
