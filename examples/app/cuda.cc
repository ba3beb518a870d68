// Runs the layer as a CUDA program from host memory. On a GPU the application would keep its tensors on the
// device and call the program itself: runtime/cuda_abi.h.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "layer.h"
#include "runtime/cuda_host.h"

int main() {
  std::ifstream file(std::string(BRAID_LAYER_DIR) + "/weights.bin", std::ios::binary);
  const std::string weights{std::istreambuf_iterator<char>(file), {}};

  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> y(4);
  const void* inputs[] = {x.data()};
  void* outputs[] = {y.data()};
  const BraidCudaHostRank rank{inputs, outputs, nullptr, 0};
  const int64_t dims[] = {2};

  BraidCudaHostRun run{};
  run.struct_size = sizeof run;
  run.program = braid_cuda_program_layer();
  run.weights = weights.data();
  run.weights_bytes = weights.size();
  run.ranks = &rank;
  run.dims = dims;
  run.steps = 1;
  run.timeout_ms = -1;
  char message[1024] = "";
  if (braid_cuda_host_run(&run, message, sizeof message) != BRAID_OK) {
    std::fprintf(stderr, "%s\n", message);
    return 1;
  }
  std::printf("y = %g %g %g %g\n", y[0], y[1], y[2], y[3]);
  return y == std::vector<float>{3, 7, 9, 13} ? 0 : 1;
}
