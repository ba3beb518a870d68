#include "explain/measured_timeline_json.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "explain/overlap_text.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"
#include "ir/json_document.h"

namespace braid::explain {
namespace {

using namespace analysis;

using ir::JsonDocument;
using ir::JsonObject;
using ir::JsonValue;
using nlohmann::ordered_json;

constexpr std::int64_t kMaxNs = std::int64_t{1} << 53;  // about 100 days
constexpr const char* kKinds[] = {"kernel", "start", "wait", "release", "blocking"};

int index_in(JsonObject& object, const char* key, std::size_t size) {
  return static_cast<int>(object.integer(key, 0, static_cast<std::int64_t>(size) - 1));
}

std::vector<int> ranks_of(const JsonValue& list, std::size_t ranks) {
  std::vector<int> result;
  for (const JsonValue& r : list.array()) {
    result.push_back(static_cast<int>(r.integer(0, static_cast<std::int64_t>(ranks) - 1)));
  }
  return result;
}

RankTimes times_of(const JsonValue& list, std::size_t nodes) {
  RankTimes times;
  for (const JsonValue& n : list.array()) {
    const std::vector<JsonValue> parts = n.array();
    if (parts.size() != 3) n.fail("expected [begin, due, slept]");
    const std::int64_t earliest = times.empty() ? 0 : times.back().begin;
    times.push_back(
        {parts[0].integer(earliest, kMaxNs), parts[1].integer(-kMaxNs, kMaxNs), parts[2].integer(0, kMaxNs)});
  }
  if (times.size() != nodes + 1)
    list.fail("expected times of " + std::to_string(nodes) + " nodes and of the end");
  return times;
}

ordered_json exact(const MeasuredTimeline& t, const StepTimes& step) {
  ordered_json groups = ordered_json::array(), collectives = groups, nodes = groups, ranks = groups;
  for (const ir::CommGroup& g : t.groups) {
    ordered_json group = {{"name", g.name}};
    if (g.parts.size() == 1)
      group["ranks"] = g.parts[0];
    else
      group["parts"] = g.parts;
    groups.push_back(std::move(group));
  }
  for (const MeasuredCollective& c : t.collectives) {
    collectives.push_back({{"name", c.name}, {"kernel", c.kernel}, {"group", c.group}, {"paired", c.paired}});
  }
  for (const MeasuredNode& n : t.nodes) {
    ordered_json node = {
        {"name", n.name}, {"label", n.label}, {"kind", kKinds[static_cast<std::size_t>(n.kind)]}};
    if (n.collective >= 0) node["collective"] = n.collective;
    nodes.push_back(std::move(node));
  }
  for (const RankTimes& r : step) {
    ordered_json times = ordered_json::array();
    for (const NodeTimes& n : r) times.push_back({n.begin, n.due, n.slept});
    ranks.push_back(std::move(times));
  }
  return {{"version", 1},
          {"program", t.program},
          {"link", t.link},
          {"steps", t.steps.size()},
          {"groups", std::move(groups)},
          {"collectives", std::move(collectives)},
          {"nodes", std::move(nodes)},
          {"ranks", std::move(ranks)}};
}

}  // namespace

std::string to_json(const MeasuredTimeline& t) {
  const auto all = views(t);
  std::vector<std::pair<std::string, const TimelineView*>> list;
  for (const auto& [name, view] : all) list.emplace_back(name, &view);
  ordered_json document = ordered_json::parse(chrome_trace(list));
  document["braid"] = exact(t, t.steps[median_step(t)]);
  return document.dump() + "\n";
}

MeasuredTimeline parse_timeline(const std::string& text, const std::string& file) {
  const JsonDocument document(text, file, errors::kTimelineNotJson, errors::kBadTimeline);
  JsonObject root = document.object();
  const std::optional<JsonValue> part = root.maybe("braid");
  if (!part)
    root.fail("this is not a timeline of 'braid run'", "record one with 'braid run MODEL --trace FILE'");
  JsonObject ours(*part);
  ours.integer("version", 1, 1);
  MeasuredTimeline t;
  t.program = ours.value("program").string();
  t.link = ours.value("link").string();
  ours.integer("steps", 1, INT32_MAX);
  const std::vector<JsonValue> ranks = ours.value("ranks").array();
  if (ranks.empty()) ours.fail("expected at least one rank");
  for (const JsonValue& v : ours.value("groups").array()) {
    JsonObject g(v);
    ir::CommGroup& group = t.groups.emplace_back(ir::CommGroup{g.value("name").string(), {}});
    if (const std::optional<JsonValue> parts = g.maybe("parts")) {
      for (const JsonValue& part : parts->array()) group.parts.push_back(ranks_of(part, ranks.size()));
    } else {
      group.parts.push_back(ranks_of(g.value("ranks"), ranks.size()));
    }
    g.finish();
  }
  for (const JsonValue& v : ours.value("collectives").array()) {
    JsonObject c(v);
    t.collectives.push_back({c.value("name").string(), c.value("kernel").string(),
                             index_in(c, "group", t.groups.size()), c.value("paired").boolean()});
    c.finish();
  }
  for (const JsonValue& v : ours.value("nodes").array()) {
    JsonObject n(v);
    MeasuredNode node{n.value("name").string(), n.value("label").string(), MeasuredKind::kernel, -1};
    const JsonValue kind = n.value("kind");
    const auto found = std::find(std::begin(kKinds), std::end(kKinds), kind.string());
    if (found == std::end(kKinds)) kind.fail("expected kernel, start, wait, release or blocking");
    node.kind = static_cast<MeasuredKind>(found - std::begin(kKinds));
    if (node.kind != MeasuredKind::kernel) node.collective = index_in(n, "collective", t.collectives.size());
    n.finish();
    t.nodes.push_back(std::move(node));
  }
  StepTimes step;
  for (const JsonValue& r : ranks) step.push_back(times_of(r, t.nodes.size()));
  t.steps.push_back(std::move(step));
  ours.finish();
  return t;
}

MeasuredTimeline read_timeline(const std::string& path) {
  return parse_timeline(ir::read_text_file(path), path);
}

}  // namespace braid::explain
