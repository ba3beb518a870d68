// Runs the layer as a CUDA program on tensors that the application keeps on the device, on a stream of its
// own. From host memory, and for several ranks, runtime/cuda_host.h does all of this.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// CUDA's runtime API, or the emulated device's if the program is built for that. After the standard headers.
#include "layer.h"
#include "runtime/cuda/api.h"

namespace {

// One instance of the program and the device's memory for its tensors.
class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ~Layer() {
    if (instance_ != nullptr) program_.destroy(instance_);
    for (float* tensor : {x_, y_}) (void)cudaFree(tensor);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  bool make(const std::string& weights, int64_t batch) {
    BraidCudaCreateInfo info = {};
    info.abi_version = BRAID_CUDA_ABI_VERSION;
    info.struct_size = sizeof info;
    info.weights = weights.data();
    info.weights_bytes = weights.size();
    return good(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)) &&
           good(cudaMalloc(reinterpret_cast<void**>(&x_), kMostRows * kInputs * sizeof(float))) &&
           good(cudaMalloc(reinterpret_cast<void**>(&y_), kMostRows * kOutputs * sizeof(float))) &&
           good(program_.create(&info, &instance_)) && good(program_.prepare(instance_, &batch));
  }

  // Runs a step for the batch that make() prepared. Only the last line waits for the device.
  bool run(const std::vector<float>& x, std::vector<float>* y) {
    const void* inputs[] = {x_};
    void* outputs[] = {y_};
    return good(cudaMemcpyAsync(x_, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice, stream_)) &&
           good(program_.run(instance_, inputs, outputs, stream_)) &&
           good(cudaMemcpyAsync(y->data(), y_, y->size() * sizeof(float), cudaMemcpyDeviceToHost, stream_)) &&
           good(cudaStreamSynchronize(stream_)) && good(program_.status(instance_));
  }

 private:
  static constexpr size_t kMostRows = 4, kInputs = 3, kOutputs = 2;

  static bool good(cudaError_t error) {
    if (error != cudaSuccess) std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return error == cudaSuccess;
  }
  bool good(BraidStatus status) const {
    if (status != BRAID_OK) std::fprintf(stderr, "%s\n", program_.last_error(instance_));
    return status == BRAID_OK;
  }

  const BraidCudaProgram& program_ = *braid_cuda_program_layer();
  BraidCudaInstance* instance_ = nullptr;
  cudaStream_t stream_ = nullptr;
  float *x_ = nullptr, *y_ = nullptr;
};

}  // namespace

int main() {
  std::ifstream file(std::string(BRAID_LAYER_DIR) + "/weights.bin", std::ios::binary);
  const std::string weights{std::istreambuf_iterator<char>(file), {}};

  Layer layer;
  std::vector<float> y(4);
  if (!layer.make(weights, 2) || !layer.run({1, 2, 3, 4, 5, 6}, &y)) return 1;
  std::printf("y = %g %g %g %g\n", y[0], y[1], y[2], y[3]);
  return y == std::vector<float>{3, 7, 9, 13} ? 0 : 1;
}
