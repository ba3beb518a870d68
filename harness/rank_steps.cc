#include "harness/rank_steps.h"

#include <algorithm>
#include <chrono>

#include "harness/interface.h"
#include "runtime/capacity.h"

namespace braid::harness {
namespace {

// The bytes of a cache beyond its elements: NaN in every float type.
constexpr auto kUnused = std::byte{0xff};

}  // namespace

RankSteps::RankSteps(Session& session, const BraidProgram& table, const std::vector<ir::Tensor>& inputs,
                     const Memory& memory)
    : session_(session), table_(table), given_(inputs) {
  const auto known = std::min(inputs.size(), static_cast<std::size_t>(table.input_count));
  for (std::size_t k = 0; k < known; ++k) {
    const BraidTensorInfo& info = table.inputs[k];
    if (info.written == 0 && info.capacities == nullptr) continue;
    own_inputs_.emplace_back(
        k, std::vector<std::byte>(fits(k) ? rt::memory_bytes(info, inputs[k].sizes) : 0, kUnused));
    fill(own_inputs_.back());
  }
  for (const ir::Tensor& t : inputs)
    inputs_.push_back({const_cast<std::byte*>(t.bytes.data()), to_runtime(t.dtype), t.sizes});
  for (auto& [k, bytes] : own_inputs_) inputs_[k].data = bytes.data();
  session.prepare(inputs_);
  for (std::size_t k = 0; k < static_cast<std::size_t>(table.output_count); ++k) {
    const BraidTensorInfo& info = table.outputs[k];
    const std::span<const std::int64_t> shape = session.output_shape(k);
    void* own = memory ? memory(k, shape) : own_outputs_.emplace_back(rt::memory_bytes(info, shape)).data();
    const int alias = info.alias_of_input;
    void* data = alias >= 0 ? inputs_[static_cast<std::size_t>(alias)].data : own;
    outputs_.push_back({data, static_cast<rt::DType>(info.dtype), shape});
  }
}

// Otherwise a step refuses it.
bool RankSteps::fits(std::size_t k) const {
  const BraidTensorInfo& info = table_.inputs[k];
  if (given_[k].sizes.size() != static_cast<std::size_t>(info.rank) || to_ir(info.dtype) != given_[k].dtype)
    return false;
  for (std::size_t d = 0; d < given_[k].sizes.size(); ++d) {
    if (info.capacities != nullptr && given_[k].sizes[d] > info.capacities[d]) return false;
  }
  return true;
}

void RankSteps::fill(std::pair<std::size_t, std::vector<std::byte>>& own) const {
  auto& [k, bytes] = own;
  if (!fits(k)) return;
  rt::to_memory(table_.inputs[k], given_[k].sizes, given_[k].bytes.data(), bytes.data());
}

std::int64_t RankSteps::run() {
  for (auto& own : own_inputs_) {
    if (table_.inputs[own.first].written != 0) fill(own);
  }
  const auto begin = std::chrono::steady_clock::now();
  session_.run({inputs_, outputs_});
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
}

}  // namespace braid::harness
