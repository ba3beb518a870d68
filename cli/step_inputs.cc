#include "cli/step_inputs.h"

#include <algorithm>

#include "cli/execute.h"
#include "runtime/capacity.h"

namespace braid::cli {
namespace {

// The bytes of a cache beyond its elements: NaN in every float type.
constexpr auto kUnused = std::byte{0xff};

}  // namespace

StepInputs::StepInputs(const BraidProgram& table, const std::vector<ir::Tensor>& inputs)
    : table_(table), given_(inputs) {
  const auto known = std::min(inputs.size(), static_cast<std::size_t>(table.input_count));
  for (std::size_t k = 0; k < known; ++k) {
    const BraidTensorInfo& info = table.inputs[k];
    if (info.written == 0 && info.capacities == nullptr) continue;
    own_.emplace_back(k,
                      std::vector<std::byte>(fits(k) ? rt::memory_bytes(info, inputs[k].sizes) : 0, kUnused));
    fill(own_.back());
  }
  for (const ir::Tensor& t : inputs)
    views_.push_back({const_cast<std::byte*>(t.bytes.data()), to_rt(t.dtype), t.sizes});
  for (auto& [k, bytes] : own_) views_[k].data = bytes.data();
}

// Otherwise a step refuses it.
bool StepInputs::fits(std::size_t k) const {
  const BraidTensorInfo& info = table_.inputs[k];
  if (given_[k].sizes.size() != static_cast<std::size_t>(info.rank) || to_ir(info.dtype) != given_[k].dtype)
    return false;
  for (std::size_t d = 0; d < given_[k].sizes.size(); ++d) {
    if (info.capacities != nullptr && given_[k].sizes[d] > info.capacities[d]) return false;
  }
  return true;
}

void StepInputs::fill(std::pair<std::size_t, std::vector<std::byte>>& own) const {
  auto& [k, bytes] = own;
  if (!fits(k)) return;
  rt::to_memory(table_.inputs[k], given_[k].sizes, given_[k].bytes.data(), bytes.data());
}

void StepInputs::restore() {
  for (auto& own : own_) {
    if (table_.inputs[own.first].written != 0) fill(own);
  }
}

}  // namespace braid::cli
