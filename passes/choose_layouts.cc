#include "passes/choose_layouts.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ir/id_vector.h"
#include "ir/kernel_parts.h"
#include "ir/strided_view.h"
#include "passes/visit_ids.h"

namespace braid::passes {
namespace {

using namespace ir;

// Strides with dimension 1, the channels, last in memory.
std::vector<Expr> channels_last_strides(std::span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size());
  strides[1] = 1;
  Expr next = sizes[1];
  for (std::size_t d = sizes.size(); d-- > 2;) {
    strides[d] = next;
    next = next * sizes[d];
  }
  strides[0] = next;
  return strides;
}

// Returns expressions whose sum is e: one for each index that e is linear in, and the other terms. A stride
// of several terms, such as that of rows of n - 2 elements, divides only the expression of its index.
std::vector<Expr> by_index(Expr e) {
  std::vector<Expr> parts;
  Expr rest = e;
  for_each_symbol(e, [&](Expr symbol) {
    if (!symbol.is_symbol(SymbolKind::index)) return;
    const std::optional<Expr> stride = stride_of(e, symbol);
    if (!stride || stride->is_constant(0)) return;
    parts.push_back(symbol * *stride);
    rest = rest - parts.back();
  });
  for (const Term& term : terms(rest)) {
    std::vector<Expr> factors = term.atoms;
    factors.emplace_back(term.coefficient);
    parts.push_back(product(factors));
  }
  return parts;
}

// Decomposes a sum of index expressions times strides into coordinates in a buffer of these sizes and
// strides. Each part belongs to the dimension with the largest stride that divides it. Coordinates within the
// sizes are unique, so a result is right no matter how it was found.
std::optional<std::vector<Expr>> coordinates(Expr element, std::span<const Expr> sizes,
                                             std::span<const Expr> strides, Extents extents) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].is_constant(1)) order.push_back(d);
  }
  sort_by_stride(order, strides);
  std::vector<Expr> at(sizes.size(), 0);
  for (const Expr value : by_index(element)) {
    std::optional<Expr> quotient;
    for (std::size_t d : order) {
      quotient = divide_exactly(value, strides[d]);
      if (!quotient) continue;
      at[d] = at[d] + *quotient;
      break;
    }
    if (!quotient) return std::nullopt;
  }
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (!provably_non_negative(at[d], extents) || !provably_less(at[d], sizes[d], extents))
      return std::nullopt;
  }
  return at;
}

class LayoutChooser {
 public:
  explicit LayoutChooser(Schedule& schedule)
      : schedule_(schedule),
        graph_(schedule.graph),
        family_(graph_.buffers.size()),
        families_(graph_.buffers.size()),
        single_(graph_.ops.size(), false) {
    for (const ScheduleNode& node : schedule.nodes) {
      if (node.kind == ScheduleNode::Kind::single) single_[node.op] = true;
    }
  }

  bool run() {
    find_families();
    for (const ScheduleNode& node : schedule_.nodes) find_users(node);
    find_region();
    drop_unchangeable();
    bool changed = false;
    for (BufferId b : families_.ids()) changed |= chosen(b);
    if (!changed) return false;
    copy_at_borders();
    rewrite();
    schedule_.plan.reset();
    return true;
  }

 private:
  struct Family {
    bool candidate = false;
    bool in_region = false;
    std::vector<BufferId> members;  // the owning buffer first
    std::vector<OpId> users;        // operations that this pass rewrites
    std::vector<OpId> others;       // readers that are given a copy
  };

  bool chosen(BufferId owner) const { return families_[owner].candidate && families_[owner].in_region; }

  // ---- candidates: row-major activations and the views of their parts

  void find_families() {
    IdVector<StorageId, int> owners(graph_.storages.size(), 0);
    for (const Buffer& b : graph_.buffers) {
      if (b.storage.valid()) ++owners[b.storage];
    }
    for (BufferId b : families_.ids()) {
      const Buffer& buffer = graph_[b];
      const auto* fixed = std::get_if<FixedLayout>(&buffer.layout);
      if (fixed == nullptr || buffer.sizes.size() < 3 || !buffer.storage.valid()) continue;
      const Storage& storage = graph_[buffer.storage];
      if (storage.kind != StorageKind::activation || storage.alias_of.valid() || owners[buffer.storage] != 1)
        continue;
      if (fixed->strides != contiguous_strides(buffer.sizes)) continue;
      if (fixed->strides == channels_last_strides(buffer.sizes)) continue;  // one channel, or one pixel
      families_[b].candidate = true;
      families_[b].members.push_back(b);
      family_[b] = b;
    }
    for (const Storage& s : graph_.storages) {
      if (!s.alias_of.valid()) continue;
      for (BufferId b : families_.ids()) {
        if (graph_[b].storage == s.alias_of) families_[b].candidate = false;
      }
    }
    for (BufferId b : families_.ids()) join(b);
    for (const GraphOutput& o : graph_.outputs) refuse(o.buffer);
  }

  // Adds a view to the family of its base.
  void join(BufferId b) {
    const Buffer& buffer = graph_[b];
    if (const auto* mutation = std::get_if<MutationOutput>(&buffer.layout)) {
      refuse(b), refuse(mutation->of);
      return;
    }
    const auto* view = std::get_if<NonOwningLayout>(&buffer.layout);
    if (view == nullptr) return;
    const BufferId owner = family_[view->base];
    if (!owner.valid() || owner != view->base) {
      refuse(view->base);
      return;
    }
    if (buffer.dtype != graph_[owner].dtype || view->strides != strides_of(graph_, owner) ||
        !coordinates(view->offset, graph_[owner].sizes, view->strides, {})) {
      refuse(owner);
      return;
    }
    family_[b] = owner;
    families_[owner].members.push_back(b);
  }

  void refuse(BufferId b) {
    if (family_[b].valid()) families_[family_[b]].candidate = false;
  }

  // ---- users of the activations

  void find_users(const ScheduleNode& node) {
    if (node.kind != ScheduleNode::Kind::single) {
      for (OpId op : ops_of(node)) refuse_all(op);
      return;
    }
    const OpId id = node.op;
    Operation& op = graph_[id];
    const bool window = op.as<Convolution>() != nullptr || op.as<Pooling>() != nullptr;
    if (window || op.as<Loops>() != nullptr) {
      visit_ids(
          op, [&](BufferId& b) { add(b, id, &Family::users); }, [](OpId) {});
    } else if (op.as<Gemm>() != nullptr || op.as<Recurrence>() != nullptr || op.as<Attention>() != nullptr ||
               op.as<ExternKernel>() != nullptr) {
      for_each_operand(op.kernel, [&](const TensorRef& ref, bool written) {
        if (written || family_[ref.buffer] != ref.buffer) return refuse(ref.buffer);
        add(ref.buffer, id, &Family::others);
      });
      for_each_load(op.kernel, [&](const Instr& load) { refuse(load.buffer); });
    } else {
      refuse_all(id);
    }
  }

  void refuse_all(OpId id) {
    visit_ids(
        graph_[id], [&](BufferId& b) { refuse(b); }, [](OpId) {});
    if (const auto* region = graph_[id].as<RegionKernel>()) {
      for (const Region& r : region->regions) {
        for (OpId inner : r.ops) refuse_all(inner);
      }
    }
  }

  void add(BufferId b, OpId op, std::vector<OpId> Family::*list) {
    const BufferId owner = family_[b];
    if (!owner.valid()) return;
    std::vector<OpId>& ops = families_[owner].*list;
    if (ops.empty() || ops.back() != op) ops.push_back(op);
  }

  // ---- the region: operands of convolutions, pools of them, and what is elementwise with them

  void find_region() {
    std::vector<BufferId> open;
    const auto enter = [&](BufferId owner) {
      if (!owner.valid() || !families_[owner].candidate || families_[owner].in_region) return;
      families_[owner].in_region = true;
      open.push_back(owner);
    };
    // Enters only operands whose channels are dimension 1. Otherwise the channels are already last, or the
    // shape is an unusual one.
    const auto enter_operand = [&](const TensorRef& ref) {
      const std::vector<Expr> strides = strides_of(graph_, ref.buffer);
      if (strides.size() == ref.sizes.size() && ref.strides.back() == strides[1]) enter(family_[ref.buffer]);
    };
    for (OpId id : first_ids<OpId>(count_of(graph_.ops))) {
      const auto* k = graph_[id].as<Convolution>();
      if (k != nullptr && single_[id]) enter_operand(k->a), enter_operand(k->out);
    }
    while (!open.empty()) {
      const BufferId owner = open.back();
      open.pop_back();
      for (OpId id : families_[owner].users) {
        if (const auto* pool = graph_[id].as<Pooling>()) enter_operand(pool->x), enter_operand(pool->out);
        const auto* loops = graph_[id].as<Loops>();
        if (loops == nullptr || loops->is_reduction()) continue;
        visit_ids(
            graph_[id],
            [&](BufferId& b) {
              if (family_[b].valid() && graph_[b].sizes.size() == graph_[owner].sizes.size())
                enter(family_[b]);
            },
            [](OpId) {});
      }
    }
  }

  // ---- accesses

  // Element `e` of `b`, counted from the buffer's first, in the new layout.
  std::optional<Expr> moved(BufferId b, Expr e, Extents extents) const {
    const std::vector<Expr>& sizes = graph_[b].sizes;
    const auto at = coordinates(e, sizes, strides_of(graph_, b), extents);
    if (!at) return std::nullopt;
    const std::vector<Expr> strides = new_strides(family_[b]);
    Expr out = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) out = out + (*at)[d] * strides[d];
    return out;
  }
  std::vector<Expr> new_strides(BufferId owner) const { return channels_last_strides(graph_[owner].sizes); }

  std::optional<TensorRef> moved(const TensorRef& ref) const {
    const std::optional<Expr> e = moved(ref.buffer, element_of(graph_, ref), ref.sizes);
    if (!e) return std::nullopt;
    std::optional<TensorRef> out = strided_view(graph_, ref.buffer, *e, ref.sizes);
    // The strides of single elements are those of a dense layout.
    for (std::size_t k = ref.sizes.size(); out && k-- > 0;) {
      if (ref.sizes[k].is_constant(1))
        out->strides[k] = k + 1 < ref.sizes.size() ? out->strides[k + 1] * ref.sizes[k + 1] : Expr(1);
    }
    return out;
  }

  bool changeable(BufferId owner, OpId id) const {
    const auto in_family = [&](BufferId b) { return family_[b] == owner; };
    const Operation& op = graph_[id];
    bool ok = true;
    for_each_operand(op.kernel, [&](const TensorRef& ref, bool) {
      if (in_family(ref.buffer)) ok = ok && moved(ref);
    });
    for_each_body(op.kernel, [&](const LoopBody& body, const std::vector<Expr>& sizes) {
      for (const Instr& instr : body.instrs) {
        if (instr.code == OpCode::load && in_family(instr.buffer))
          ok = ok && moved(instr.buffer, instr.index, sizes);
      }
    });
    if (const auto* loops = op.as<Loops>(); ok && loops != nullptr && in_family(op.outputs[0])) {
      const std::span<const Expr> kept = std::span(loops->sizes).first(loops->kept());
      ok = moved(op.outputs[0], loops->store_index, kept).has_value();
    }
    return ok;
  }

  void drop_unchangeable() {
    for (BufferId owner : families_.ids()) {
      Family& f = families_[owner];
      if (!chosen(owner)) continue;
      f.candidate =
          std::all_of(f.users.begin(), f.users.end(), [&](OpId op) { return changeable(owner, op); });
    }
  }

  // ---- rewriting

  // Makes row-major copies for the other readers, before the first of them.
  void copy_at_borders() {
    IdVector<OpId, std::vector<OpId>> before(graph_.ops.size());
    for (BufferId owner : families_.ids()) {
      if (!chosen(owner) || families_[owner].others.empty()) continue;
      const Buffer& from = graph_[owner];
      const std::vector<Expr> sizes = from.sizes;
      const std::string name = from.name + ".rows";
      const BufferId to = graph_.add_owned(name, from.dtype, sizes);
      Loops loops;
      loops.sizes = sizes;
      const Expr element = strided_index(*graph_.pool, sizes, contiguous_strides(sizes));
      BodyBuilder body(*graph_.pool);
      loops.body = body.finish(body.load(owner, graph_[owner].dtype, element));
      loops.store_index = element;
      const OpId producer = graph_[owner].producer;
      const OpId copy =
          graph_.add_op({name,
                         std::move(loops),
                         {to},
                         producer.valid() ? graph_[producer].origins : std::vector<std::string>{},
                         std::nullopt});
      const std::vector<OpId>& readers = families_[owner].others;
      before[readers.front()].push_back(copy);
      for (OpId reader : readers) {
        for_each_operand(graph_[reader].kernel, [&](TensorRef& ref, bool) {
          if (ref.buffer == owner) ref.buffer = to;
        });
      }
    }
    std::vector<ScheduleNode> nodes;
    for (ScheduleNode& node : schedule_.nodes) {
      if (node.kind == ScheduleNode::Kind::single) {
        for (OpId copy : before[node.op]) nodes.push_back(ScheduleNode::single(copy));
      }
      nodes.push_back(std::move(node));
    }
    schedule_.nodes = std::move(nodes);
  }

  bool moves(BufferId b) const {
    return static_cast<std::size_t>(b.index) < family_.size() && family_[b].valid() && chosen(family_[b]);
  }

  void rewrite() {
    for (const ScheduleNode& node : schedule_.nodes) {
      if (node.kind == ScheduleNode::Kind::single) rewrite(node.op);
    }
    for (BufferId owner : families_.ids()) {
      if (!chosen(owner)) continue;
      const std::vector<Expr> strides = new_strides(owner);
      for (BufferId b : families_[owner].members) {
        if (auto* view = std::get_if<NonOwningLayout>(&graph_[b].layout)) {
          view->offset = *moved(owner, view->offset, {});
          view->strides = strides;
        }
      }
      graph_[owner].layout = FixedLayout{strides};
    }
  }

  void rewrite(OpId id) {
    Operation& op = graph_[id];
    bool touched = false;
    for_each_operand(op.kernel, [&](TensorRef& ref, bool) {
      if (moves(ref.buffer)) ref = *moved(ref), touched = true;
    });
    for_each_body(op.kernel, [&](LoopBody& body, const std::vector<Expr>& sizes) {
      for (Instr& instr : body.instrs) {
        if (instr.code == OpCode::load && moves(instr.buffer))
          instr.index = *moved(instr.buffer, instr.index, sizes), touched = true;
      }
    });
    auto* loops = op.as<Loops>();
    if (loops == nullptr) return;
    if (moves(op.outputs[0])) {
      const std::span<const Expr> kept = std::span(loops->sizes).first(loops->kept());
      loops->store_index = *moved(op.outputs[0], loops->store_index, kept);
      touched = true;
    }
    if (touched) iterate_in_memory_order(*loops);
  }

  // Orders the kept indices by descending strides of the loop's store. Reduced indices follow the strides of
  // the largest tensor that the loop reads, if the result has the same bits in any order.
  void iterate_in_memory_order(Loops& loops) {
    const std::size_t kept = loops.kept();
    std::vector<std::size_t> order(loops.sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!sort_by_strides(loops.store_index, loops.sizes, std::span(order).first(kept))) return;
    const bool exact = loops.reduce == ReduceKind::max || loops.reduce == ReduceKind::min ||
                       !is_float(loops.body.result_dtype());
    const Instr* largest = nullptr;
    const auto elements = [&](const Instr& load) { return bounds(numel(graph_[load.buffer].sizes)).max; };
    for (const Instr& i : loops.body.instrs) {
      if (i.code == OpCode::load && (largest == nullptr || elements(i) > elements(*largest))) largest = &i;
    }
    if (exact && largest != nullptr)
      sort_by_strides(largest->index, loops.sizes, std::span(order).subspan(kept));
    std::vector<Expr> sizes = loops.sizes, symbols(loops.sizes.size());
    for (std::size_t k = 0; k < loops.sizes.size(); ++k) {
      const std::size_t from = order[k];
      sizes[k] = loops.sizes[from];
      symbols[from] = graph_.pool->index(k);
    }
    if (sizes == loops.sizes && std::is_sorted(order.begin(), order.end())) return;
    const auto replace = [&](Expr s) -> std::optional<Expr> {
      if (!s.is_symbol(SymbolKind::index)) return std::nullopt;
      return symbols[static_cast<std::size_t>(s.symbol_number())];
    };
    loops.sizes = std::move(sizes);
    loops.body = substitute(loops.body, replace);
    loops.store_index = substitute(loops.store_index, replace);
  }

  // Sorts `order` by descending strides of the index. Returns false, with nothing changed, if a stride is not
  // provably non-negative.
  bool sort_by_strides(Expr index, const std::vector<Expr>& sizes, std::span<std::size_t> order) const {
    std::vector<Expr> strides(sizes.size(), 0);
    for (const std::size_t k : order) {
      const std::optional<Expr> stride = stride_of(index, graph_.pool->index(k));
      if (!stride || !provably_non_negative(*stride)) return false;
      strides[k] = *stride;
    }
    // Indices of one element have no stride and stay in front.
    const auto others = std::stable_partition(order.begin(), order.end(),
                                              [&](std::size_t k) { return sizes[k].is_constant(1); });
    sort_by_stride({others, order.end()}, strides);
    return true;
  }

  Schedule& schedule_;
  Graph& graph_;
  IdVector<BufferId, BufferId> family_;  // the owning buffer, if that is a candidate
  IdVector<BufferId, Family> families_;  // by owning buffer
  IdVector<OpId, bool> single_;
};

}  // namespace

bool ChooseLayouts::run(ir::Schedule& schedule) {
  const bool any = std::any_of(schedule.graph.ops.begin(), schedule.graph.ops.end(),
                               [](const Operation& op) { return op.as<Convolution>() != nullptr; });
  return any && LayoutChooser(schedule).run();
}

}  // namespace braid::passes
