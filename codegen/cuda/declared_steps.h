// Declares the memory of a program (runtime/cuda_plan.h): the table of its buffers, with their lives, and the
// bytes that each step touches. Places come from the plan and touches from the effects of the operations, so
// both can be checked against the calls that the step makes.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/c_text.h"
#include "codegen/cuda/memory.h"
#include "ir/effects.h"

namespace braid::codegen::cuda {

class DeclaredSteps {
 public:
  DeclaredSteps(const ir::Schedule& schedule, const MemoryMap& memory);

  // "BRAID_STEP(plan_, 3, compute_, reads(buffer_h), ...);" for the next step.
  std::string next(std::span<const ir::OpId> ops, const char* stream);
  // The same for the copy of a graph output.
  std::string next(const MemoryMap::OutputCopy& copy);
  // Extends the lives of all buffers that these operations (waits and releases) touch to the latest step.
  void hold(std::span<const ir::OpId> ops);

  std::string declarations() const;  // of the table; empty if there are no steps
  std::size_t buffers() const { return rows_.size(); }

 private:
  struct Row {
    std::string name, constant;  // "buffer_h"
    MemoryMap::Place place;
    int first = -1, last = -1;
  };
  int row_of(ir::StorageId storage);
  int add_row(const std::string& name, const MemoryMap::Place& place);
  std::string touch(const ir::Access& access);
  std::string statement(const char* stream, const std::vector<std::string>& touches);

  const ir::Graph& graph_;
  const MemoryMap& memory_;
  std::map<ir::StorageId, ir::StorageId> shared_;  // results of collectives in place: their operands
  std::map<ir::StorageId, int> by_storage_;
  std::vector<Row> rows_;
  CNames names_;
  int steps_ = 0;
};

}  // namespace braid::codegen::cuda
