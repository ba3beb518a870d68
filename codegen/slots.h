// Names for places in memory: constants of a generated program that hold where a buffer lies, so that calls
// name buffers and not numbers. Shared by all targets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "codegen/c_text.h"
#include "ir/graph.h"

namespace braid::codegen {

class Slots {
 public:
  // The constant of the storage, "slot_h", which holds its `offset` in bytes from the beginning of `base`
  // ("arena", "weights", ...).
  const std::string& of(const ir::Graph& graph, ir::StorageId storage, std::int64_t offset,
                        std::string_view base);
  // Declarations of the constants, in the order of their first use; empty if there are none.
  std::string declarations() const;

 private:
  std::map<ir::StorageId, std::string> names_;
  CNames taken_;
  std::string rows_;
};

}  // namespace braid::codegen
