#include "frontend/op_registry.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "ir/error.h"

namespace braid::frontend {

std::vector<ir::DType> TypeSet::list() const {
  std::vector<ir::DType> result;
  for (int t = 0; t < ir::kDTypeCount; ++t) {
    if (contains(static_cast<ir::DType>(t))) result.push_back(static_cast<ir::DType>(t));
  }
  return result;
}

namespace {

// By "domain:name"; the versions of one operator do not overlap.
using Table = std::unordered_map<std::string, std::vector<OpSpec>>;

void add(Table& table, OpSpec spec) {
  ir::internal_check(spec.first_version <= spec.last_version && spec.lower != nullptr,
                     "operator {} is registered wrongly", spec.name);
  std::vector<OpSpec>& known = table[spec.domain + ":" + spec.name];
  std::erase_if(known, [&](const OpSpec& k) {
    return k.first_version <= spec.last_version && spec.first_version <= k.last_version;
  });
  known.push_back(std::move(spec));
}

Table& table() {
  static Table all = [] {
    Table t;
#define BRAID_FAMILY(name) name##_ops,
    for (const auto family : {BRAID_OP_FAMILIES(BRAID_FAMILY)}) {
#undef BRAID_FAMILY
      for (const OpSpec& spec : family()) add(t, spec);
    }
    return t;
  }();
  return all;
}

}  // namespace

void register_op(OpSpec spec) { add(table(), std::move(spec)); }

void register_op(LoweredOp op) {
  OpSpec spec{op.domain, op.name,  op.first_version, op.last_version,
              op.types,  op.lower, op.work,          sharding::replicated("no rule"),
              kNoState,  kNoSizes, op.effect};
  if (const auto known = table().find(spec.domain + ":" + spec.name); known != table().end()) {
    const auto replaced = std::ranges::find_if(known->second, [&](const OpSpec& row) {
      return row.first_version <= spec.last_version && spec.first_version <= row.last_version;
    });
    const OpSpec& before = replaced != known->second.end() ? *replaced : known->second.front();
    spec.rule = before.rule;
    spec.state = before.state;
    spec.sizes = before.sizes;
  }
  register_op(std::move(spec));
}

const OpSpec* find_op(const std::string& domain, const std::string& name, int version) {
  const auto found = table().find(domain + ":" + name);
  if (found == table().end()) return nullptr;
  for (const OpSpec& spec : found->second) {
    if (spec.first_version <= version && version <= spec.last_version) return &spec;
  }
  return nullptr;
}

std::vector<OpSpec> all_ops() {
  std::vector<OpSpec> ops;
  for (const auto& [key, specs] : table()) ops.insert(ops.end(), specs.begin(), specs.end());
  std::sort(ops.begin(), ops.end(), [](const OpSpec& a, const OpSpec& b) {
    return std::tie(a.domain, a.name, a.first_version) < std::tie(b.domain, b.name, b.first_version);
  });
  return ops;
}

}  // namespace braid::frontend
