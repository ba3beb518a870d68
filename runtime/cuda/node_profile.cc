#include "runtime/cuda/node_profile.h"

#include "runtime/device/launch.h"

namespace braid::rt::cuda {

bool NodeProfile::start(BraidCudaNodeCost* costs, int nodes) {
  costs_ = nullptr;
  const auto count = static_cast<size_t>(nodes) + 1;
  while (costs != nullptr && borders_.size() < count) {
    Border border;
    BRAID_TRY(cudaEventCreateWithFlags(&border.compute, cudaEventDefault));
    borders_.push_back(border);
    BRAID_TRY(cudaEventCreateWithFlags(&borders_.back().communication, cudaEventDisableTiming));
  }
  costs_ = costs;
  passed_ = 0;
  return true;
}

void NodeProfile::begin() {
  passed_ = 0;
  good_ = true;
}

void NodeProfile::next_node(cudaStream_t compute, cudaStream_t communication) {
  good_ = good_ && pass(compute, communication);
}

bool NodeProfile::end(cudaStream_t compute, cudaStream_t communication) {
  next_node(compute, communication);
  return good_;
}

// Both streams come here before either goes on. Their time is the compute stream's.
bool NodeProfile::pass(cudaStream_t compute, cudaStream_t communication) {
  if (passed_ == borders_.size())
    return fail(BRAID_INTERNAL_ERROR, "profile: a step has more nodes than its program says");
  Border& border = borders_[passed_++];
  border.launches = launches_of_thread();
  if (communication != nullptr) {
    BRAID_TRY(cudaEventRecord(border.communication, communication));
    BRAID_TRY(cudaStreamWaitEvent(compute, border.communication, 0));
  }
  BRAID_TRY(cudaEventRecord(border.compute, compute));
  if (communication != nullptr) BRAID_TRY(cudaStreamWaitEvent(communication, border.compute, 0));
  return true;
}

bool NodeProfile::write() {
  for (size_t k = 0; k + 1 < passed_; ++k) {
    float ms = 0;
    BRAID_TRY(cudaEventElapsedTime(&ms, borders_[k].compute, borders_[k + 1].compute));
    costs_[k] = {1e3 * static_cast<double>(ms), borders_[k + 1].launches - borders_[k].launches};
  }
  return true;
}

void NodeProfile::release() {
  for (const Border& border : borders_) {
    for (cudaEvent_t event : {border.compute, border.communication})
      if (event != nullptr) cudaEventDestroy(event);
  }
  borders_.clear();
  costs_ = nullptr;
}

}  // namespace braid::rt::cuda
