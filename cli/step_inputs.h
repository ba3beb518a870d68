// The inputs of a rank, for one step after another.
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
  // `inputs` must outlive it, and stay as they were given: what a step writes is a copy.
  StepInputs(const BraidProgram& table, const std::vector<ir::Tensor>& inputs);

  std::span<const rt::TensorView> views() const { return views_; }
  // To be called before each step: what the last one has written is again what was given.
  void restore();

 private:
  const std::vector<ir::Tensor>& given_;
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> written_;
  std::vector<rt::TensorView> views_;
};

}  // namespace braid::cli
