// A split program beside the plain one: which part of the plain one's inputs and outputs each rank has.
#pragma once

#include <string>
#include <vector>

#include "cli/inputs.h"
#include "driver/split_report.h"
#include "frontend/sharding/parts.h"
#include "ir/schedule.h"
#include "ir/tensor.h"

namespace braid::cli {

class SplitParts {
 public:
  SplitParts() = default;  // everything is whole
  // UserError BR0484 if a rank takes or returns a term of a sum.
  SplitParts(const SplitReport& report, const std::string& model);

  // Gives inputs of which ranks have parts the sizes that they have in the plain program.
  void make_whole(std::vector<InputSpec>& inputs, const ir::Schedule& plain) const;
  // Of a whole input, what a rank is given.
  ir::Tensor input(const std::string& name, const ir::Tensor& whole, int rank) const;
  // Of a whole output, what a rank must return; `result`, which it has returned, loses its padding.
  ir::Tensor output(const std::string& name, const ir::Tensor& whole, int rank, ir::Tensor& result) const;

 private:
  using Axes = std::vector<frontend::sharding::AxisSpec>;
  static const Axes* find(const std::map<std::string, Axes>& known, const std::string& name);

  std::map<std::string, Axes> inputs_, outputs_;  // those that are not whole
};

}  // namespace braid::cli
