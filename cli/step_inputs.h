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
  // `inputs` must outlive this object and stay unchanged: steps write to copies.
  StepInputs(const BraidProgram& table, const std::vector<ir::Tensor>& inputs);

  std::span<const rt::TensorView> views() const { return views_; }
  // Call before each step: restores the inputs that the last step has written.
  void restore();

 private:
  const std::vector<ir::Tensor>& given_;
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> written_;
  std::vector<rt::TensorView> views_;
};

}  // namespace braid::cli
