#include "analysis/check/projection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "analysis/check/errors.h"
#include "ir/collective_table.h"
#include "ir/error.h"

namespace braid::check {
namespace {

using ir::CollectiveKind;
using ir::CollectiveTrace;
using ir::TraceEvent;

constexpr const char* kCompileAlike = "compile all ranks' programs from the same model with the same options";

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, " "));
}

void same_world(const std::vector<CollectiveTrace>& traces) {
  const CollectiveTrace& first = traces[0];
  for (const CollectiveTrace& t : traces) {
    if (t.ranks != first.ranks) {
      ir::user_error(kNotOneProgram, {.file = t.source},
                     fmt::format("is for {} ranks, {} is for {}", t.ranks, first.source, first.ranks),
                     kCompileAlike);
    }
    if (t.channels != first.channels) {
      ir::user_error(kNotOneProgram, {.file = t.source},
                     fmt::format("has channels {}, {} has {}", to_string(t.channels), first.source,
                                 to_string(first.channels)),
                     kCompileAlike);
    }
  }
  if (traces.size() != 1 && static_cast<int>(traces.size()) != first.ranks) {
    ir::user_error(kNotOneProgram, {.file = first.source},
                   fmt::format("is for {} ranks, but {} programs were given", first.ranks, traces.size()),
                   "give one program for all ranks, or one for each");
  }
}

// One name, one list of ranks, wherever the group is used.
void same_groups(const Projection& p) {
  std::map<std::string, std::map<std::vector<int>, std::vector<int>>>
      meanings;  // name -> list -> who says so
  for (std::size_t r = 0; r < p.of_rank.size(); ++r) {
    const CollectiveTrace& trace = *p.of_rank[r];
    std::set<int> used;
    for (const TraceEvent& e : trace.events) used.insert(e.group);
    for (const int g : used) {
      const ir::CommGroup& group = trace.groups[static_cast<std::size_t>(g)];
      meanings[group.name][group.ranks].push_back(static_cast<int>(r));
    }
  }
  for (const auto& [name, lists] : meanings) {
    if (lists.size() == 1) continue;
    std::string text = fmt::format("the ranks mean different groups by '{}':", name);
    for (const auto& [list, who] : lists)
      text += fmt::format("\n  {}: {}", ranks_text(who), ranks_text(list));
    ir::user_error(kRanksDisagree, {}, text, "give groups of different ranks different names");
  }
}

}  // namespace

std::string title(const Stream& s) {
  if (s.paired()) return fmt::format("sends {} -> {} of group '{}'", s.source, s.destination, s.group);
  return fmt::format("group '{}' ({})", s.group, ranks_text(s.ranks));
}

std::string agreement_key(const Stream& stream, const TraceEvent& e) {
  std::string text;
  if (!stream.paired()) {
    text = fmt::format("{} {} {} {}", to_string(e.kind), e.reduce, e.algorithm, e.place);
    if (e.kind == CollectiveKind::broadcast) text += fmt::format(" root {}", e.peer);
  }
  return text + fmt::format(" {}{}", fmt::join(e.payload, ", "), e.repeat);
}

Projection project(const std::vector<CollectiveTrace>& traces) {
  ir::internal_check(!traces.empty(), "no trace to check");
  same_world(traces);
  Projection p;
  const int ranks = traces[0].ranks;
  for (int r = 0; r < ranks; ++r)
    p.of_rank.push_back(&traces[traces.size() == 1 ? 0 : static_cast<std::size_t>(r)]);
  same_groups(p);
  p.place.resize(p.of_rank.size());
  std::map<std::tuple<std::string, int, int>, int> found;
  for (int r = 0; r < ranks; ++r) {
    const CollectiveTrace& trace = *p.of_rank[static_cast<std::size_t>(r)];
    for (std::size_t k = 0; k < trace.events.size(); ++k) {
      const TraceEvent& e = trace.events[k];
      if (e.step != TraceEvent::Step::start) continue;
      const ir::CommGroup& group = trace.groups[static_cast<std::size_t>(e.group)];
      if (std::find(group.ranks.begin(), group.ranks.end(), r) == group.ranks.end()) continue;
      int source = -1, destination = -1;
      if (row_of(e.kind).point_to_point) {
        const int other = group.ranks[static_cast<std::size_t>(e.peer)];
        if (other == r) continue;  // to itself: nothing happens
        source = e.kind == CollectiveKind::send ? r : other;
        destination = e.kind == CollectiveKind::send ? other : r;
      }
      const auto [entry, fresh] =
          found.try_emplace({group.name, source, destination}, static_cast<int>(p.streams.size()));
      if (fresh) {
        Stream s{.group = group.name,
                 .ranks = group.ranks,
                 .source = source,
                 .destination = destination,
                 .members = group.ranks,
                 .events = {}};
        if (s.paired()) s.members = {source, destination};
        s.events.resize(s.members.size());
        p.streams.push_back(std::move(s));
      }
      Stream& s = p.streams[static_cast<std::size_t>(entry->second)];
      const auto member = std::find(s.members.begin(), s.members.end(), r) - s.members.begin();
      std::vector<int>& mine = s.events[static_cast<std::size_t>(member)];
      p.place[static_cast<std::size_t>(r)][static_cast<int>(k)] = {entry->second,
                                                                   static_cast<int>(mine.size())};
      mine.push_back(static_cast<int>(k));
    }
  }
  return p;
}

void compare(const Projection& p) {
  for (const Stream& s : p.streams) {
    std::size_t longest = 0;
    for (const auto& events : s.events) longest = std::max(longest, events.size());
    for (std::size_t k = 0; k < longest; ++k) {
      std::map<std::string, std::vector<int>> sides;  // key -> members
      for (std::size_t m = 0; m < s.members.size(); ++m) {
        const bool there = k < s.events[m].size();
        sides[there ? agreement_key(s, p.event(s.members[m], s.events[m][k])) : ""].push_back(
            static_cast<int>(m));
      }
      if (sides.size() == 1) continue;
      std::string text = fmt::format("number {} of {}: the ranks do different things", k, title(s));
      for (const auto& [key, members] : sides) {
        std::vector<int> who;
        for (const int m : members) who.push_back(s.members[static_cast<std::size_t>(m)]);
        const auto first = static_cast<std::size_t>(members[0]);
        const std::string& source = p.of_rank[static_cast<std::size_t>(who[0])]->source;
        const std::size_t length = s.events[first].size();
        text +=
            fmt::format("\n  {} ({}): {}", ranks_text(who), source,
                        k < length    ? describe(p.event(who[0], s.events[first][k]))
                        : length == 0 ? std::string("nothing: uses it never")
                                      : fmt::format("nothing: stops after number {}, {}", length - 1,
                                                    describe(p.event(who[0], s.events[first][length - 1]))));
      }
      ir::user_error(kRanksDisagree, {}, text, kCompileAlike);
    }
  }
}

}  // namespace braid::check
