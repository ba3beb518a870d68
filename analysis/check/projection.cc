#include "analysis/check/projection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "analysis/check/check_traces.h"
#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

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
      ir::user_error(errors::kNotOneProgram, {.file = t.source},
                     fmt::format("is for {} ranks, {} is for {}", t.ranks, first.source, first.ranks),
                     kCompileAlike);
    }
    if (t.channels != first.channels) {
      ir::user_error(errors::kNotOneProgram, {.file = t.source},
                     fmt::format("has channels {}, {} has {}", to_string(t.channels), first.source,
                                 to_string(first.channels)),
                     kCompileAlike);
    }
  }
  if (traces.size() != 1 && std::ssize(traces) != first.ranks) {
    ir::user_error(errors::kNotOneProgram, {.file = first.source},
                   fmt::format("is for {} ranks, but {} programs were given", first.ranks, traces.size()),
                   "give one program for all ranks, or one for each");
  }
}

// Refuses a name that stands for different ranks.
void same_groups(const Projection& p) {
  std::map<std::string, std::map<ir::Parts, std::vector<int>>>
      meanings;  // name -> parts -> ranks that use it so
  for (const int r : p.of_rank.ids()) {
    const CollectiveTrace& trace = *p.of_rank[r];
    std::set<int> used;
    for (const TraceEvent& e : trace.events) used.insert(e.group);
    for (const int g : used) {
      const ir::CommGroup& group = ir::at(trace.groups, g);
      meanings[group.name][group.parts].push_back(r);
    }
  }
  for (const auto& [name, all] : meanings) {
    if (all.size() == 1) continue;
    std::string text = fmt::format("the ranks mean different groups by '{}':", name);
    for (const auto& [parts, who] : all)
      text += fmt::format("\n  {}: ranks {}", ranks_text(who), ir::parts_text(parts));
    ir::user_error(errors::kRanksDisagree, {}, text, "give groups of different ranks different names");
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
    if (row_of(e.kind).from_root()) text += fmt::format(" root {}", e.peer);
  }
  return text + fmt::format(" {}{}", fmt::join(e.payload, ", "), e.repeat);
}

Projection project(const std::vector<CollectiveTrace>& traces) {
  ir::internal_check(!traces.empty(), "no trace to check");
  same_world(traces);
  Projection p;
  const int ranks = traces[0].ranks;
  for (int r = 0; r < ranks; ++r) p.of_rank.push_back(&ir::at(traces, traces.size() == 1 ? 0 : r));
  same_groups(p);
  p.place.resize(p.of_rank.size());
  std::map<std::tuple<std::string, int, int, int>, int>
      found;  // group, first rank of the part, source, destination
  for (int r = 0; r < ranks; ++r) {
    const CollectiveTrace& trace = *p.of_rank[r];
    for (const int k : ir::first_ids<int>(ir::count_of(trace.events))) {
      const TraceEvent& e = ir::at(trace.events, k);
      if (e.step != TraceEvent::Step::start) continue;
      const ir::CommGroup& group = ir::at(trace.groups, e.group);
      const std::vector<int>* part = group.part_of(r);
      if (part == nullptr) continue;
      int source = -1, destination = -1;
      if (row_of(e.kind).point_to_point) {
        const int other = ir::at(*part, e.peer);
        if (other == r) continue;  // a transfer to itself does nothing
        source = e.kind == CollectiveKind::send ? r : other;
        destination = e.kind == CollectiveKind::send ? other : r;
      }
      const auto [entry, fresh] =
          found.try_emplace({group.name, part->front(), source, destination}, p.streams.end_id());
      if (fresh) {
        Stream s{.group = group.name,
                 .ranks = *part,
                 .source = source,
                 .destination = destination,
                 .members = ir::IdVector<int, int>(*part),
                 .events = {}};
        if (s.paired()) s.members = {source, destination};
        s.events.resize(s.members.size());
        p.streams.push_back(std::move(s));
      }
      Stream& s = p.streams[entry->second];
      const auto member = std::find(s.members.begin(), s.members.end(), r) - s.members.begin();
      std::vector<int>& mine = ir::at(s.events, member);
      p.place[r][k] = {entry->second, ir::count_of(mine)};
      mine.push_back(k);
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
      for (const int m : s.members.ids()) {
        const bool there = k < s.events[m].size();
        sides[there ? agreement_key(s, p.event(s.members[m], s.events[m][k])) : ""].push_back(m);
      }
      if (sides.size() == 1) continue;
      std::string text = fmt::format("number {} of {}: the ranks do different things", k, title(s));
      for (const auto& [key, members] : sides) {
        std::vector<int> who;
        for (const int m : members) who.push_back(s.members[m]);
        const int first = members[0];
        const std::string& source = p.of_rank[who[0]]->source;
        const std::size_t length = s.events[first].size();
        text +=
            fmt::format("\n  {} ({}): {}", ranks_text(who), source,
                        k < length    ? describe(p.event(who[0], s.events[first][k]))
                        : length == 0 ? std::string("nothing: never uses it")
                                      : fmt::format("nothing: stops after number {}, {}", length - 1,
                                                    describe(p.event(who[0], s.events[first][length - 1]))));
      }
      ir::user_error(errors::kRanksDisagree, {}, text, kCompileAlike);
    }
  }
}

}  // namespace braid::check
