#include "explain/measured_timeline.h"

#include <algorithm>
#include <map>

#include "ir/error.h"

namespace braid::explain {
namespace {

using namespace analysis;

Time ns(std::int64_t t) { return {t * 1000}; }

int rank_count(const MeasuredTimeline& t) { return static_cast<int>(t.steps.front().size()); }
int node_count(const MeasuredTimeline& t) { return static_cast<int>(t.nodes.size()); }

// When the last of the rank's peers in its group started the collective; 0 if the other starts are unknown.
std::int64_t last_start(const MeasuredTimeline& t, const StepTimes& step, int collective, int rank) {
  const MeasuredCollective& c = t.collectives[collective];
  const std::vector<int>* peers = t.groups[c.group].part_of(rank);
  if (c.paired || peers == nullptr) return 0;
  std::int64_t last = 0;
  for (int n = 0; n < node_count(t); ++n) {
    const MeasuredNode& node = t.nodes[n];
    if (node.collective != collective ||
        (node.kind != MeasuredKind::start && node.kind != MeasuredKind::blocking)) {
      continue;
    }
    for (const int peer : *peers) last = std::max(last, step[peer][n].begin);
  }
  return last;
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool waits(const MeasuredNode& node) {
  return node.kind == MeasuredKind::wait || node.kind == MeasuredKind::blocking;
}

bool is_member(const MeasuredTimeline& t, const MeasuredNode& node, int rank) {
  if (node.collective < 0) return true;
  return t.groups[t.collectives[node.collective].group].part_of(rank) != nullptr;
}

// When a collective of one rank was on the link of its group, in ns; begin == end: unknown.
struct OnLink {
  std::int64_t begin = 0, end = 0;
};

std::vector<OnLink> on_link(const MeasuredTimeline& t, const StepTimes& step, int rank) {
  const RankTimes& times = step[rank];
  std::vector<OnLink> out(t.collectives.size());
  std::vector<int> delivered;
  std::map<int, std::int64_t> issued;
  for (int n = 0; n < node_count(t); ++n) {
    const MeasuredNode& node = t.nodes[n];
    if (node.collective < 0 || !is_member(t, node, rank)) continue;
    if (node.kind == MeasuredKind::start || node.kind == MeasuredKind::blocking)
      issued[node.collective] = times[n].begin;
    if (!waits(node) || !issued.contains(node.collective)) continue;
    const std::int64_t due = times[n].due;
    out[node.collective].end = due > 0 ? due : times[n + 1].begin;
    delivered.push_back(node.collective);
  }
  // A link delivers in the order of issue, whatever the order of waits.
  std::ranges::stable_sort(delivered, {}, [&](int c) { return out[c].end; });
  std::map<int, std::int64_t> free;  // by group
  for (const int c : delivered) {
    std::int64_t& from = free[t.collectives[c].group];
    // On the link once all members had started it and its predecessor was complete.
    OnLink& link = out[c];
    link.begin = std::min(link.end, std::max({issued[c], last_start(t, step, c, rank), from}));
    from = link.end;
  }
  return out;
}

}  // namespace

NodeSplit split(const MeasuredTimeline& t, const StepTimes& step, int rank, int node) {
  const RankTimes& times = step[rank];
  const std::int64_t begin = times[node].begin, lasted = times[node + 1].begin - begin;
  const MeasuredNode& n = t.nodes[node];
  if (!is_member(t, n, rank) || !waits(n)) return {ns(lasted), {}, {}};
  const std::int64_t skew =
      std::clamp<std::int64_t>(last_start(t, step, n.collective, rank) - begin, 0, lasted);
  const std::int64_t transfer = std::min(times[node].slept, lasted - skew);
  return {ns(lasted - skew - transfer), ns(transfer), ns(skew)};
}

std::vector<Time> exposed_on_link(const MeasuredTimeline& t, const StepTimes& step, int rank) {
  const std::vector<OnLink> links = on_link(t, step, rank);
  std::vector<Time> charges(t.collectives.size());
  for (int n = 0; n < node_count(t); ++n) {
    const int awaited = t.nodes[n].collective;
    Time rest = split(t, step, rank, n).transfer;
    if (rest.ps == 0) continue;
    const std::int64_t end = links[awaited].end, begin = end - rest.ps / 1000;
    for (std::size_t c = 0; c < links.size(); ++c) {
      if (t.collectives[c].group != t.collectives[awaited].group) continue;
      const std::int64_t both = std::min(end, links[c].end) - std::max(begin, links[c].begin);
      if (both <= 0) continue;
      charges[c] += ns(both);
      rest -= ns(both);
    }
    charges[awaited] += rest;
  }
  return charges;
}

Time makespan(const StepTimes& step) {
  std::int64_t begin = 0, end = 0;
  for (const RankTimes& r : step) {
    begin = std::max(begin, r.front().begin);
    end = std::max(end, r.back().begin);
  }
  return ns(end - begin);
}

std::size_t median_step(const MeasuredTimeline& t) {
  std::vector<std::size_t> order(t.steps.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return makespan(t.steps[a]) < makespan(t.steps[b]); });
  return order[order.size() / 2];
}

std::vector<std::pair<std::string, TimelineView>> views(const MeasuredTimeline& t) {
  const StepTimes& step = t.steps[median_step(t)];
  std::vector<std::pair<std::string, TimelineView>> all;
  for (int rank = 0; rank < rank_count(t); ++rank) {
    const RankTimes& times = step[rank];
    TimelineView view;
    view.lanes = {"compute"};
    for (const ir::CommGroup& g : t.groups) view.lanes.push_back("@" + g.name);
    view.makespan = ns(times.back().begin);
    for (int n = 0; n < node_count(t); ++n) {
      const MeasuredNode& node = t.nodes[n];
      if (!is_member(t, node, rank)) continue;
      const std::int64_t begin = times[n].begin, end = times[n + 1].begin;
      if (begin < end) view.spans.push_back({node.name, node.label, 0, ns(begin), ns(end), waits(node)});
    }
    const std::vector<OnLink> links = on_link(t, step, rank);
    for (std::size_t k = 0; k < links.size(); ++k) {
      const MeasuredCollective& c = t.collectives[k];
      if (links[k].begin < links[k].end) {
        view.spans.push_back({c.name, c.kernel, c.group + 1, ns(links[k].begin), ns(links[k].end), false});
      }
    }
    all.emplace_back("rank " + std::to_string(rank), std::move(view));
  }
  return all;
}

CostEntries measured_costs(const MeasuredTimeline& t) {
  CostEntries entries;
  for (int n = 0; n < node_count(t); ++n) {
    const MeasuredNode& node = t.nodes[n];
    if (node.kind != MeasuredKind::kernel && (t.link.empty() || node.kind == MeasuredKind::blocking))
      continue;
    std::vector<std::int64_t> samples;
    for (const StepTimes& step : t.steps) {
      for (int rank = 0; rank < rank_count(t); ++rank) {
        if (is_member(t, node, rank)) samples.push_back(split(t, step, rank, n).work.ps / 1000);
      }
    }
    if (samples.empty()) continue;
    const std::string key = node.kind == MeasuredKind::start ? node.name + ".issue" : node.name;
    entries[key] = static_cast<double>(median(std::move(samples)));
  }
  return entries;
}

}  // namespace braid::explain
