#include "pipeline/queue_policy.h"

#include <charconv>
#include <utility>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::pipeline {
namespace {

constexpr std::pair<std::string_view, QueuePolicy::Kind> kKinds[] = {
    {"rank", QueuePolicy::Kind::rank}, {"pair", QueuePolicy::Kind::pair}, {"edge", QueuePolicy::Kind::edge}};

}  // namespace

QueuePolicy parse_queue_policy(std::string_view text) {
  const auto bad = [&] {
    ir::user_error(
        errors::kBadChannelPolicy, {}, fmt::format("'{}' is not a channel policy", text),
        "rank (one queue per rank), pair (one per pair of ranks) or edge (one per direction), each with :K "
        "for K buffered messages: edge:2");
  };
  const std::size_t colon = text.find(':');
  QueuePolicy policy;
  bool found = false;
  for (const auto& [name, kind] : kKinds) {
    if (name != text.substr(0, colon)) continue;
    policy.kind = kind;
    found = true;
  }
  if (!found) bad();
  if (colon == std::string_view::npos) return policy;
  const std::string_view number = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), policy.buffered);
  if (error != std::errc() || end != number.data() + number.size() || policy.buffered < 0) bad();
  return policy;
}

std::string to_string(QueuePolicy policy) {
  std::string text;
  for (const auto& [name, kind] : kKinds) {
    if (kind == policy.kind) text = name;
  }
  if (policy.buffered != 0) text += fmt::format(":{}", policy.buffered);
  return text;
}

}  // namespace braid::pipeline
