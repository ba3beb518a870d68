#include "codegen/trace_json.h"

#include <nlohmann/json.hpp>

#include "codegen/manifest.h"
#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::codegen {
namespace {

using nlohmann::ordered_json;

// The value named `text` of an enumeration whose last value is `last`. Throws std::out_of_range.
template <class Enum>
Enum named(const std::string& text, Enum last) {
  for (int k = 0; k <= static_cast<int>(last); ++k) {
    if (to_string(static_cast<Enum>(k)) == text) return static_cast<Enum>(k);
  }
  throw std::out_of_range(text);
}

// "ranks", or "parts" where there are several.
ir::CommGroup read_group(const ordered_json& j) {
  ir::CommGroup group{j.at("name").get<std::string>(), {}};
  group.parts =
      j.contains("parts") ? j["parts"].get<ir::Parts>() : ir::Parts{j.at("ranks").get<std::vector<int>>()};
  return group;
}

ir::TraceEvent read_event(const ordered_json& j, const std::vector<ir::TraceEvent>& before,
                          std::size_t groups) {
  ir::TraceEvent e;
  if (j.contains("wait")) {
    const auto start = j["wait"].get<std::size_t>();
    e = before.at(start);
    if (e.step != ir::TraceEvent::Step::start) throw std::out_of_range("wait");
    e.step = ir::TraceEvent::Step::wait;
    e.start = static_cast<int>(start);
    return e;
  }
  e.kind = ir::collective_kind(j.at("kind").get<std::string>()).value();
  e.group = j.at("group").get<int>();
  if (e.group < 0 || static_cast<std::size_t>(e.group) >= groups) throw std::out_of_range("group");
  e.peer = j.value("peer", -1);
  e.blocking = j.value("blocking", false);
  e.reduce = j.value("reduce", "");
  e.algorithm = j.value("algorithm", "");
  e.payload = j.at("payload").get<std::vector<std::string>>();
  e.place = j.value("place", "");
  e.repeat = j.value("repeat", "");
  e.name = j.at("name").get<std::string>();
  e.origins = j.value("nodes", std::vector<std::string>{});
  return e;
}

}  // namespace

ordered_json trace_json(const ir::CollectiveTrace& trace) {
  ordered_json list = ordered_json::array();
  for (const ir::TraceEvent& e : trace.events) {
    ordered_json j;
    if (e.step == ir::TraceEvent::Step::wait) {
      j["wait"] = e.start;
      list.push_back(std::move(j));
      continue;
    }
    j["name"] = e.name;
    j["kind"] = std::string(to_string(e.kind));
    j["group"] = e.group;
    if (e.peer >= 0) j["peer"] = e.peer;
    if (e.blocking) j["blocking"] = true;
    if (!e.reduce.empty()) j["reduce"] = e.reduce;
    if (!e.algorithm.empty()) j["algorithm"] = e.algorithm;
    j["payload"] = e.payload;
    if (!e.place.empty()) j["place"] = e.place;
    if (!e.repeat.empty()) j["repeat"] = e.repeat;
    if (!e.origins.empty()) j["nodes"] = e.origins;
    list.push_back(std::move(j));
  }
  return list;
}

ir::CollectiveTrace read_program_trace(const std::string& dir) {
  read_manifest(dir);  // checks that it is complete
  try {
    const ordered_json manifest = manifest_json(dir).value();
    ir::CollectiveTrace trace;
    trace.source = dir;
    trace.ranks = manifest.at("ranks").get<int>();
    if (trace.ranks < 1 || trace.ranks > ir::kMaxRanks) throw std::out_of_range("ranks");
    trace.channels = named(manifest.at("channels").get<std::string>(), ir::ChannelPolicy::edge);
    for (const ordered_json& g : manifest.at("groups")) trace.groups.push_back(read_group(g));
    for (const ir::CommGroup& g : trace.groups) {
      if (!g.fault(trace.ranks).empty()) throw std::out_of_range("group");
    }
    for (const ordered_json& e : manifest.at("collective_trace"))
      trace.events.push_back(read_event(e, trace.events, trace.groups.size()));
    for (const ir::TraceEvent& e : trace.events) {
      const std::int64_t size = trace.groups[static_cast<std::size_t>(e.group)].size();
      if (e.peer >= size || (ir::row_of(e.kind).rooted && e.peer < 0)) throw std::out_of_range("peer");
    }
    return trace;
  } catch (const std::exception&) {
    ir::user_error(errors::kNoProgram, {.file = manifest_path(dir)},
                   "there is no compiled program with its collectives here",
                   "create one with: braid compile MODEL.onnx -o DIR");
  }
}

}  // namespace braid::codegen
