// Names for places in memory: constants of a generated program that hold the offsets of buffers, so that
// calls name buffers instead of numbers. Shared by all targets.
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
  // The name of the storage's constant, "slot_h", whose value is its `offset` in bytes from the beginning of
  // `base` ("arena", "weights", ...).
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
