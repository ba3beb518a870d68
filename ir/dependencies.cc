#include "ir/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "ir/collective_order.h"
#include "ir/effects.h"
#include "ir/error.h"

namespace braid::ir {
namespace {

struct Record {
  int node;
  Access access;
  bool contiguous;  // the view has no holes
};

// The byte ranges of one storage, each with the accesses that a later access must follow. Ranges are numbers
// (upper bounds of dimensions); the exact views decide whether two accesses really overlap.
class StorageTrack {
 public:
  using Order = std::function<void(const Record& before, Hazard hazard)>;

  void access(const Graph& graph, const std::vector<Record>& records, int id, const Order& order) {
    const Record& r = records[static_cast<std::size_t>(id)];
    const std::int64_t lo = std::max<std::int64_t>(0, bounds(r.access.region.begin).min);
    const std::int64_t hi = std::max(lo + 1, bounds(r.access.region.end).max);
    split(lo);
    split(hi);
    fill(lo, hi);
    const bool exact =
        r.contiguous && r.access.region.begin.is_constant() && r.access.region.end.is_constant();
    for (auto it = ranges_.find(lo); it != ranges_.end() && it->first < hi; ++it) {
      Range& range = it->second;
      for (int w : range.writers) {
        const Record& before = records[static_cast<std::size_t>(w)];
        if (!conflict(graph, before.access, r.access)) continue;
        if (r.access.reads()) order(before, Hazard::read_after_write);
        if (r.access.writes()) order(before, Hazard::write_after_write);
      }
      if (!r.access.writes()) {
        range.readers.push_back(id);
        continue;
      }
      for (int reader : range.readers) {
        const Record& before = records[static_cast<std::size_t>(reader)];
        if (conflict(graph, before.access, r.access)) order(before, Hazard::write_after_read);
      }
      // An access that overlaps one covered by this write also overlaps this write, and is ordered through
      // it.
      const auto covered = [&](int other) {
        if (exact) return true;
        const MemoryRegion& o = records[static_cast<std::size_t>(other)].access.region;
        return r.contiguous && provably_non_negative(o.begin - r.access.region.begin) &&
               provably_non_negative(r.access.region.end - o.end);
      };
      std::erase_if(range.writers, covered);
      std::erase_if(range.readers, covered);
      range.writers.push_back(id);
    }
    if (exact && r.access.writes()) merge(lo, hi);
  }

 private:
  struct Range {
    std::int64_t end;
    std::vector<int> writers;
    std::vector<int> readers;
  };
  std::map<std::int64_t, Range> ranges_;  // disjoint, by begin

  void split(std::int64_t at) {
    auto it = ranges_.upper_bound(at);
    if (it == ranges_.begin()) return;
    --it;
    if (it->first == at || it->second.end <= at) return;
    Range right = it->second;
    it->second.end = at;
    ranges_.emplace(at, std::move(right));
  }

  // Afterwards [lo, hi) is covered without holes.
  void fill(std::int64_t lo, std::int64_t hi) {
    for (std::int64_t at = lo; at < hi;) {
      auto it = ranges_.lower_bound(at);
      if (it != ranges_.end() && it->first == at) {
        at = it->second.end;
        continue;
      }
      const std::int64_t end = it == ranges_.end() ? hi : std::min(hi, it->first);
      ranges_.emplace(at, Range{end, {}, {}});
      at = end;
    }
  }

  // After an exact write all ranges of [lo, hi) hold the same.
  void merge(std::int64_t lo, std::int64_t hi) {
    auto first = ranges_.find(lo);
    first->second.end = hi;
    ranges_.erase(std::next(first), ranges_.lower_bound(hi));
  }
};

bool is_contiguous_view(const TensorRef& view) { return is_contiguous(view.sizes, view.strides); }

struct Edge {
  int from, to;
  DepKind kind;
  Hazard hazard;
  BufferId buffer;
  bool keeps_alive;
  auto key() const { return std::tuple(to, from, kind, hazard, buffer, keeps_alive); }
};

class Finder {
 public:
  Finder(const Schedule& schedule, const DependencyOptions& options)
      : schedule_(schedule), options_(options) {}

  // `nodes`: the operations of each node.
  std::vector<Edge> run(std::span<const std::vector<OpId>> nodes, std::vector<int>& node_of) {
    const Graph& graph = schedule_.graph;
    node_of.assign(graph.ops.size(), -1);
    const int n = static_cast<int>(nodes.size());
    lone_transfers_ = !transfers_meet(schedule_);
    written_.assign(graph.storages.size(), false);
    std::vector<StorageTouch> touched;
    std::size_t touches = 0;
    for (int node = 0; node < n; ++node) {
      for (OpId op : nodes[static_cast<std::size_t>(node)]) {
        node_of[static_cast<std::size_t>(op.index)] = node;
        storages_of(graph, op, touched);
        touches += touched.size();
        for (const StorageTouch& t : touched) {
          if (t.writes && !t.inside) written_[static_cast<std::size_t>(t.storage.index)] = true;
        }
      }
    }
    records_.reserve(touches);
    edges_.reserve(2 * touches);
    tracks_.resize(graph.storages.size());
    hands_out_.assign(static_cast<std::size_t>(n), {});
    for (const std::vector<OpId>& ops : nodes) {
      for (OpId op : ops) add_op(op, node_of);
    }
    group_order(node_of);
    std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.key() < b.key(); });
    edges_.erase(std::unique(edges_.begin(), edges_.end(),
                             [](const Edge& a, const Edge& b) { return a.key() == b.key(); }),
                 edges_.end());
    return std::move(edges_);
  }

 private:
  void add_op(OpId op, const std::vector<int>& node_of) {
    Effects e = effects(schedule_.graph, op);
    const int node = node_of[static_cast<std::size_t>(op.index)];
    for (OpId before : e.after) {
      const int from = node_of[static_cast<std::size_t>(before.index)];
      if (from >= 0) add(from, node, DepKind::star, Hazard::structure, {});
    }
    // Peers count this rank as finished when it has its results: the release comes after the wait.
    for (const CommEffect& c : e.comm) {
      if (c.phase == CommPhase::wait) wait_of_[c.start] = node;
      const auto wait = wait_of_.find(c.start);
      if (c.phase == CommPhase::release && wait != wait_of_.end()) {
        add(wait->second, node, DepKind::star, Hazard::structure, {});
      }
    }
    for (const CommEffect& c : e.comm) transfers(node, c);
    if (lone_transfers_) keep_progress(node, e);
    barriers(node, e.barrier);
    if (options_.channel_order) channels(node, e);
    memory(node, e);
  }

  const Schedule& schedule_;
  const DependencyOptions& options_;
  std::vector<Edge> edges_;
  std::vector<bool> written_;
  std::vector<StorageTrack> tracks_;
  std::vector<Record> records_;
  std::vector<std::vector<StorageId>> hands_out_;  // per node: storages of what it defines
  int last_barrier_ = -1;
  int last_node_ = -1;
  std::map<Queue, int> last_on_channel_;
  std::map<OpId, int> wait_of_;  // start -> node of its wait
  bool lone_transfers_ = false;
  std::map<Queue, int> last_start_;  // those before it in a queue come before it anyway
  int last_wait_ = -1;               // or release

  // Transfers from one member of a pair to the other, in a program that all ranks share.
  struct Transfers {
    std::vector<int> sends, recvs;  // nodes of the starts
    std::vector<int> recv_waits;    // node of the wait for each receive; -1: not yet
  };
  std::map<std::pair<int, int>, Transfers> transfers_;  // (group, position of the source)
  std::map<OpId, std::size_t> number_of_;               // of a start among those of its kind

  // Sender and receiver run the same order. If one waited before the other side started, or a send was
  // released before the receive's wait, ranks on a ring would deadlock.
  void transfers(int node, const CommEffect& c) {
    const auto* kernel = schedule_.graph[c.start].as<CollectiveKernel>();
    const bool send = c.kind == CollectiveKind::send, recv = c.kind == CollectiveKind::recv;
    if (kernel == nullptr || (!send && !recv) || schedule_.graph[c.group].size() != 2) return;
    Transfers& t = transfers_[{c.group.index, send ? 1 - kernel->root : kernel->root}];
    if (c.phase == CommPhase::start) {
      number_of_[c.start] = send ? t.sends.size() : t.recv_waits.size();
      if (send) t.sends.push_back(node);
      if (recv) t.recvs.push_back(node), t.recv_waits.push_back(-1);
      return;
    }
    const auto number = number_of_.find(c.start);
    if (number == number_of_.end()) return;
    const std::size_t k = number->second;
    if (recv && c.phase == CommPhase::wait) {
      if (k < t.sends.size()) add(t.sends[k], node, DepKind::star, Hazard::structure, {});
      t.recv_waits[k] = node;
    }
    if (send && c.phase == CommPhase::wait && k < t.recvs.size())
      add(t.recvs[k], node, DepKind::star, Hazard::structure, {});
    if (send && c.phase == CommPhase::release && k < t.recv_waits.size() && t.recv_waits[k] >= 0) {
      add(t.recv_waits[k], node, DepKind::star, Hazard::structure, {});
    }
  }

  // Applies where a rank may wait for a transfer whose other side is elsewhere (a lone send or receive, a
  // program for one rank). Other ranks may then be waiting for operations this rank has not reached: a wait
  // needs their starts, a release their waits. So waits and releases keep their order, and no start moves
  // below one; starts that move up only help.
  void keep_progress(int node, const Effects& e) {
    const auto after = [&](int before) { add(before, node, DepKind::weak, Hazard::channel_order, {}); };
    for (const CommEffect& c : e.comm) {
      if (c.phase != CommPhase::start || c.blocking) {
        for (const auto& [queue, start] : last_start_) after(start);
        if (last_wait_ >= 0) after(last_wait_);
        last_wait_ = node;
      }
      if (c.phase != CommPhase::start) continue;
      for (const Queue& queue : queues_of(schedule_, c.start)) last_start_[queue] = node;
    }
  }

  void add(int from, int to, DepKind kind, Hazard hazard, BufferId buffer, bool keeps_alive = false) {
    if (from != to) edges_.push_back({from, to, kind, hazard, buffer, keeps_alive});
  }

  void barriers(int node, bool is_barrier) {
    if (is_barrier && node != last_barrier_) {
      for (int before = std::max(0, last_barrier_); before < node; ++before) {
        add(before, node, DepKind::star, Hazard::barrier, {});
      }
      last_barrier_ = node;
    } else if (last_barrier_ >= 0 && node != last_node_) {
      add(last_barrier_, node, DepKind::star, Hazard::barrier, {});
    }
    last_node_ = node;
  }

  // The groups' `after` constraints; the verifier reports unknown names.
  void group_order(const std::vector<int>& node_of) {
    std::map<std::string_view, int> last_of;  // name -> the node with the last operation of the group
    for (const ScheduleNode& n : schedule_.nodes) {
      if (n.kind != ScheduleNode::Kind::grouped) continue;
      const std::vector<OpId> ops = ops_of(n);
      if (ops.empty()) continue;
      for (const std::string& name : n.after) {
        const auto before = last_of.find(name);
        if (before == last_of.end()) continue;
        const int to = node_of[static_cast<std::size_t>(ops.front().index)];
        if (before->second >= 0 && to >= 0) add(before->second, to, DepKind::weak, Hazard::group_order, {});
      }
      last_of[n.name] = node_of[static_cast<std::size_t>(ops.back().index)];
    }
  }

  void channels(int node, const Effects& e) {
    for (const CommEffect& c : e.comm) {
      if (c.phase != CommPhase::start) continue;
      for (const Queue& queue : queues_of(schedule_, c.start)) {
        auto [last, fresh] = last_on_channel_.try_emplace(queue, node);
        if (!fresh) add(last->second, node, DepKind::weak, Hazard::channel_order, {});
        last->second = node;
      }
    }
  }

  void memory(int node, Effects& e) {
    for (const Access& a : e.accesses) {
      if (a.writes()) hands_out_[static_cast<std::size_t>(node)].push_back(a.region.storage);
    }
    const auto first = static_cast<int>(records_.size());
    for (Access& a : e.accesses) {
      if (!written_[static_cast<std::size_t>(a.region.storage.index)])
        continue;  // nothing to be ordered with
      const bool contiguous = is_contiguous_view(a.view);
      records_.push_back({node, std::move(a), contiguous});
    }
    for (int id = first; id < static_cast<int>(records_.size()); ++id) {
      const Record& r = records_[static_cast<std::size_t>(id)];
      const StorageId storage = r.access.region.storage;
      tracks_[static_cast<std::size_t>(storage.index)].access(
          schedule_.graph, records_, id, [&](const Record& before, Hazard hazard) {
            DepKind kind = DepKind::star;
            bool keeps_alive = false;
            if (hazard == Hazard::read_after_write && r.access.dep && r.access.kind == AccessKind::read) {
              kind = DepKind::memory;
            }
            if (hazard == Hazard::write_after_read) {
              kind = DepKind::weak;
              const auto& out = hands_out_[static_cast<std::size_t>(before.node)];
              keeps_alive = std::find(out.begin(), out.end(), storage) != out.end();
            }
            add(before.node, node, kind, hazard, r.access.buffer, keeps_alive);
          });
    }
  }
};

}  // namespace

Dependencies find_dependencies(const Schedule& schedule, const DependencyOptions& options) {
  std::vector<std::vector<OpId>> nodes;
  nodes.reserve(schedule.nodes.size());
  for (const ScheduleNode& n : schedule.nodes) nodes.push_back(ops_of(n));
  return find_dependencies(schedule, nodes, options);
}

Dependencies find_op_dependencies(const Schedule& schedule, const DependencyOptions& options) {
  std::vector<std::vector<OpId>> nodes;
  for (OpId op : execution_order(schedule)) nodes.push_back({op});
  return find_dependencies(schedule, nodes, options);
}

Dependencies find_dependencies(const Schedule& schedule, std::span<const std::vector<OpId>> nodes,
                               const DependencyOptions& options) {
  Dependencies d;
  std::vector<Edge> edges = Finder(schedule, options).run(nodes, d.node_of_);
  const std::size_t n = nodes.size();
  d.first_in_.assign(n + 1, 0);
  d.first_out_.assign(n + 1, 0);
  for (const Edge& e : edges) {
    ++d.first_in_[static_cast<std::size_t>(e.to) + 1];
    ++d.first_out_[static_cast<std::size_t>(e.from) + 1];
  }
  for (std::size_t i = 0; i < n; ++i) {
    d.first_in_[i + 1] += d.first_in_[i];
    d.first_out_[i + 1] += d.first_out_[i];
  }
  d.in_.reserve(edges.size());
  d.out_.resize(edges.size());
  std::vector<std::size_t> next = d.first_out_;
  for (const Edge& e : edges) {  // ordered by (to, from): both tables come out ordered by node
    d.in_.push_back({e.from, e.kind, e.hazard, e.buffer, e.keeps_alive});
    d.out_[next[static_cast<std::size_t>(e.from)]++] = {e.to, e.kind, e.hazard, e.buffer, e.keeps_alive};
  }
  return d;
}

std::optional<Dependencies::Violation> Dependencies::violation(std::span<const int> order) const {
  const auto n = static_cast<int>(first_in_.size()) - 1;
  internal_check(static_cast<int>(order.size()) == n, "got an order of {} nodes for {}", order.size(), n);
  std::vector<int> position(order.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i)
    position[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  for (int node = 0; node < n; ++node) {
    for (const Dependency& d : predecessors(node)) {
      if (position[static_cast<std::size_t>(d.node)] > position[static_cast<std::size_t>(node)]) {
        return Violation{d.node, node};
      }
    }
  }
  return std::nullopt;
}

std::vector<std::vector<bool>> Dependencies::ancestors(std::span<const int> nodes) const {
  std::vector<std::vector<bool>> out;
  for (int asked : nodes) {
    std::vector<bool> seen(first_in_.size() - 1, false);
    std::vector<int> stack = {asked};
    while (!stack.empty()) {
      const int node = stack.back();
      stack.pop_back();
      for (const Dependency& d : predecessors(node)) {
        if (seen[static_cast<std::size_t>(d.node)]) continue;
        seen[static_cast<std::size_t>(d.node)] = true;
        stack.push_back(d.node);
      }
    }
    out.push_back(std::move(seen));
  }
  return out;
}

bool Dependencies::is_ancestor(int ancestor, int node) const {
  const int asked[] = {node};
  return ancestors(asked)[0][static_cast<std::size_t>(ancestor)];
}

const std::string& name_of(const Schedule& schedule, int node) {
  const ScheduleNode& n = schedule.nodes[static_cast<std::size_t>(node)];
  return n.kind == ScheduleNode::Kind::single ? schedule.graph[n.op].name : n.name;
}

std::string_view to_string(DepKind kind) {
  constexpr std::string_view names[] = {"memory", "star", "weak"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Hazard hazard) {
  constexpr std::string_view names[] = {"read_after_write", "write_after_read", "write_after_write",
                                        "structure",        "channel_order",    "group_order",
                                        "barrier"};
  return names[static_cast<std::size_t>(hazard)];
}

std::string to_string(const Graph& graph, const Dependency& d) {
  std::string out = fmt::format("{} {}", to_string(d.kind), to_string(d.hazard));
  if (d.buffer.valid()) out += fmt::format(" of '{}'", graph[d.buffer].name);
  if (d.keeps_alive) out += " keeps_alive";
  return out;
}

}  // namespace braid::ir
