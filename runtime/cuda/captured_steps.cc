#include "runtime/cuda/captured_steps.h"

#include <algorithm>
#include <bit>

namespace braid::rt::cuda {

Graph instantiate(cudaGraph_t graph, cudaError_t* error) {
  cudaGraphExec_t executable = nullptr;
  *error = cudaGraphInstantiate(&executable, graph, 0);
  return Graph(*error == cudaSuccess ? executable : nullptr);
}

bool CapturedSteps::due(uint64_t run, uint64_t first) {
  return run >= first && (run < 6 || std::has_single_bit(run) || std::has_single_bit(run - 1));
}

cudaGraphExec_t CapturedSteps::find(const std::vector<const void*>& pointers) {
  for (Step& step : steps_) {
    if (step.pointers != pointers) continue;
    step.used = runs_;
    return step.graph.get();
  }
  return nullptr;
}

bool CapturedSteps::keep(cudaGraph_t graph, const std::vector<const void*>& pointers, bool may_update) {
  auto place =
      std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) { return step.pointers == pointers; });
  if (place == steps_.end() && steps_.size() == kMostSteps) {
    place = std::min_element(steps_.begin(), steps_.end(),
                             [](const Step& a, const Step& b) { return a.used < b.used; });
  }
  if (place == steps_.end()) place = steps_.emplace(place);
  place->used = runs_;
  place->pointers = pointers;
  cudaGraphExecUpdateResultInfo info;
  if (may_update && place->graph != nullptr &&
      cudaGraphExecUpdate(place->graph.get(), graph, &info) == cudaSuccess)
    return true;
  cudaError_t error = cudaSuccess;
  place->graph = instantiate(graph, &error);
  if (error != cudaSuccess) steps_.erase(place);
  return error == cudaSuccess;
}

void CapturedSteps::clear() {
  steps_.clear();
  collectives.clear();
  runs_ = 0;
}

}  // namespace braid::rt::cuda
