// The inputs of a rank for consecutive steps.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "ir/tensor.h"
#include "runtime/program.h"

namespace braid::cli {

class StepInputs {
 public:
  // Both must outlive this object and stay unchanged. Inputs that a step writes are copied, and so are inputs
  // with capacities; the copies have the memory that the program's table asks for.
  StepInputs(const BraidProgram& table, const std::vector<ir::Tensor>& inputs);

  std::span<const rt::TensorView> views() const { return views_; }
  // Call before each step: restores the inputs that the last step has written.
  void restore();

 private:
  bool fits(std::size_t k) const;
  void fill(std::pair<std::size_t, std::vector<std::byte>>& own) const;

  const BraidProgram& table_;
  const std::vector<ir::Tensor>& given_;
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> own_;  // by input
  std::vector<rt::TensorView> views_;
};

}  // namespace braid::cli
