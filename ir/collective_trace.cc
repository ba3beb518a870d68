#include "ir/collective_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "ir/collective_table.h"
#include "ir/error.h"

namespace braid::ir {
namespace {

std::string payload_of(const Graph& graph, const TensorRef& ref) {
  return fmt::format("{} x {}", to_string(graph[ref.buffer].dtype), to_string(numel(ref.sizes)));
}

// Offsets of the operands that lie in the planned segment: these must be equal on all ranks.
std::string place_of(const Schedule& schedule, const CollectiveKernel& kernel) {
  if (!schedule.plan) return {};
  std::string text;
  const auto add = [&](const char* what, const TensorRef& ref) {
    const MemoryRegion where = region(schedule.graph, ref);
    const auto found = schedule.plan->placements.find(where.storage);
    if (found == schedule.plan->placements.end() || found->second.space != MemorySpace::comm) return;
    text += fmt::format("{}{} {}+{}", text.empty() ? "" : ", ", what, found->second.offset,
                        to_string(where.offset));
  };
  for (const TensorRef& ref : kernel.inputs) add("input", ref);
  for (const TensorRef& ref : kernel.outputs) add("output", ref);
  return text;
}

class Tracer {
 public:
  Tracer(const Schedule& schedule, CollectiveTrace& trace)
      : schedule_(schedule), graph_(schedule.graph), trace_(trace) {}

  void add(const std::vector<OpId>& ops, const std::string& repeat) {
    for (const OpId id : ops) add(id, repeat);
  }

 private:
  void add(OpId id, const std::string& repeat) {
    const Operation& op = graph_[id];
    if (const auto* kernel = op.as<CollectiveKernel>()) {
      add_start(id, op, *kernel, repeat);
    } else if (const auto* wait = op.as<WaitKernel>()) {
      const auto start = last_start_.find(wait->start);
      internal_check(start != last_start_.end(), "wait '{}' comes before its start", op.name);
      TraceEvent event = trace_.events[static_cast<std::size_t>(start->second)];
      event.step = TraceEvent::Step::wait;
      event.start = start->second;
      trace_.events.push_back(std::move(event));
    } else if (const auto* regions = op.as<RegionKernel>()) {
      add_regions(*regions, repeat);
    }
  }

  void add_start(OpId id, const Operation& op, const CollectiveKernel& kernel, const std::string& repeat) {
    TraceEvent event;
    event.kind = kernel.kind;
    event.group = kernel.group.index;
    event.peer = kernel.root;
    event.blocking = kernel.blocking;
    if (row_of(kernel.kind).reduces) event.reduce = to_string(kernel.reduce);
    event.algorithm = to_string(kernel.algorithm);
    for (const TensorRef& ref : kernel.inputs.empty() ? kernel.outputs : kernel.inputs)
      event.payload.push_back(payload_of(graph_, ref));
    event.place = place_of(schedule_, kernel);
    event.repeat = repeat;
    event.name = op.name;
    event.origins = op.origins;
    last_start_[id] = static_cast<int>(trace_.events.size());
    trace_.events.push_back(std::move(event));
  }

  void add_regions(const RegionKernel& kernel, const std::string& repeat) {
    if (kernel.kind != RegionKind::repeat) {
      for (const Region& region : kernel.regions) add(region.ops, repeat);
      return;
    }
    const Region& body = kernel.regions[0];
    const std::string symbolic = repeat + " x " + to_string(kernel.trips);
    if (!kernel.trips.is_constant()) {
      for (int k = 0; k < 2; ++k) add(body.ops, symbolic);
      return;
    }
    const std::int64_t trips = kernel.trips.constant();
    if (trips <= 0) return;
    const std::size_t before = trace_.events.size();
    add(body.ops, repeat);
    const std::size_t each = trace_.events.size() - before;
    if (each == 0) return;
    const std::size_t room = (kMaxUnrolled - std::min(kMaxUnrolled, before)) / each;
    if (static_cast<std::size_t>(trips) <= room) {
      for (std::int64_t k = 1; k < trips; ++k) add(body.ops, repeat);
    } else {
      trace_.events.resize(before);
      for (int k = 0; k < 2; ++k) add(body.ops, symbolic);
    }
  }

  const Schedule& schedule_;
  const Graph& graph_;
  CollectiveTrace& trace_;
  std::map<OpId, int> last_start_;
};

}  // namespace

CollectiveTrace collective_trace(const Schedule& schedule, std::string source) {
  CollectiveTrace trace;
  trace.source = std::move(source);
  trace.ranks = schedule.graph.ranks;
  trace.channels = schedule.channels;
  trace.groups = schedule.graph.groups;
  Tracer(schedule, trace).add(execution_order(schedule), {});
  return trace;
}

std::string describe(const TraceEvent& event) {
  std::string text(to_string(event.kind));
  if (!event.reduce.empty()) text += " " + event.reduce;
  if (row_of(event.kind).rooted)
    text += fmt::format(" {} {}", row_of(event.kind).point_to_point ? "peer" : "root", event.peer);
  text += fmt::format(" {}", fmt::join(event.payload, ", "));
  if (!event.algorithm.empty()) text += " algorithm " + event.algorithm;
  if (!event.place.empty()) text += " at " + event.place;
  text += event.repeat;
  text += fmt::format(" '{}'", event.name);
  if (!event.origins.empty())
    text +=
        fmt::format(" (ONNX node{} {})", event.origins.size() > 1 ? "s" : "", fmt::join(event.origins, ", "));
  return text;
}

}  // namespace braid::ir
