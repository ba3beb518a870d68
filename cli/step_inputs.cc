#include "cli/step_inputs.h"

#include <algorithm>

#include "cli/execute.h"
#include "ir/error.h"

namespace braid::cli {
namespace {

rt::DType rt_dtype(ir::DType dtype) {
  for (int d = 0; d <= BRAID_BOOL; ++d) {
    if (to_ir(static_cast<BraidDType>(d)) == dtype) return static_cast<rt::DType>(d);
  }
  throw ir::InternalError("programs do not have this element type");
}

}  // namespace

StepInputs::StepInputs(const BraidProgram& table, const std::vector<ir::Tensor>& inputs) : given_(inputs) {
  const auto known = std::min(inputs.size(), static_cast<std::size_t>(table.input_count));
  for (std::size_t k = 0; k < known; ++k) {
    if (table.inputs[k].written != 0) written_.emplace_back(k, inputs[k].bytes);
  }
  for (const ir::Tensor& t : inputs)
    views_.push_back({const_cast<std::byte*>(t.bytes.data()), rt_dtype(t.dtype), t.sizes});
  for (auto& [k, bytes] : written_) views_[k].data = bytes.data();
}

void StepInputs::restore() {
  for (auto& [k, bytes] : written_) std::copy(given_[k].bytes.begin(), given_[k].bytes.end(), bytes.begin());
}

}  // namespace braid::cli
