#include "frontend/traces/make_schedule.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>

#include "frontend/traces/recorded_class.h"
#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::BufferId;
using ir::OpId;

// Returns the position of an operation in the order, if its dependencies allow: a kernel's end, a
// collective's begin. So a collective that began while a kernel ran stands before that kernel, with which it
// overlapped.
double position(const RecordedOp& op) { return op.collective ? op.begin_ns : op.end_ns; }

[[noreturn]] void circle(const RecordedTrace& trace, const std::vector<int>& missing) {
  // From any operation in or after the cycle, unplaced dependencies lead into it.
  std::vector<int> seen_at(trace.ops.size(), -1);
  int at = static_cast<int>(std::find_if(missing.begin(), missing.end(), [](int m) { return m > 0; }) -
                            missing.begin());
  std::vector<int> path;
  while (seen_at[static_cast<std::size_t>(at)] < 0) {
    seen_at[static_cast<std::size_t>(at)] = static_cast<int>(path.size());
    path.push_back(at);
    for (int d : trace.ops[static_cast<std::size_t>(at)].deps) {
      if (missing[static_cast<std::size_t>(d)] > 0) {
        at = d;
        break;
      }
    }
  }
  std::string names;
  for (std::size_t k = path.size(); k-- > static_cast<std::size_t>(seen_at[static_cast<std::size_t>(at)]);) {
    if (names.size() > 400) {
      names += "..., ";
      break;
    }
    names += "'" + trace.ops[static_cast<std::size_t>(path[k])].name + "', ";
  }
  names.resize(names.size() - 2);
  ir::user_error(errors::kTraceDependency, {.file = trace.file},
                 "the dependencies of operations form a cycle: " + names);
}

// All operations, each after its dependencies, otherwise by position.
std::vector<int> in_order(RecordedTrace& trace) {
  const std::size_t n = trace.ops.size();
  std::vector<int> missing(n, 0), order;
  std::vector<std::vector<int>> users(n);
  for (std::size_t k = 0; k < n; ++k) {
    std::vector<int>& deps = trace.ops[k].deps;
    std::sort(deps.begin(), deps.end());
    deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
    missing[k] = static_cast<int>(deps.size());
    for (int d : deps) users[static_cast<std::size_t>(d)].push_back(static_cast<int>(k));
  }
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  const auto push = [&](int k) { ready.emplace(position(trace.ops[static_cast<std::size_t>(k)]), k); };
  for (std::size_t k = 0; k < n; ++k) {
    if (missing[k] == 0) push(static_cast<int>(k));
  }
  while (!ready.empty()) {
    const int k = ready.top().second;
    ready.pop();
    order.push_back(k);
    for (int u : users[static_cast<std::size_t>(k)]) {
      if (--missing[static_cast<std::size_t>(u)] == 0) push(u);
    }
  }
  if (order.size() < n) circle(trace, missing);
  return order;
}

using Interval = std::pair<double, double>;

// Sorted and disjoint.
std::vector<Interval> merged(std::vector<Interval> all) {
  std::sort(all.begin(), all.end());
  std::vector<Interval> out;
  for (const Interval& i : all) {
    if (!out.empty() && i.first <= out.back().second) {
      out.back().second = std::max(out.back().second, i.second);
    } else {
      out.push_back(i);
    }
  }
  return out;
}

double length(const std::vector<Interval>& disjoint) {
  double sum = 0;
  for (const Interval& i : disjoint) sum += i.second - i.first;
  return sum;
}

RecordedTimes times_of(const std::vector<RecordedInterval>& recorded) {
  std::vector<Interval> compute, communication, all;
  for (const RecordedInterval& r : recorded) {
    (r.collective ? communication : compute).emplace_back(r.begin_ns, r.end_ns);
    all.emplace_back(r.begin_ns, r.end_ns);
  }
  RecordedTimes t;
  if (all.empty()) return t;
  const std::vector<Interval> busy = merged(all);
  t.makespan = busy.back().second - busy.front().first;
  t.compute = length(merged(compute));
  t.communication = length(merged(communication));
  t.exposed = length(busy) - t.compute;
  t.idle = t.makespan - length(busy);
  return t;
}

// A trace is that of one rank and names only its groups. If groups of this size tile all ranks in a grid,
// such as [0, 1, 2, 3] of 8 or [0, 4], returns the whole partition: the other ranks communicate at the same
// moment in groups of their own. Otherwise returns the group alone.
ir::Parts with_siblings(const std::vector<int>& group, int world) {
  const std::int64_t size = std::ssize(group), stride = group[1] - group[0], block = size * stride;
  if (stride < 1 || world > ir::kMaxRanks || block > world || world % block != 0) return {group};
  const ir::Mesh mesh = {{"before", static_cast<int>(world / block)},
                         {"along", static_cast<int>(size)},
                         {"after", static_cast<int>(stride)}};
  const int along = 1;
  ir::Parts parts = ir::parts_along(mesh, {&along, 1});
  return std::find(parts.begin(), parts.end(), group) == parts.end() ? ir::Parts{group} : parts;
}

class Builder {
 public:
  explicit Builder(RecordedTrace trace) : trace_(std::move(trace)) {
    out_.format = trace_.format;
    out_.assumptions = std::move(trace_.assumptions);
    out_.schedule.channels = ir::ChannelPolicy::communicator;
    graph().name = "trace";
  }

  ImportedTrace run() && {
    bool timed = false, work = false;
    for (const RecordedOp& op : trace_.ops) {
      timed |= !op.host && op.end_ns > 0;
      work |= !op.host;
    }
    if (!work) {
      ir::user_error(errors::kEmptyTrace, {.file = trace_.file},
                     "the trace has no kernels or collectives of a device",
                     "record with ProfilerActivity.CUDA on the rank of interest");
    }
    if (timed) charge();
    for (const RecordedOp& op : trace_.ops) {
      if (op.collective)
        trace_.ranks = std::max(trace_.ranks, *std::ranges::max_element(op.collective->ranks) + 1);
    }
    graph().ranks = trace_.ranks;
    const std::vector<int> order = in_order(trace_);
    mark_needed(order);
    results_.resize(trace_.ops.size());
    for (int k : order) emit(k);
    for (std::size_t k = 0; k < pending_.size(); ++k) finish(pending_[k]);
    for (const auto& op : trace_.ops) out_.kernels += !op.host && !op.collective ? 1 : 0;
    outputs();
    if (timed) {
      out_.machine = "recorded";
      std::stable_sort(
          out_.recorded.begin(), out_.recorded.end(),
          [](const RecordedInterval& a, const RecordedInterval& b) { return a.begin_ns < b.begin_ns; });
      const double zero = out_.recorded.empty() ? 0 : out_.recorded.front().begin_ns;
      for (RecordedInterval& r : out_.recorded) {
        r.begin_ns -= zero;
        r.end_ns -= zero;
      }
      out_.times = times_of(out_.recorded);
    } else {
      out_.recorded.clear();
    }
    return std::move(out_);
  }

 private:
  ir::Graph& graph() { return out_.schedule.graph; }
  const RecordedOp& op(int k) const { return trace_.ops[static_cast<std::size_t>(k)]; }

  // Kernels of several streams may run concurrently; ours run one after another. Each is charged with the
  // time that it adds to those that began before it, so that together they take as long as recorded.
  void charge() {
    std::vector<int> kernels;
    for (std::size_t k = 0; k < trace_.ops.size(); ++k) {
      if (!trace_.ops[k].host && !trace_.ops[k].collective) kernels.push_back(static_cast<int>(k));
    }
    std::stable_sort(kernels.begin(), kernels.end(),
                     [&](int a, int b) { return op(a).begin_ns < op(b).begin_ns; });
    charged_.assign(trace_.ops.size(), 0);
    double covered = -std::numeric_limits<double>::infinity();
    int beside = 0;
    for (int k : kernels) {
      const double begin = std::max(op(k).begin_ns, covered);
      charged_[static_cast<std::size_t>(k)] = std::max(0.0, op(k).end_ns - begin);
      beside += begin > op(k).begin_ns ? 1 : 0;
      covered = std::max(covered, op(k).end_ns);
    }
    if (beside > 0) {
      out_.assumptions.push_back(fmt::format(
          "{} kernels ran concurrently with others: each counts with the time that it adds", beside));
    }
  }

  // Marks the host operations that something on the device depends on.
  void mark_needed(const std::vector<int>& order) {
    needed_.assign(trace_.ops.size(), false);
    for (std::size_t i = order.size(); i-- > 0;) {
      const int k = order[i];
      if (op(k).host && !needed_[static_cast<std::size_t>(k)]) continue;
      for (int d : op(k).deps) needed_[static_cast<std::size_t>(d)] = true;
    }
  }

  // The result of an operation, for those that depend on it.
  struct Result {
    std::vector<int> of;  // host operations pass on their dependencies: operations or joins
    BufferId buffer;      // kernels; collectives when they were waited for
    OpId start;           // collectives
    bool used = false;
  };
  Result& result(int k) { return results_[static_cast<std::size_t>(k)]; }

  void emit(int k) {
    if (op(k).host) {
      if (needed_[static_cast<std::size_t>(k)]) pass_on(k);
      return;
    }
    std::vector<int> from;
    for (int d : op(k).deps) append(d, from);
    std::sort(from.begin(), from.end());
    from.erase(std::unique(from.begin(), from.end()), from.end());
    if (op(k).collective) {
      start(k, from);
    } else {
      ir::Cost cost = cost_of(k);
      cost.kernel_class = recorded_class(op(k).name);
      result(k).buffer = kernel(op(k).name, from, cost);
      record(k, graph()[result(k).buffer].producer);
    }
  }

  void append(int d, std::vector<int>& from) {
    if (op(d).host && !result(d).buffer.valid()) {
      const std::vector<int>& of = result(d).of;
      from.insert(from.end(), of.begin(), of.end());
    } else {
      from.push_back(d);
    }
  }

  // A host operation after several operations of the device becomes a kernel without cost, so that the number
  // of dependencies stays that of the trace.
  void pass_on(int k) {
    std::vector<int> from;
    for (int d : op(k).deps) append(d, from);
    std::sort(from.begin(), from.end());
    from.erase(std::unique(from.begin(), from.end()), from.end());
    if (from.size() <= 1) {
      result(k).of = std::move(from);
    } else {
      result(k).buffer = kernel(op(k).name, from, {.ns = 0});
    }
  }

  ir::Cost cost_of(int k) const {
    if (op(k).work) return *op(k).work;
    if (!charged_.empty() && !op(k).collective) return {.ns = charged_[static_cast<std::size_t>(k)]};
    return {.ns = op(k).end_ns - op(k).begin_ns};
  }

  std::vector<ir::TensorRef> reads(const std::vector<int>& from) {
    std::vector<ir::TensorRef> out;
    for (int d : from) {
      if (result(d).start.valid()) finish(d);
      result(d).used = true;
      out.push_back(whole(graph(), result(d).buffer));
    }
    return out;
  }

  OpId append(ir::Operation operation) {
    const OpId id = graph().add_op(std::move(operation));
    out_.schedule.nodes.push_back(ir::ScheduleNode::single(id));
    return id;
  }

  // Nothing is known about memory: a result is one byte that stands for the dependency.
  BufferId kernel(const std::string& name, const std::vector<int>& from, ir::Cost cost) {
    ir::ExternKernel kernel;
    kernel.callee = name;
    kernel.reads = reads(from);
    const BufferId out = graph().add_owned(name, ir::DType::u8, {ir::Expr(1)});
    kernel.writes = {whole(graph(), out)};
    append({name, std::move(kernel), {out}, {}, cost});
    return out;
  }

  BufferId comm_buffer(const std::string& name, ir::DType dtype, std::int64_t elements, ir::GroupId group) {
    const BufferId id = graph().add_owned(name, dtype, {ir::Expr(elements)}, ir::StorageKind::comm);
    ir::Storage& storage = graph()[graph()[id].storage];
    storage.comm_kind = ir::CommBufferKind::registered;
    storage.groups = {group};
    graph()[id].layout = ir::CommBufferLayout{{ir::Expr(1)}, ir::CommBufferKind::registered, {group}};
    return id;
  }

  ir::GroupId group_of(const RecordedCollective& c) {
    const auto [found, added] = groups_.try_emplace({c.group, c.ranks});
    if (!added) return found->second;
    // Groups of one name but different ranks (two traces of processes with counters of their own).
    const std::string name = group_names_.unique(c.group, "group");
    ir::Parts parts = c.pair ? ir::Parts{c.ranks} : with_siblings(c.ranks, trace_.ranks);
    if (parts.size() > 1)
      out_.assumptions.push_back(
          fmt::format("the {} ranks of '{}' are one of {} groups that communicate at the same moment",
                      c.ranks.size(), name, parts.size()));
    found->second = graph().add_partition(name, std::move(parts));
    return found->second;
  }

  void start(int k, const std::vector<int>& from) {
    const RecordedCollective& c = *op(k).collective;
    const auto n = static_cast<std::int64_t>(c.ranks.size());
    const ir::GroupId group = group_of(c);
    const ir::CollectiveRow& row = ir::row_of(c.kind);
    const std::int64_t given = std::max<std::int64_t>(1, c.elements);
    const std::int64_t block = row.in == ir::Blocks::all ? (given + n - 1) / n : given;
    const std::int64_t in = row.in == ir::Blocks::all ? block * n : block;
    const std::int64_t out = row.out == ir::Blocks::all ? block * n : block;

    // The operand, which exists once all dependencies of the collective are complete.
    const std::string name = op(k).name;
    ir::ExternKernel pack;
    pack.callee = "operand";
    pack.reads = reads(from);
    const BufferId operand = comm_buffer(name + ".operand", c.dtype, in, group);
    pack.writes = {whole(graph(), operand)};
    append({name + ".operand", std::move(pack), {operand}, {}, ir::Cost{.ns = 0}});

    ir::CollectiveKernel kernel;
    kernel.kind = c.kind;
    kernel.group = group;
    if (row.rooted) kernel.root = 0;
    kernel.inputs = {whole(graph(), operand)};
    const BufferId result_buffer =
        row.elementwise() ? graph().add_mutation(operand, name) : comm_buffer(name, c.dtype, out, group);
    kernel.outputs = {whole(graph(), result_buffer)};
    std::optional<ir::Cost> cost;
    if (op(k).end_ns > op(k).begin_ns) cost = cost_of(k);
    result(k).start = append({name, std::move(kernel), {result_buffer}, {}, cost});
    result(k).buffer = result_buffer;
    record(k, result(k).start);
    pending_.push_back(k);
    ++out_.collectives;
  }

  // Waits for a collective, but only once.
  void finish(int k) {
    Result& r = result(k);
    if (!r.start.valid()) return;
    const std::string name = graph()[r.start].name;
    const BufferId waited = graph().add_mutation(r.buffer, name + ".wait");
    append({name + ".wait", ir::WaitKernel{r.start}, {waited}, {}, std::nullopt});
    append({name + ".release", ir::ReleaseKernel{r.start}, {}, {}, std::nullopt});
    r.buffer = waited;
    r.start = OpId{};
  }

  void record(int k, OpId id) {
    out_.recorded.push_back({id, op(k).begin_ns, op(k).end_ns, op(k).stream, op(k).collective.has_value()});
  }

  // Operations without dependents are results of the program.
  void outputs() {
    ir::NameTable names;
    for (std::size_t k = 0; k < results_.size(); ++k) {
      if (results_[k].used || !results_[k].buffer.valid()) continue;
      graph().outputs.push_back({names.unique(trace_.ops[k].name, "output"), results_[k].buffer});
    }
  }

  RecordedTrace trace_;
  ImportedTrace out_;
  std::vector<double> charged_;
  std::vector<bool> needed_;
  std::vector<Result> results_;
  std::vector<int> pending_;  // collectives, in order of their starts
  std::map<std::pair<std::string, std::vector<int>>, ir::GroupId> groups_;
  ir::NameTable group_names_;
};

}  // namespace

ImportedTrace make_schedule(RecordedTrace trace) { return Builder(std::move(trace)).run(); }

}  // namespace braid::frontend
