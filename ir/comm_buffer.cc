#include "ir/comm_buffer.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/coordinate.h"
#include "ir/error.h"

namespace braid::ir {
namespace {

BufferId owner_of(const Graph& graph, BufferId buffer) {
  for (;;) {
    const Buffer& b = graph[buffer];
    if (const auto* view = std::get_if<NonOwningLayout>(&b.layout)) {
      buffer = view->base;
    } else if (const auto* mutation = std::get_if<MutationOutput>(&b.layout)) {
      buffer = mutation->of;
    } else {
      return buffer;
    }
  }
}

// Whether every name of this memory, back to its owner, is written by a kernel whose destination we choose.
bool made_by_us(const Graph& graph, BufferId buffer) {
  for (;;) {
    const Buffer& b = graph[buffer];
    // No producer: memory that is filled through its views, as concatenations are.
    if (b.producer.valid()) {
      const Operation& op = graph[b.producer];
      if (op.as<ExternKernel>() || op.as<RegionKernel>()) return false;
    }
    if (const auto* view = std::get_if<NonOwningLayout>(&b.layout)) {
      buffer = view->base;
    } else if (const auto* mutation = std::get_if<MutationOutput>(&b.layout)) {
      buffer = mutation->of;
    } else {
      return true;
    }
  }
}

bool contains(const std::vector<GroupId>& groups, GroupId group) {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

// The reason why the memory forbids in-place use for every view, if it does.
std::optional<CommBufferReason> forbidden(const Graph& graph, BufferId buffer) {
  const StorageId s = root_storage(graph, buffer);
  if (!s.valid()) return CommBufferReason::foreign_output;
  switch (graph[s].kind) {
    case StorageKind::input:
      return CommBufferReason::graph_input;
    case StorageKind::output:
      return CommBufferReason::graph_output;
    case StorageKind::constant:
      return CommBufferReason::constant;
    case StorageKind::activation:
      if (!made_by_us(graph, buffer)) return CommBufferReason::foreign_output;
      break;
    case StorageKind::comm:
      break;
  }
  if (bounds(graph[s].bytes).max >= kUnbounded) return CommBufferReason::unbounded;
  return std::nullopt;
}

Expr bytes_of(const Graph& graph, const TensorRef& ref) {
  return numel(ref.sizes) * Expr(size_of(graph[ref.buffer].dtype));
}

// The load of a loop that only copies: one load, stored unchanged.
const Instr* copied(const Operation& op) {
  const auto* loops = op.as<Loops>();
  if (!loops || loops->is_reduction() || op.outputs.size() != 1) return nullptr;
  const Instr* load = nullptr;
  for (const Instr& instr : loops->body.instrs) {
    if (load || instr.code != OpCode::load || instr.operands.size() != 0) return nullptr;
    load = &instr;
  }
  return load;
}

}  // namespace

bool in_place(CommBufferReason reason) {
  return reason == CommBufferReason::produced_here || reason == CommBufferReason::already ||
         reason == CommBufferReason::shared;
}

std::string_view to_string(CommBufferReason reason) {
  constexpr std::string_view kNames[] = {"produced_here", "already",     "shared",         "graph_input",
                                         "graph_output",  "constant",    "foreign_output", "not_contiguous",
                                         "unbounded",     "other_group", "cloned",         "packed",
                                         "staged"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::string_view text_of(CommBufferReason reason) {
  constexpr std::string_view kTexts[] = {
      "its producer writes into the segment",
      "it is a communication buffer",
      "the slot is shared with other groups: one segment is registered with all",
      "it is a graph input, the caller's memory",
      "it is a graph output, the caller's memory",
      "it is a constant",
      "its producer chooses its own memory",
      "its elements are not contiguous",
      "its size has no upper bound",
      "peers of another group read the original, which this collective overwrites",
      "the program copies it unchanged",
      "it is a piece of a larger buffer",
      "it is outside the segment, so the engine stages it"};
  return kTexts[static_cast<std::size_t>(reason)];
}

CommBufferReason can_be_comm_buffer(const Graph& graph, BufferId buffer, const std::optional<TensorRef>& view,
                                    GroupId group, CommBufferKind kind, bool writes) {
  if (const auto reason = forbidden(graph, buffer)) return *reason;
  if (!view || !is_contiguous(view->sizes, view->strides)) return CommBufferReason::not_contiguous;
  // Peers look for it where their own part lies.
  if (depends_on_rank(region(graph, *view).offset)) return CommBufferReason::packed;
  const Storage& storage = graph[root_storage(graph, buffer)];
  if (storage.kind != StorageKind::comm) return CommBufferReason::produced_here;
  const bool others =
      std::any_of(storage.groups.begin(), storage.groups.end(), [&](GroupId g) { return !(g == group); });
  if (writes && others && storage.comm_kind == CommBufferKind::symmetric) {
    return CommBufferReason::other_group;
  }
  const bool covered = storage.comm_kind == CommBufferKind::symmetric || kind == CommBufferKind::registered;
  if (contains(storage.groups, group) && covered && !others) return CommBufferReason::already;
  return others ? CommBufferReason::shared : CommBufferReason::already;
}

bool reachable_by_peers(const Graph& graph, const TensorRef& ref, GroupId group, bool is_read) {
  const Storage& s = graph[root_storage(graph, ref.buffer)];
  return s.kind == StorageKind::comm && (!is_read || s.comm_kind == CommBufferKind::symmetric) &&
         std::find(s.groups.begin(), s.groups.end(), group) != s.groups.end();
}

void make_comm_buffer(Graph& graph, BufferId buffer, GroupId group, CommBufferKind kind) {
  const BufferId owner = owner_of(graph, buffer);
  Storage& storage = graph[root_storage(graph, owner)];
  if (storage.kind != StorageKind::comm) {
    internal_check(storage.kind == StorageKind::activation, "'{}' cannot move into the segment",
                   storage.name);
    storage.kind = StorageKind::comm;
    storage.comm_kind = kind;
    storage.groups.clear();
  }
  // The stricter need decides: neither the kind nor the order of the groups may depend on which came first.
  if (kind == CommBufferKind::symmetric) storage.comm_kind = kind;
  if (group.valid() && !contains(storage.groups, group)) {
    storage.groups.insert(
        std::upper_bound(storage.groups.begin(), storage.groups.end(), group,
                         [&](GroupId a, GroupId b) { return graph[a].name < graph[b].name; }),
        group);
  }
  graph[owner].layout = CommBufferLayout{strides_of(graph, owner), storage.comm_kind, storage.groups};
}

Expr bytes_copied_by(const Graph& graph, OpId copy) {
  return numel(graph[copy].as<Loops>()->sizes) * Expr(size_of(graph[graph[copy].outputs[0]].dtype));
}

namespace {

// The copies of a schedule, by the storages of communication buffers.
struct Copies {
  std::map<StorageId, std::vector<OpId>> into, from;

  explicit Copies(const Schedule& schedule) {
    const Graph& graph = schedule.graph;
    for (OpId id : execution_order(schedule)) {
      const Instr* load = copied(graph[id]);
      if (!load) continue;
      const StorageId to = root_storage(graph, graph[id].outputs[0]),
                      source = root_storage(graph, load->buffer);
      if (to.valid()) into[to].push_back(id);
      // Copies into another communication buffer are reported there.
      if (source.valid() && to.valid() && graph[to].kind != StorageKind::comm) from[source].push_back(id);
    }
  }
};

void count(const Graph& graph, CommBufferDecision& d, const std::map<StorageId, std::vector<OpId>>& copies,
           StorageId s) {
  const auto found = copies.find(s);
  if (found == copies.end()) return;
  for (OpId copy : found->second) {
    d.copies.push_back(copy);
    d.bytes = d.bytes + bytes_copied_by(graph, copy);
  }
}

// Whether a copy reorders elements. A part that lies elsewhere keeps their order.
bool reordering(const Graph& graph, const std::vector<OpId>& copies) {
  return std::any_of(copies.begin(), copies.end(), [&](OpId copy) {
    bool moves = false;
    for_each_symbol(copied(graph[copy])->index - graph[copy].as<Loops>()->store_index,
                    [&](Expr symbol) { moves |= symbol.is_symbol(SymbolKind::index); });
    return moves;
  });
}

// Why input i of the collective, in storage s, is copied there.
CommBufferReason reason_of_copies(const Graph& graph, const CollectiveKernel& k, std::size_t i, StorageId s,
                                  const std::vector<OpId>& copies) {
  const Operation& copy = graph[copies[0]];
  const Instr& load = *copied(copy);
  if (!graph[unmutated(graph, copy.outputs[0])].storage.valid()) return CommBufferReason::packed;
  if (const auto why = forbidden(graph, load.buffer)) return *why;
  if (reordering(graph, copies)) return CommBufferReason::not_contiguous;
  const std::vector<GroupId>& readers = graph[root_storage(graph, load.buffer)].groups;
  const bool in_place = i < k.outputs.size() && root_storage(graph, k.outputs[i].buffer) == s;
  const bool other =
      in_place && std::any_of(readers.begin(), readers.end(), [&](GroupId g) { return !(g == k.group); });
  return other ? CommBufferReason::other_group : CommBufferReason::cloned;
}

CommBufferDecision of_input(const Graph& graph, OpId id, std::size_t i, const Copies& copies) {
  const auto& k = *graph[id].as<CollectiveKernel>();
  const TensorRef& ref = k.inputs[i];
  const StorageId s = root_storage(graph, ref.buffer);
  CommBufferDecision d{id, false, static_cast<int>(i), ref.buffer, CommBufferReason::produced_here, {}, 0};
  if (!s.valid() || graph[s].kind != StorageKind::comm) {
    d.reason = CommBufferReason::staged;
    d.bytes = bytes_of(graph, ref);
    return d;
  }
  count(graph, d, copies.into, s);
  const OpId producer = graph[unmutated(graph, ref.buffer)].producer;
  if (!d.copies.empty()) {
    d.reason = reason_of_copies(graph, k, i, s, d.copies);
  } else if (graph[s].groups.size() > 1) {
    d.reason = CommBufferReason::shared;
  } else if (producer.valid() && graph[producer].as<CollectiveKernel>()) {
    d.reason = CommBufferReason::already;
  }
  return d;
}

CommBufferDecision of_output(const Graph& graph, OpId id, std::size_t i, const Copies& copies) {
  const TensorRef& ref = graph[id].as<CollectiveKernel>()->outputs[i];
  const StorageId s = root_storage(graph, ref.buffer);
  CommBufferDecision d{id, true, static_cast<int>(i), ref.buffer, CommBufferReason::already, {}, 0};
  if (s.valid()) count(graph, d, copies.from, s);
  if (d.copies.empty()) return d;
  const bool to_caller = std::any_of(d.copies.begin(), d.copies.end(), [&](OpId copy) {
    return graph[root_storage(graph, graph[copy].outputs[0])].kind == StorageKind::output;
  });
  d.reason = to_caller                     ? CommBufferReason::graph_output
             : reordering(graph, d.copies) ? CommBufferReason::not_contiguous
                                           : CommBufferReason::cloned;
  return d;
}

}  // namespace

std::vector<CommBufferDecision> comm_buffer_decisions(const Schedule& schedule) {
  const Graph& graph = schedule.graph;
  const Copies copies(schedule);
  std::vector<CommBufferDecision> out;
  for (OpId id : execution_order(schedule)) {
    const auto* k = graph[id].as<CollectiveKernel>();
    if (!k) continue;
    for (std::size_t i = 0; i < k->inputs.size(); ++i) out.push_back(of_input(graph, id, i, copies));
    for (std::size_t i = 0; i < k->outputs.size(); ++i) out.push_back(of_output(graph, id, i, copies));
  }
  return out;
}

Expr copied_bytes(const Graph& graph, const std::vector<CommBufferDecision>& decisions) {
  std::set<OpId> counted;
  Expr bytes = 0;
  for (const CommBufferDecision& d : decisions) {
    if (d.copies.empty()) bytes = bytes + d.bytes;  // staged
    for (OpId copy : d.copies) {
      if (!counted.insert(copy).second) continue;
      bytes = bytes + bytes_copied_by(graph, copy);
    }
  }
  return bytes;
}

}  // namespace braid::ir
