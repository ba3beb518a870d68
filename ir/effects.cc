#include "ir/effects.h"

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/kernel_parts.h"
#include "ir/measured_dims.h"

namespace braid::ir {
namespace {

class Collector {
 public:
  Collector(const Graph& graph, Effects& out) : graph_(graph), out_(out) {}

  void add(const TensorRef& view, AccessKind kind, bool by_peers = false,
           std::optional<MemoryDep> dep = std::nullopt) {
    const MemoryRegion r = region(graph_, view);
    if (!r.storage.valid()) return;  // NoneLayout, MultiOutputLayout: no memory
    out_.accesses.push_back({view.buffer, kind, view, r, by_peers, std::move(dep)});
  }

  void add_loads(const LoopBody& body, const std::vector<Expr>& sizes) {
    for (const Instr& instr : body.instrs) {
      if (instr.code != OpCode::load) continue;
      add(whole(graph_, instr.buffer), AccessKind::read, false, MemoryDep{instr.index, sizes});
    }
  }

  // A mutation's old contents matter: elements not written stay.
  AccessKind write_kind(BufferId buffer) const {
    return std::holds_alternative<MutationOutput>(graph_[buffer].layout) ? AccessKind::reads_modify
                                                                         : AccessKind::write;
  }
  void add_write(const TensorRef& view, bool by_peers = false) {
    add(view, write_kind(view.buffer), by_peers);
  }

 private:
  const Graph& graph_;
  Effects& out_;
};

void of_kernel(const Graph& graph, OpId, const Operation& op, const Loops& k, Effects& out) {
  Collector c(graph, out);
  c.add_loads(k.body, k.sizes);
  for (BufferId b : op.outputs) {
    c.add(
        whole(graph, b), c.write_kind(b), false,
        MemoryDep{k.store_index, {k.sizes.begin(), k.sizes.begin() + static_cast<std::ptrdiff_t>(k.kept())}});
  }
}

// Kernels that only read and write the views that they name, and read what their bodies load.
template <class K>
requires requires { K::kFields; }
void of_kernel(const Graph& graph, OpId, const Operation& op, const K& kernel, Effects& out) {
  Collector c(graph, out);
  const auto views = [&](bool of_writes) {
    for_each_operand(op.kernel, [&](const TensorRef& ref, bool written) {
      if (written == of_writes) written ? c.add_write(ref) : c.add(ref, AccessKind::read);
    });
  };
  views(false);
  for_each_body(op.kernel,
                [&](const LoopBody& body, const std::vector<Expr>& sizes) { c.add_loads(body, sizes); });
  views(true);
  if constexpr (std::is_same_v<K, ExternKernel>) out.barrier = kernel.barrier;
}

void of_kernel(const Graph& graph, OpId id, const Operation&, const CollectiveKernel& k, Effects& out) {
  Collector c(graph, out);
  for (const TensorRef& r : k.inputs) c.add(r, AccessKind::read, !k.blocking);
  for (const TensorRef& r : k.outputs) c.add_write(r, !k.blocking);
  out.comm.push_back({k.group, k.kind, CommPhase::start, k.blocking, id});
}

const CollectiveKernel& started(const Graph& graph, OpId start, const Operation& by) {
  const CollectiveKernel* k = start.valid() ? graph[start].as<CollectiveKernel>() : nullptr;
  internal_check(k != nullptr, "'{}' does not belong to a collective", by.name);
  return *k;
}

void of_kernel(const Graph& graph, OpId, const Operation& op, const WaitKernel& k, Effects& out) {
  Collector c(graph, out);
  const CollectiveKernel& start = started(graph, k.start, op);
  for (const TensorRef& r : start.inputs) c.add(r, AccessKind::read);
  for (std::size_t i = 0; i < start.outputs.size(); ++i) {
    TensorRef view = start.outputs[i];
    if (i < op.outputs.size()) view.buffer = op.outputs[i];  // the same memory under its new name
    c.add(view, AccessKind::reads_modify);
  }
  out.comm.push_back({start.group, start.kind, CommPhase::wait, start.blocking, k.start});
  out.after.push_back(k.start);
}

void of_kernel(const Graph& graph, OpId, const Operation& op, const ReleaseKernel& k, Effects& out) {
  Collector c(graph, out);
  const CollectiveKernel& start = started(graph, k.start, op);
  for (const TensorRef& r : start.inputs) c.add(r, AccessKind::read);
  for (const TensorRef& r : start.outputs) {
    const StorageId s = root_storage(graph, r.buffer);
    if (s.valid() && graph[s].kind == StorageKind::comm && graph[s].comm_kind == CommBufferKind::symmetric) {
      c.add(r, AccessKind::read);
    }
  }
  out.comm.push_back({start.group, start.kind, CommPhase::release, start.blocking, k.start});
  out.after.push_back(k.start);
}

void of_kernel(const Graph& graph, OpId, const Operation& op, const RegionKernel& k, Effects& out) {
  std::vector<Access> accesses;
  std::set<StorageId> inside;
  for (const Region& r : k.regions) {
    for (OpId inner : r.ops) {
      const Effects e = effects(graph, inner);
      accesses.insert(accesses.end(), e.accesses.begin(), e.accesses.end());
      out.comm.insert(out.comm.end(), e.comm.begin(), e.comm.end());
      out.barrier |= e.barrier;
      inside.insert(e.inside.begin(), e.inside.end());
      for (BufferId b : graph[inner].outputs) {
        const StorageId s = graph[b].storage;  // of owning layouts only
        if (s.valid() && root_storage(graph, s) == s &&
            (graph[s].kind == StorageKind::activation || graph[s].kind == StorageKind::comm)) {
          inside.insert(s);
        }
      }
    }
  }
  // The results of the region kernel stay live after it.
  for (BufferId b : op.outputs) inside.erase(root_storage(graph, b));
  Collector c(graph, out);
  for (BufferId b : k.operands) c.add(whole(graph, b), AccessKind::read);
  for (const bool writes : {false, true}) {
    for (const Access& a : accesses) {
      if (a.writes() != writes || inside.count(a.region.storage)) continue;
      out.accesses.push_back(a);
      out.accesses.back().dep.reset();  // indices of loops inside mean nothing outside
    }
  }
  for (BufferId b : op.outputs) c.add_write(whole(graph, b));
  out.inside.assign(inside.begin(), inside.end());
}

// ---- strided disjointness

struct Dim {
  Expr size, stride;
};
struct Span {  // elements first + sum(ik * stride)
  Expr first;
  std::vector<Dim> dims;
};

// [begin, end) of the elements, if all strides have a known sign.
std::optional<std::pair<Expr, Expr>> range(const Span& s) {
  Expr begin = s.first, end = s.first + 1;
  for (const Dim& d : s.dims) {
    const Expr reach = d.stride * (d.size - 1);
    if (provably_non_negative(d.stride)) {
      end = end + reach;
    } else if (provably_non_negative(-d.stride)) {
      begin = begin + reach;
    } else {
      return std::nullopt;
    }
  }
  return std::pair(begin, end);
}

bool disjoint(const Span& a, const Span& b) {
  const auto ra = range(a), rb = range(b);
  if (!ra || !rb) return false;
  if (provably_non_negative(rb->first - ra->second) || provably_non_negative(ra->first - rb->second))
    return true;
  // Rows of one length: if both stay within [0, stride) of their row, rows can be compared one by one.
  for (std::size_t p = 0; p < a.dims.size(); ++p) {
    for (std::size_t q = 0; q < b.dims.size(); ++q) {
      const Expr row = a.dims[p].stride;
      if (!(row == b.dims[q].stride) || !provably_less(0, row)) continue;
      Span x = a, y = b;
      x.dims.erase(x.dims.begin() + static_cast<std::ptrdiff_t>(p));
      y.dims.erase(y.dims.begin() + static_cast<std::ptrdiff_t>(q));
      const auto rx = range(x), ry = range(y);
      if (!rx || !ry) continue;
      if (!provably_non_negative(rx->first) || !provably_non_negative(ry->first)) continue;
      if (!provably_non_negative(row - rx->second) || !provably_non_negative(row - ry->second)) continue;
      if (disjoint(x, y)) return true;
    }
  }
  return false;
}

Span span_of(const Graph& graph, const TensorRef& r, const MemoryRegion& at) {
  // Offsets of views are multiples of their element size by construction; refs of one type are compared in
  // elements.
  Span s{*divide_exactly(at.offset, size_of(graph[r.buffer].dtype)), {}};
  for (std::size_t k = 0; k < r.sizes.size(); ++k) {
    if (!r.sizes[k].is_constant(1) && !r.strides[k].is_constant(0))
      s.dims.push_back({r.sizes[k], r.strides[k]});
  }
  return s;
}

bool overlap(const Graph& graph, const TensorRef& a, const MemoryRegion& ra, const TensorRef& b,
             const MemoryRegion& rb) {
  if (!ra.storage.valid() || ra.storage != rb.storage) return false;
  // Usually both are the same view, which needs no arithmetic.
  const bool same_view = ra.offset == rb.offset && a.sizes == b.sizes && a.strides == b.strides;
  if (!same_view && !may_overlap(ra, rb)) return false;
  for (const Expr& s : a.sizes) {
    if (s.is_constant(0)) return false;
  }
  for (const Expr& s : b.sizes) {
    if (s.is_constant(0)) return false;
  }
  if (same_view) return true;
  const std::int64_t item = size_of(graph[a.buffer].dtype);
  if (item != size_of(graph[b.buffer].dtype)) return true;
  if (!divide_exactly(ra.offset, item) || !divide_exactly(rb.offset, item)) return true;
  return !disjoint(span_of(graph, a, ra), span_of(graph, b, rb));
}

// Values without elements overlap nothing, but their names must still be read after they are defined.
void name_empty_values(const Graph& graph, OpId op, Effects& out) {
  for (const Access& a : out.accesses) {
    const auto& sizes = a.view.sizes;
    if (std::none_of(sizes.begin(), sizes.end(), [](const Expr& s) { return s.is_constant(0); })) continue;
    BufferId name = a.buffer;
    if (a.kind != AccessKind::read) {  // a new name of something older
      const auto* mutation = std::get_if<MutationOutput>(&graph[name].layout);
      if (mutation == nullptr) continue;
      name = mutation->of;
    }
    while (!graph[name].producer.valid()) {
      const auto* view = std::get_if<NonOwningLayout>(&graph[name].layout);
      if (view == nullptr) break;
      name = view->base;
    }
    const OpId producer = graph[name].producer;
    if (producer.valid() && producer != op) out.after.push_back(producer);
  }
}

}  // namespace

Effects effects(const Graph& graph, OpId op) {
  Effects out;
  std::visit([&](const auto& kernel) { of_kernel(graph, op, graph[op], kernel, out); }, graph[op].kernel);
  name_empty_values(graph, op, out);
  for (const OpId measure : measures_before(graph, op)) out.after.push_back(measure);
  return out;
}

void storages_of(const Graph& graph, OpId id, std::vector<StorageTouch>& out) {
  out.clear();
  const Operation& op = graph[id];
  const auto add = [&](BufferId b, bool writes) {
    const StorageId s = root_storage(graph, b);
    if (s.valid()) out.push_back({s, writes, false});
  };
  if (const auto* wait = op.as<WaitKernel>()) {
    const CollectiveKernel& k = started(graph, wait->start, op);
    for (const TensorRef& r : k.inputs) add(r.buffer, false);
    for (const TensorRef& r : k.outputs) add(r.buffer, true);
    return;
  }
  if (op.as<ReleaseKernel>() == nullptr && op.as<RegionKernel>() == nullptr) {
    for_each_operand(op.kernel, [&](const TensorRef& r, bool written) {
      if (!written) add(r.buffer, false);
    });
    for_each_load(op.kernel, [&](const Instr& load) { add(load.buffer, false); });
    for_each_operand(op.kernel, [&](const TensorRef& r, bool written) {
      if (written) add(r.buffer, true);
    });
    if (op.as<Loops>() != nullptr) {
      for (BufferId b : op.outputs) add(b, true);
    }
  } else {
    const Effects e = effects(graph, id);
    for (const Access& a : e.accesses) out.push_back({a.region.storage, a.writes(), false});
    for (StorageId s : e.inside) out.push_back({s, true, true});
  }
}

bool may_overlap(const Graph& graph, const TensorRef& a, const TensorRef& b) {
  return overlap(graph, a, region(graph, a), b, region(graph, b));
}

bool conflict(const Graph& graph, const Access& a, const Access& b) {
  if (!a.writes() && !b.writes()) return false;
  return overlap(graph, a.view, a.region, b.view, b.region);
}

bool depend(const Graph& graph, OpId a_op, const Effects& a, OpId b_op, const Effects& b) {
  if (a.barrier || b.barrier) return true;
  if (std::find(b.after.begin(), b.after.end(), a_op) != b.after.end()) return true;
  if (std::find(a.after.begin(), a.after.end(), b_op) != a.after.end()) return true;
  for (const Access& x : a.accesses) {
    for (const Access& y : b.accesses) {
      if (conflict(graph, x, y)) return true;
    }
  }
  return false;
}

bool contains(const Graph& graph, const RegionKernel& kernel, OpId op) {
  for (const Region& r : kernel.regions) {
    for (OpId inner : r.ops) {
      if (inner == op) return true;
      const auto* nested = graph[inner].as<RegionKernel>();
      if (nested && contains(graph, *nested, op)) return true;
    }
  }
  return false;
}

}  // namespace braid::ir
