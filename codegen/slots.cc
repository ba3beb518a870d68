#include "codegen/slots.h"

#include <fmt/format.h>

namespace braid::codegen {

const std::string& Slots::of(const ir::Graph& graph, ir::StorageId storage, std::int64_t offset,
                             std::string_view base) {
  const auto [it, fresh] = names_.try_emplace(storage);
  if (fresh) {
    constexpr std::size_t kLongest = 48;
    it->second = taken_.unique(("slot_" + c_identifier(graph[storage].name)).substr(0, kLongest));
    rows_ += fmt::format("constexpr int64_t {} = {};  // {}\n", it->second, offset, base);
  }
  return it->second;
}

std::string Slots::declarations() const {
  if (rows_.empty()) return {};
  return "// Where buffers lie: bytes from the beginning of the arena, the communication segment or the "
         "weights.\n" +
         rows_;
}

}  // namespace braid::codegen
