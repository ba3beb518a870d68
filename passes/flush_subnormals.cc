#include "passes/flush_subnormals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ir/effects.h"
#include "ir/id_vector.h"
#include "ir/kernel_parts.h"

namespace braid::passes {
namespace {

using namespace ir;

constexpr double kLimit = 1 << 20;  // numbers up to it keep a change small

bool is_subnormal(std::uint32_t bits) { return (bits & 0x7f800000u) == 0 && (bits & 0x007fffffu) != 0; }

// Calls visit(bits) for the elements; f32.
template <class Visit>
void for_each_element(std::span<const std::byte> bytes, const Visit& visit) {
  for (std::size_t at = 0; at + sizeof(std::uint32_t) <= bytes.size(); at += sizeof(std::uint32_t)) {
    std::uint32_t bits;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    visit(bits);
  }
}

// In blocks of one length, which the compiler makes vectors of: weights may have gigabytes.
bool has_subnormals(std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 1024;
  std::array<std::uint32_t, kBlock> block;
  while (bytes.size() >= sizeof block) {
    std::memcpy(block.data(), bytes.data(), sizeof block);
    std::uint32_t found = 0;
    for (std::size_t k = 0; k < kBlock; ++k) found |= is_subnormal(block[k]) ? 1u : 0u;
    if (found != 0) return true;
    bytes = bytes.subspan(sizeof block);
  }
  bool found = false;
  for_each_element(bytes, [&](std::uint32_t bits) { found |= is_subnormal(bits); });
  return found;
}

bool has_subnormals(const ConstantData& data) {
  // Ranks may share their bytes.
  std::set<const std::byte*> seen;
  return std::ranges::any_of(data.per_rank, [&](std::span<const std::byte> bytes) {
    return seen.insert(bytes.data()).second && has_subnormals(bytes);
  });
}

// Ranks that have the same bytes still do.
ConstantData flushed(const ConstantData& data) {
  const auto owner = std::make_shared<std::map<const std::byte*, std::vector<std::byte>>>();
  ConstantData result;
  for (const std::span<const std::byte> bytes : data.per_rank) {
    const auto [entry, is_new] = owner->try_emplace(bytes.data(), bytes.begin(), bytes.end());
    std::byte* to = entry->second.data();
    if (is_new)
      for_each_element(bytes, [&](std::uint32_t bits) {
        if (is_subnormal(bits)) std::memset(to, 0, sizeof bits);
        to += sizeof bits;
      });
    result.per_rank.emplace_back(entry->second);
  }
  result.owner = owner;
  return result;
}

// Finds whether a small change of an accumulator, and of what is added to it, changes the result as little.
class Epilogue {
 public:
  Epilogue(const Graph& graph, const LoopBody& body)
      : graph_(graph), body_(body), values_(body.instrs.size()) {
    for (const ValueId v : values_.ids()) values_[v] = value_of(body_[v]);
    require(!is_truth(body_.result), {});
  }
  bool is_tame() const { return tame_; }

  // Whether all that is done with loads of the buffer is to add them.
  bool adds(BufferId buffer) const {
    const auto is_load = [&](ValueId v) {
      return body_[v].code == OpCode::load && body_[v].buffer == buffer;
    };
    return !is_load(body_.result) && std::ranges::all_of(body_.instrs, [&](const Instr& instr) {
      const bool sum = instr.code == OpCode::add || instr.code == OpCode::sub;
      return sum || std::ranges::none_of(instr.operands, is_load);
    });
  }

 private:
  struct Value {
    bool changes = false;
    bool limited = true;  // at most about kLimit, where what changes is small
  };

  Value value_of(const Instr& instr) {
    Value all;
    for (const ValueId v : instr.operands) {
      all.changes |= values_[v].changes;
      all.limited &= values_[v].limited;
      if (instr.code != OpCode::where) require(!is_truth(v), all);
    }
    switch (instr.code) {
      case OpCode::acc:
        return {true, true};
      case OpCode::load:
        if (is_candidate(instr.buffer) && adds(instr.buffer)) return {true, true};
        return {false, has_limit(instr.buffer)};
      case OpCode::constant:
        return {false, std::fabs(literal(instr)) <= kLimit};
      case OpCode::add:
      case OpCode::sub:
      case OpCode::neg:
      case OpCode::abs:
      case OpCode::min:
      case OpCode::max:
      case OpCode::round:
      case OpCode::cast:
        return all;
      case OpCode::tanh:
      case OpCode::sigmoid:
      case OpCode::erf:
      case OpCode::sin:
      case OpCode::cos:
        return {all.changes, true};
      case OpCode::mul:
        return require(limits(instr, 1) && limits(instr, 0), all);
      case OpCode::div: {
        const Instr& by = body_[instr.operands[1]];
        return require(!all.changes || (by.code == OpCode::constant && std::fabs(literal(by)) * kLimit >= 1),
                       all);
      }
      case OpCode::lt:
      case OpCode::le:
      case OpCode::gt:
      case OpCode::ge:
        return all;
      case OpCode::where:
        return require(!values_[instr.operands[0]].changes || is_continuous(instr), all);
      default:
        return require(!all.changes, all);
    }
  }

  Value require(bool holds, Value value) {
    tame_ = tame_ && holds;
    return value;
  }

  // A small change may turn it over.
  bool is_truth(ValueId v) const { return body_[v].dtype == DType::boolean && values_[v].changes; }

  // Whether what factor k multiplies may change.
  bool limits(const Instr& product, std::size_t k) const {
    return values_[product.operands[k]].limited || !values_[product.operands[1 - k]].changes;
  }

  // v < 0 ? v * a : v * b, as LeakyRelu: both are small where the sign of v changes.
  bool is_continuous(const Instr& where) const {
    const Instr& sign = body_[where.operands[0]];
    if (sign.operands.size() != 2) return false;
    const Instr& zero = body_[sign.operands[1]];
    const ValueId v = sign.operands[0];
    if (zero.code != OpCode::constant || literal(zero) != 0) return false;
    return std::all_of(where.operands.begin() + 1, where.operands.end(), [&](ValueId branch) {
      const Instr& factor = body_[branch];
      return branch == v || (factor.code == OpCode::mul && std::ranges::count(factor.operands, v) == 1);
    });
  }

  static double literal(const Instr& constant) {
    return std::visit([](auto number) { return static_cast<double>(number); }, constant.literal);
  }
  const Storage& memory(BufferId buffer) const { return graph_[root_storage(graph_, buffer)]; }
  bool is_candidate(BufferId buffer) const {
    return graph_[buffer].dtype == DType::f32 && memory(buffer).kind == StorageKind::constant;
  }
  bool has_limit(BufferId buffer) const {
    if (!is_candidate(buffer) || memory(buffer).data.per_rank.empty()) return false;
    bool within = true;
    for (const std::span<const std::byte> bytes : memory(buffer).data.per_rank)
      for_each_element(bytes, [&](std::uint32_t bits) { within &= (bits & 0x7fffffffu) <= 0x49800000u; });
    return within;  // of 2^20
  }

  const Graph& graph_;
  const LoopBody& body_;
  IdVector<ValueId, Value> values_;
  bool tame_ = true;
};

// The storages whose numbers the operation takes for weights and biases.
std::vector<StorageId> weights_of(const Graph& graph, OpId op) {
  std::vector<StorageId> result;
  const Product* const product = as_product(graph[op].kernel);
  if (product == nullptr && graph[op].as<Recurrence>() == nullptr) return result;
  std::optional<Epilogue> epilogue;
  if (product != nullptr && product->epilogue) {
    epilogue.emplace(graph, *product->epilogue);
    if (!epilogue->is_tame()) return result;
  }
  std::vector<StorageId> others;
  for (const Access& access : effects(graph, op).accesses) {
    const bool weight = graph[access.buffer].dtype == DType::f32 &&
                        (!access.dep || (epilogue && epilogue->adds(access.buffer)));
    (weight ? result : others).push_back(root_storage(graph, access.buffer));
  }
  std::erase_if(result, [&](StorageId s) { return std::ranges::find(others, s) != others.end(); });
  return result;
}

}  // namespace

bool FlushSubnormals::run(Schedule& schedule) const {
  Graph& graph = schedule.graph;
  const IdRange<StorageId> storages(StorageId{0},
                                    StorageId{static_cast<std::int32_t>(graph.storages.size())});
  IdVector<StorageId, bool> weights(storages, false), others(storages, false);
  for (const GraphOutput& output : graph.outputs) others[root_storage(graph, output.buffer)] = true;
  for (const ScheduleNode& node : schedule.nodes) {
    for (const OpId op : ops_of(node)) {
      const std::vector<StorageId> own = weights_of(graph, op);
      for (const StorageId storage : own) weights[storage] = true;
      for (const Access& access : effects(graph, op).accesses) {
        const StorageId storage = root_storage(graph, access.buffer);
        if (std::ranges::find(own, storage) == own.end()) others[storage] = true;
      }
    }
  }
  bool changed = false;
  for (const StorageId id : storages) {
    Storage& storage = graph[id];
    if (storage.kind != StorageKind::constant || !weights[id] || others[id] || !has_subnormals(storage.data))
      continue;
    storage.data = flushed(storage.data);
    changed = true;
  }
  return changed;
}

}  // namespace braid::passes
