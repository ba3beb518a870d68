#include <algorithm>

#include "runtime/cuda/core.h"
#include "runtime/size_errors.h"

namespace braid::rt::cuda {

namespace {

// Which inputs, then which outputs, have no elements.
std::vector<bool> empty_tensors(const BraidCudaProgram& table, const int64_t* dims) {
  size_t count = 0;
  for (int k = 0; k < table.input_count; ++k) count += static_cast<size_t>(table.inputs[k].rank);
  for (int k = 0; k < table.output_count; ++k) count += static_cast<size_t>(table.outputs[k].rank);
  std::vector<int64_t> sizes(count + 1);
  table.sizes(dims, sizes.data());
  std::vector<bool> empty;
  const int64_t* size = sizes.data();
  for (int k = 0; k < table.input_count + table.output_count; ++k) {
    const int rank = k < table.input_count ? table.inputs[k].rank : table.outputs[k - table.input_count].rank;
    empty.push_back(std::find(size, size + rank, 0) != size + rank);
    size += rank;
  }
  return empty;
}

}  // namespace

BraidStatus InstanceCore::prepare(const int64_t* dims) {
  if (broken_) return failure_.status;
  failure_.node = nullptr;
  if (!check_dims(dims)) return failure_.status;
  const std::vector<int64_t> key(dims, dims + table_.dim_count);
  ++prepare_count_;
  if (const auto known = prepared_.find(key); known != prepared_.end()) {
    use(known->second.get());
    return BRAID_OK;
  }
  auto fresh = std::make_unique<Prepared>();
  fresh->dims = key;
  fresh->empty = empty_tensors(table_, dims);
  std::vector<BatchedGemm> products(static_cast<size_t>(layout_.products));
  Prepared* const before = current_;
  use(fresh.get());
  bool good = ok(cudaSetDevice(device_), "cudaSetDevice");
  if (good) program_.products(products.data());
  good = good && products_.prepare(products, fresh->products, program_.compute_) &&
         products_.reserve(static_cast<size_t>(program_.workspace_bytes()));
  if (!good) {
    use(before);
    return failure_.status;
  }
  prepared_.emplace(key, std::move(fresh));
  if (prepared_.size() > kMostPrepared) forget_oldest();
  return BRAID_OK;
}

bool InstanceCore::check_dims(const int64_t* dims) {
  if (dims == nullptr && table_.dim_count > 0)
    return fail(BRAID_INVALID_ARGUMENT, "prepare: no dimensions given");
  const std::string error = rt::size_error(table_, dims);
  return error.empty() || fail(BRAID_BAD_SIZE, error);
}

void InstanceCore::use(Prepared* prepared) {
  current_ = prepared;
  program_.dims_ = prepared == nullptr ? nullptr : prepared->dims.data();
  if (prepared != nullptr) prepared->used = prepare_count_;
}

// Drops the state prepared for the dims that were used least recently, and the products that no other dims
// have.
void InstanceCore::forget_oldest() {
  prepared_.erase(std::min_element(prepared_.begin(), prepared_.end(), [](const auto& a, const auto& b) {
    return a.second->used < b.second->used;
  }));
  products_.drop_unused();
}

}  // namespace braid::rt::cuda
