// Choices of generators of random programs.
#pragma once

#include <cstdint>
#include <random>
#include <utility>

#include "ir/lowering.h"
#include "ir/schedule.h"

namespace braid::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15u + 1) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  int from(int low, int high) { return low + below(high - low + 1); }
  bool flip() { return below(2) == 0; }

 private:
  std::mt19937_64 engine_;
};

// Returns the lowered operations, in program order.
inline ir::Schedule finished(ir::Lowering& lowering, ir::Graph& graph) {
  ir::Schedule schedule;
  for (ir::OpId op : lowering.order()) schedule.nodes.push_back(ir::ScheduleNode::single(op));
  schedule.graph = std::move(graph);
  return schedule;
}

}  // namespace braid::test
