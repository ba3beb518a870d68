#include "passes/flush_subnormals.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ir/effects.h"
#include "ir/id_vector.h"
#include "ir/kernel_parts.h"

namespace braid::passes {
namespace {

using namespace ir;

bool is_subnormal(std::uint32_t bits) { return (bits & 0x7f800000u) == 0 && (bits & 0x007fffffu) != 0; }

// Whether the value of every load of the buffer is only added, subtracted and multiplied.
bool is_only_a_factor(const LoopBody& body, BufferId buffer) {
  const auto is_load = [&](ValueId v) { return body[v].code == OpCode::load && body[v].buffer == buffer; };
  if (is_load(body.result)) return false;
  return std::ranges::all_of(body.instrs, [&](const Instr& instr) {
    const bool linear = instr.code == OpCode::add || instr.code == OpCode::sub || instr.code == OpCode::mul;
    return linear || std::ranges::none_of(instr.operands, is_load);
  });
}

// Whether the operation takes what it reads of the buffer for numbers of a sum of products.
bool sums_products(const Operation& op, BufferId buffer) {
  if (op.as<Recurrence>() != nullptr) return true;
  const Product* const product = as_product(op.kernel);
  return product != nullptr && (!product->epilogue || is_only_a_factor(*product->epilogue, buffer));
}

bool has_subnormals(const ConstantData& data) {
  return std::ranges::any_of(data.per_rank, [](std::span<const std::byte> bytes) {
    bool found = false;
    for (std::size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
      std::uint32_t bits;
      std::memcpy(&bits, bytes.data() + at, sizeof bits);
      found |= is_subnormal(bits);
    }
    return found;
  });
}

ConstantData flushed(const ConstantData& data) {
  std::vector<std::vector<std::byte>> result;
  for (const std::span<const std::byte> bytes : data.per_rank) {
    std::vector<std::byte>& to = result.emplace_back(bytes.begin(), bytes.end());
    for (std::size_t at = 0; at + sizeof(float) <= to.size(); at += sizeof(float)) {
      std::uint32_t bits;
      std::memcpy(&bits, to.data() + at, sizeof bits);
      if (is_subnormal(bits)) std::memset(to.data() + at, 0, sizeof bits);
    }
  }
  return own_bytes_of_ranks(std::move(result));
}

}  // namespace

bool FlushSubnormals::run(Schedule& schedule) const {
  Graph& graph = schedule.graph;
  const IdRange<StorageId> storages(StorageId{0},
                                    StorageId{static_cast<std::int32_t>(graph.storages.size())});
  IdVector<StorageId, bool> factors(storages, false), others(storages, false);
  for (const GraphOutput& output : graph.outputs) others[root_storage(graph, output.buffer)] = true;
  for (const ScheduleNode& node : schedule.nodes) {
    for (const OpId op : ops_of(node)) {
      for (const Access& access : effects(graph, op).accesses) {
        const bool factor =
            graph[access.buffer].dtype == DType::f32 && sums_products(graph[op], access.buffer);
        (factor ? factors : others)[root_storage(graph, access.buffer)] = true;
      }
    }
  }
  bool changed = false;
  for (const StorageId id : storages) {
    Storage& storage = graph[id];
    if (storage.kind != StorageKind::constant || !factors[id] || others[id] || !has_subnormals(storage.data))
      continue;
    storage.data = flushed(storage.data);
    changed = true;
  }
  return changed;
}

}  // namespace braid::passes
