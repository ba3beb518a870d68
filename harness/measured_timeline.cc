// The timeline of a run (harness/profile.h).

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "analysis/measure.h"
#include "harness/profile.h"

namespace braid::harness {
namespace {

using explain::MeasuredTimeline;

explain::MeasuredKind kind_of(BraidNodeKind kind) {
  switch (kind) {
    case BRAID_NODE_KERNEL:
      return explain::MeasuredKind::kernel;
    case BRAID_NODE_START:
      return explain::MeasuredKind::start;
    case BRAID_NODE_WAIT:
      return explain::MeasuredKind::wait;
    case BRAID_NODE_RELEASE:
      return explain::MeasuredKind::release;
    case BRAID_NODE_BLOCKING:
      return explain::MeasuredKind::blocking;
  }
  return explain::MeasuredKind::kernel;
}

// A collective of the timeline is a node that starts one of the table's collectives, or several if coalesced.
void add_nodes(const BraidProgram& table, MeasuredTimeline& t) {
  std::vector<int> collective_of(static_cast<std::size_t>(table.collective_count), -1);
  for (int k = 0; k < table.node_count; ++k) {
    const BraidNode& n = table.nodes[k];
    explain::MeasuredNode node{n.name, n.label, kind_of(n.kind), -1};
    if (n.kind == BRAID_NODE_START || n.kind == BRAID_NODE_BLOCKING) {
      const BraidCollective& c = table.collectives[n.collective];
      std::int64_t bytes = 0;
      for (int i = 0; i < n.collectives; ++i) bytes += table.collectives[n.collective + i].max_bytes;
      collective_of[static_cast<std::size_t>(n.collective)] = static_cast<int>(t.collectives.size());
      const bool paired = std::strcmp(c.kind, "send") == 0 || std::strcmp(c.kind, "recv") == 0;
      t.collectives.push_back(
          {n.name,
           fmt::format("{} @{} {}", c.kind, table.groups[c.group].name, analysis::format_bytes(bytes)),
           c.group, paired});
    }
    if (n.collective >= 0) node.collective = collective_of[static_cast<std::size_t>(n.collective)];
    t.nodes.push_back(std::move(node));
  }
}

}  // namespace

MeasuredTimeline measured_timeline(const Program& program, const std::vector<RankResult>& results,
                                   const ExecuteOptions& options) {
  const BraidProgram& table = *program.host_table();
  MeasuredTimeline t;
  t.program = table.name;
  if (options.link && table.ranks > 1) {
    t.link = fmt::format("{:g} us, {:g} GB/s", static_cast<double>(options.link->latency_ns) / 1e3,
                         options.link->bytes_per_ns);
  }
  for (int g = 0; g < table.group_count; ++g) {
    const BraidGroup& group = table.groups[g];
    ir::CommGroup& measured = t.groups.emplace_back(ir::CommGroup{group.name, {}});
    for (int p = 0; p < group.parts; ++p)
      measured.parts.emplace_back(group.ranks + p * group.size, group.ranks + (p + 1) * group.size);
  }
  add_nodes(table, t);
  for (std::size_t step = 0; step < results[0].node_times.size(); ++step) {
    std::int64_t zero = std::numeric_limits<std::int64_t>::max();
    for (const RankResult& r : results) zero = std::min(zero, r.node_times[step].front().begin_ns);
    explain::StepTimes times;
    for (const RankResult& r : results) {
      explain::RankTimes rank;
      for (const BraidNodeTimes& n : r.node_times[step])
        rank.push_back({n.begin_ns - zero, n.due_ns > 0 ? n.due_ns - zero : 0, n.slept_ns});
      times.push_back(std::move(rank));
    }
    t.steps.push_back(std::move(times));
  }
  return t;
}

}  // namespace braid::harness
