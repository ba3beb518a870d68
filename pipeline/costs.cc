#include "pipeline/costs.h"

#include <algorithm>
#include <utility>

#include "ir/error_numbers.h"
#include "ir/input_file.h"
#include "ir/json_document.h"

namespace braid::pipeline {
namespace {

using analysis::Time;
using ir::JsonDocument;
using ir::JsonObject;
using ir::JsonValue;

constexpr double kMaxUs = 1e9;
constexpr std::int64_t kMaxBytes = 1'000'000'000'000'000;

double number(JsonObject& object, const char* key, ir::NumberRange range, double otherwise) {
  const auto value = object.maybe(key);
  return value ? value->number(range) : otherwise;
}
Time time(JsonObject& object, const char* key) { return Time::from_us(number(object, key, {0, kMaxUs}, 0)); }
std::int64_t bytes(JsonObject& object, const char* key) {
  const auto value = object.maybe(key);
  return value ? value->integer(0, kMaxBytes) : 0;
}

Link link(JsonObject& object) { return {time(object, "latency_us"), number(object, "gb_s", {1e-6, 1e6}, 0)}; }

StageCosts stage(const JsonValue& value) {
  JsonObject object(value);
  StageCosts s;
  s.forward = time(object, "forward_us");
  s.backward_input = time(object, "backward_input_us");
  s.backward_weight = time(object, "backward_weight_us");
  s.full_backward = s.backward_input + s.backward_weight;
  if (const auto full = object.maybe("full_backward_us"))
    s.full_backward = Time::from_us(full->number({0, kMaxUs}));
  s.unshard = time(object, "unshard_us");
  s.reduce_grad = time(object, "reduce_grad_us");
  s.activation_bytes = bytes(object, "activation_bytes");
  s.weight_bytes = bytes(object, "weight_bytes");
  if (s.weight_bytes > s.activation_bytes)
    value.fail("weight_bytes is the part of activation_bytes that W still needs: it cannot be larger");
  s.forward_bytes = bytes(object, "forward_bytes");
  s.backward_bytes = bytes(object, "backward_bytes");
  s.parameter_bytes = bytes(object, "parameter_bytes");
  s.gradient_bytes = bytes(object, "gradient_bytes");
  object.finish();
  return s;
}

analysis::Permille permille(JsonObject& object, const char* key, ir::NumberRange range) {
  return static_cast<analysis::Permille>(number(object, key, range, 1) * 1000 + 0.5);
}

}  // namespace

Time PipelineCosts::of(Action a) const {
  const StageCosts& s = stages[a.stage];
  switch (a.kind) {
    case ActionKind::forward:
      return s.forward;
    case ActionKind::backward_input:
      return s.backward_input;
    case ActionKind::backward_weight:
      return s.backward_weight;
    case ActionKind::full_backward:
      return s.full_backward;
    case ActionKind::unshard:
      return s.unshard;
    case ActionKind::reduce_grad:
      return s.reduce_grad;
    default:
      return {};
  }
}

Time PipelineCosts::transfer(Action send, std::int32_t from, std::int32_t to) const {
  const auto found =
      std::lower_bound(links.begin(), links.end(), std::pair{from, to},
                       [](const LinkBetween& l, const std::pair<std::int32_t, std::int32_t>& key) {
                         return std::pair{l.from, l.to} < key;
                       });
  const Link& used = found != links.end() && found->from == from && found->to == to ? found->link : link;
  const StageCosts& s = stages[send.stage];
  const std::int64_t size = send.kind == ActionKind::send_forward ? s.forward_bytes : s.backward_bytes;
  if (size == 0 || used.gb_s <= 0) return used.latency;
  // A time beyond the limit of simulations stays beyond it, and stays finite.
  constexpr double kMostNs = 4e15;
  return used.latency + Time::from_ns(std::min(static_cast<double>(size) / used.gb_s, kMostNs));
}

PipelineCosts unit_costs(const PipelineSchedule& schedule) {
  PipelineCosts costs;
  StageCosts s;
  s.forward = s.backward_input = s.backward_weight = Time::from_us(1);
  s.full_backward = Time::from_us(2);
  s.activation_bytes = s.weight_bytes = 1;
  costs.stages.assign(schedule.rank_of_stage.ids(), s);
  return costs;
}

PipelineCosts parse_costs(const std::string& text, const std::string& file, int stages) {
  const JsonDocument document(text, file, errors::kCostsNotJson, errors::kBadCosts);
  JsonObject root = document.object();
  root.integer("version", 1, 1);
  PipelineCosts costs;
  const JsonValue list = root.value("stages");
  for (const JsonValue& s : list.array()) costs.stages.push_back(stage(s));
  if (costs.stages.size() == 1) costs.stages.assign(first_ids<int>(stages), StageCosts(costs.stages[0]));
  if (count_of(costs.stages) != stages) {
    list.fail("expected the costs of " + std::to_string(stages) + " stages, or of one for all, got " +
              std::to_string(costs.stages.size()));
  }
  if (const auto value = root.maybe("link")) {
    JsonObject object(*value);
    costs.link = link(object);
    object.finish();
  }
  if (const auto value = root.maybe("links")) {
    for (const JsonValue& one : value->array()) {
      JsonObject object(one);
      LinkBetween between;
      between.from = static_cast<std::int32_t>(object.integer("from", 0, INT32_MAX));
      between.to = static_cast<std::int32_t>(object.integer("to", 0, INT32_MAX));
      between.link = link(object);
      object.finish();
      for (const LinkBetween& other : costs.links) {
        if (other.from == between.from && other.to == between.to) one.fail("this link is given twice");
      }
      costs.links.push_back(between);
    }
    std::ranges::sort(costs.links, {}, [](const LinkBetween& l) { return std::pair{l.from, l.to}; });
  }
  costs.overlap = permille(root, "overlap", {0.001, 1});
  costs.slowdown = permille(root, "slowdown", {1, 1000});
  if (const auto value = root.maybe("shared_links")) costs.shared_links = value->boolean();
  root.finish();
  return costs;
}

PipelineCosts read_costs(const std::string& path, int stages) {
  return parse_costs(ir::read_text_file(path), path, stages);
}

}  // namespace braid::pipeline
