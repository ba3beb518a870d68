#include "analysis/check/check_traces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "analysis/check/event_graph.h"
#include "analysis/check/projection.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::check {
namespace {

using ir::ChannelPolicy;
using ir::TraceEvent;

// An event of the proof: collective `number` of a stream has begun on all members, or (stream < 0) a rank has
// reached a place in its trace.
struct Event {
  int stream = -1, number = 0;
  int rank = -1, index = 0;
};

struct QueueEdge {
  int first, then, rank;
};

class Proof {
 public:
  explicit Proof(const Projection& p) : p_(p) {
    for (const int s : p.streams.ids()) {
      first_of_stream_.push_back(graph_.size());
      for (int k = 0; k < std::ssize(p.streams[s].events[0]); ++k) add({.stream = s, .number = k});
    }
    for (const int r : p.of_rank.ids()) add_rank(r);
  }

  std::vector<std::string> order() const {
    const auto order = graph_.order();
    if (!order) deadlock();
    std::vector<std::string> names;
    for (const int e : *order) {
      const Event& event = events_[e];
      if (event.stream < 0) continue;
      const Stream& s = p_.streams[event.stream];
      names.push_back(p_.event(s.members[0], ir::at(s.events[0], event.number)).name);
    }
    return names;
  }

 private:
  int add(Event event) {
    events_.push_back(event);
    return graph_.add_event();
  }

  // The name of the queue of a rank that collectives of the stream go through.
  std::string queue(const Stream& s) const {
    switch (p_.of_rank[0]->channels) {
      case ChannelPolicy::global:
        return "all";
      case ChannelPolicy::communicator:
        return "group " + s.group;
      case ChannelPolicy::pair:
        if (s.paired())
          return fmt::format("pair {} {}", std::min(s.source, s.destination),
                             std::max(s.source, s.destination));
        return "group " + s.group;
      case ChannelPolicy::edge:
        if (s.paired()) return fmt::format("edge {} {}", s.source, s.destination);
        return "group " + s.group;
    }
    return {};
  }

  void add_rank(int r) {
    const ir::CollectiveTrace& trace = *p_.of_rank[r];
    std::map<std::string, int> last;  // of each queue
    int here = -1;                    // where the rank is
    std::vector<int> before;          // what must have begun before it proceeds
    for (int k = 0; k < std::ssize(trace.events); ++k) {
      const TraceEvent& e = ir::at(trace.events, k);
      const bool start = e.step == TraceEvent::Step::start;
      const auto place = p_.place[r].find(start ? k : e.start);
      if (place == p_.place[r].end()) continue;  // not a member
      const auto [stream, number] = place->second;
      const int collective = first_of_stream_[stream] + number;
      const int point = add({.rank = r, .index = k});
      if (here >= 0) graph_.add_edge(here, point);
      for (const int b : before) graph_.add_edge(b, point);
      before.clear();
      here = point;
      if (!start) {
        graph_.add_edge(collective, point);
        continue;
      }
      graph_.add_edge(point, collective);
      if (number >= kInFlight) graph_.add_edge(collective - kInFlight, point);
      if (e.blocking) before.push_back(collective);
      const auto [entry, fresh] = last.try_emplace(queue(p_.streams[stream]), collective);
      if (!fresh) {
        graph_.add_edge(entry->second, collective);
        queue_edges_.push_back({entry->second, collective, r});
        entry->second = collective;
      }
    }
  }

  std::string text(int collective, int rank) const {
    const Event& event = events_[collective];
    const Stream& s = p_.streams[event.stream];
    const auto found = std::find(s.members.begin(), s.members.end(), rank);
    const auto member = found == s.members.end() ? 0 : found - s.members.begin();
    return fmt::format(
        "{}, number {} of {}",
        describe(p_.event(ir::at(s.members, member), ir::at(ir::at(s.events, member), event.number))),
        event.number, title(s));
  }

  [[noreturn]] void deadlock() const {
    std::vector<int> cycle = graph_.shortest_cycle();
    const auto collective = [&](int e) { return events_[e].stream >= 0; };
    // Begin with a collective: there is one, since the places of one rank form no cycle.
    std::rotate(cycle.begin(), std::find_if(cycle.begin(), cycle.end(), collective), cycle.end());
    const ChannelPolicy channels = p_.of_rank[0]->channels;
    std::string lines;
    for (std::size_t k = 0; k < cycle.size();) {
      std::size_t next = k + 1;
      int rank = -1;
      while (next < cycle.size() && !collective(cycle[next])) rank = events_[cycle[next++]].rank;
      const int from = cycle[k], to = cycle[next % cycle.size()];
      std::string reason = "waits for";
      if (rank < 0) {
        const auto edge = std::find_if(queue_edges_.begin(), queue_edges_.end(),
                                       [&](const QueueEdge& q) { return q.first == from && q.then == to; });
        rank = edge->rank;
        reason = "has in its queue";
      }
      lines +=
          fmt::format("\n  rank {} {} {}\n    before {}", rank, reason, text(from, rank), text(to, rank));
      k = next;
    }
    ir::user_error(
        errors::kDeadlock, {},
        fmt::format("ranks wait for each other (channels {}):{}", to_string(channels), lines),
        channels == ChannelPolicy::global
            ? "start these collectives in one order on all ranks, or give them channels of their own "
              "(channels communicator, pair or edge)"
            : "start these collectives in one order on all ranks, and wait after starting");
  }

  const Projection& p_;
  EventGraph graph_;
  ir::IdVector<int, Event> events_;
  ir::IdVector<int, int> first_of_stream_;
  std::vector<QueueEdge> queue_edges_;
};

std::uint64_t hash_of(const Projection& p, const Stream& s) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const int index : s.events[0]) {
    for (const char c : agreement_key(s, p.event(s.members[0], index)) + "\n") {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
  }
  return hash;
}

}  // namespace

Certificate check_traces(const std::vector<ir::CollectiveTrace>& traces) {
  const Projection p = project(traces);
  compare(p);
  Certificate certificate{.ranks = traces[0].ranks, .channels = traces[0].channels, .lines = {}, .order = {}};
  for (const Stream& s : p.streams) {
    certificate.lines.push_back(
        {.what = title(s), .collectives = ir::count_of(s.events[0]), .hash = hash_of(p, s)});
  }
  certificate.order = Proof(p).order();
  return certificate;
}

std::string fault_of_all_ranks(const ir::CollectiveTrace& trace) {
  try {
    check_traces({trace});
    return {};
  } catch (const ir::UserError& error) {
    return error.what();
  }
}

std::string to_string(const Certificate& c) {
  constexpr std::ptrdiff_t kShown = 12;
  std::string text =
      fmt::format("certificate: {} rank{} agree{} and cannot deadlock (channels {})\n", c.ranks,
                  c.ranks == 1 ? "" : "s", c.ranks == 1 ? "s" : "", to_string(c.channels));
  for (const Certificate::Line& line : c.lines)
    text += fmt::format("  {}: {} collective{}, trace {:016x}\n", line.what, line.collectives,
                        line.collectives == 1 ? "" : "s", line.hash);
  if (c.order.empty()) return text + "  no collective\n";
  const auto shown = std::min(kShown, std::ssize(c.order));
  text += fmt::format("  an order in which all can begin: {}",
                      fmt::join(c.order.begin(), c.order.begin() + shown, ", "));
  if (shown < std::ssize(c.order)) text += fmt::format(", and {} more", std::ssize(c.order) - shown);
  return text + "\n";
}

}  // namespace braid::check
