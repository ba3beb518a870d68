// The places of the program's memory: every storage as a base pointer of the instance plus an offset.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/slots.h"
#include "codegen/weights.h"
#include "ir/schedule.h"

namespace braid::codegen::cuda {

// A unit of execution: a single operation or a fused node. Groups are dissolved.
struct Unit {
  std::vector<ir::OpId> ops;
  bool fused = false;
  std::vector<ir::BufferId> local;  // of a fused node: buffers without memory
  int transfers = -1;               // of a send or receive: which are issued together (transfers.h)
  std::string name = {};            // of a fused node
};
std::vector<Unit> units_of(const ir::Schedule& schedule);

class MemoryMap {
 public:
  // Requires a memory plan if there are activations or communication buffers.
  MemoryMap(const ir::Schedule& schedule, const std::vector<Unit>& units);

  // "at<float>(arena_, slot_h)": the first element of the buffer, moved by `elements`.
  std::string pointer(ir::BufferId buffer, ir::Expr elements = 0) const;
  // The same as a byte offset in the segment ("slot_h"). Requires that the buffer lies there.
  std::string segment_offset(ir::BufferId buffer, ir::Expr elements = 0) const;

  struct Place {
    enum class Base : std::uint8_t {
      arena,
      segment,
      weights,
      rank_weights,
      input,
      output
    } base = Base::arena;
    int index = 0;            // input, output
    std::int64_t offset = 0;  // planned
    std::int64_t bytes = 0;   // planned; unknown (0) for inputs and outputs
  };
  // nullopt for local buffers.
  std::optional<Place> place(ir::StorageId root) const;

  std::int64_t arena_bytes() const { return arena_bytes_; }
  std::int64_t segment_bytes() const { return segment_bytes_; }
  const WeightLayout& weights() const { return weights_; }
  const Slots& slots() const { return slots_; }  // those named by pointers so far

  // Graph outputs whose memory is not the caller's, which are copied at the end of a step.
  struct OutputCopy {
    int index;
    ir::BufferId buffer;
  };
  const std::vector<OutputCopy>& output_copies() const { return copies_; }
  // Outputs that live in the memory of an input (aliases): output index -> input index.
  const std::map<int, int>& aliased_outputs() const { return aliased_; }

 private:
  struct Address {
    Place place;
    std::string offset;  // bytes from the base
  };
  Address address(ir::BufferId buffer, ir::Expr elements) const;

  const ir::Graph& graph_;
  std::map<ir::StorageId, Place> places_;
  mutable Slots slots_;  // filled as pointers are written
  std::int64_t arena_bytes_ = 0, segment_bytes_ = 0;
  WeightLayout weights_;
  std::vector<OutputCopy> copies_;
  std::map<int, int> aliased_;
};

}  // namespace braid::codegen::cuda
