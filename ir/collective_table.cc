#include "ir/collective_table.h"

#include <algorithm>

namespace braid::ir {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"",         "automatic", "one_shot",
                                                    "two_shot", "ring",      "library"};

}  // namespace

std::string_view to_string(CollectiveKind kind) { return row_of(kind).name; }
std::string_view to_string(Algorithm algorithm) { return kNames[static_cast<std::size_t>(algorithm)]; }

std::vector<Algorithm> Algorithms::list() const {
  std::vector<Algorithm> out;
  for (std::size_t k = 0; k < kNames.size(); ++k) {
    if (contains(static_cast<Algorithm>(k))) out.push_back(static_cast<Algorithm>(k));
  }
  return out;
}

std::vector<std::string_view> Algorithms::names() const {
  std::vector<std::string_view> out;
  for (const Algorithm a : list()) out.push_back(to_string(a));
  return out;
}

std::optional<CollectiveKind> collective_kind(std::string_view name) {
  for (const CollectiveRow& r : kCollectiveTable) {
    if (r.name == name) return r.kind;
  }
  return std::nullopt;
}

std::optional<Algorithm> algorithm_named(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Algorithm>(found - kNames.begin());
}

Expr block_elements(const CollectiveKernel& k, std::size_t index, std::int64_t members) {
  const CollectiveRow& r = row_of(k.kind);
  if (r.in == Blocks::one) return numel(k.inputs[index].sizes);
  if (r.out == Blocks::one) return numel(k.outputs[index].sizes);
  const Expr all = numel(k.inputs[index].sizes);
  const std::optional<Expr> each = divide_exactly(all, members);
  return each ? *each : floor_div(all, members);
}

}  // namespace braid::ir
