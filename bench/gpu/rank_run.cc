#include "rank_run.h"

#include <cmath>
#include <cstring>

namespace braid::gpu_bundle {
namespace {

double value_of(rt::DType dtype, const unsigned char* at) {
  const auto get = [&]<class T>(T v) {
    std::memcpy(&v, at, sizeof v);
    return v;
  };
  switch (dtype) {
    case rt::DType::f32:
      return static_cast<double>(get(0.0f));
    case rt::DType::f64:
      return get(0.0);
    case rt::DType::f16:
      return static_cast<double>(rt::to_float(get(rt::Half{})));
    case rt::DType::bf16:
      return static_cast<double>(rt::to_float(get(rt::BFloat16{})));
    default:
      return 0;
  }
}

bool equal(rt::DType dtype, const unsigned char* got, const unsigned char* want, double tolerance) {
  if (!is_float(dtype)) return std::memcmp(got, want, rt::size_of(dtype)) == 0;
  const double x = value_of(dtype, got), y = value_of(dtype, want);
  return x == y || (std::isnan(x) && std::isnan(y)) ||
         std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y));
}

std::string text_of(rt::DType dtype, const unsigned char* at) {
  if (is_float(dtype)) return std::to_string(value_of(dtype, at));
  long long value = 0;
  std::memcpy(&value, at, rt::size_of(dtype));
  return std::to_string(value);
}

}  // namespace

RankRun::RankRun(const Case& c, const BraidCudaProgram& program, const std::string& data, int rank,
                 ncclComm_t comm, int graphs)
    : case_(c), program_(program), data_(data), rank_(rank) {
  if (program.abi_version != BRAID_CUDA_ABI_VERSION || program.struct_size != sizeof program)
    throw std::runtime_error("the program has another version of runtime/cuda_abi.h");
  const std::vector<unsigned char> weights = image("weights", 0), own = image("weights", 1);
  BraidCudaCreateInfo info = {};
  info.abi_version = BRAID_CUDA_ABI_VERSION;
  info.struct_size = sizeof info;
  info.weights = weights.data();
  info.weights_bytes = weights.size();
  info.rank_weights = own.data();
  info.rank_weights_bytes = own.size();
  info.comm = comm;
  info.graphs = graphs;
  const BraidStatus created = program.create(&info, &instance_);
  // Ranks that cannot reach each other's memory are the machine's.
  if (created == BRAID_COMM_ERROR &&
      std::strstr(program.last_error(instance_), "by load and store") != nullptr)
    throw Skipped(program.last_error(instance_));
  ok(created);
  ok(program.prepare(instance_, c.dims.data()));
  GPU_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  for (int k = 0; k < program.input_count; ++k) host_inputs_.push_back(image("input", k));
  rotate(1);
}

RankRun::~RankRun() {
#ifndef BRAID_EMULATED_DEVICE
  for (const Copy& copy : copies_)
    if (copy.graph != nullptr) cudaGraphExecDestroy(copy.graph);
#endif
  if (instance_ != nullptr) program_.destroy(instance_);
  for (void* memory : memory_) cudaFree(memory);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void RankRun::ok(BraidStatus status) const {
  if (status != BRAID_OK) throw std::runtime_error(program_.last_error(instance_));
}

void* RankRun::allocate(size_t bytes) {
  void* memory = nullptr;
  GPU_CHECK(cudaMalloc(&memory, bytes > 0 ? bytes : 1));
  memory_.push_back(memory);
  return memory;
}

std::vector<unsigned char> RankRun::image(const char* what, int index) {
  for (const Image& i : case_.images) {
    if (i.what != what || i.index != index || (i.rank >= 0 && i.rank != rank_)) continue;
    std::ifstream data(data_, std::ios::binary);
    return make_image(i, data);
  }
  return {};
}

std::vector<size_t> RankRun::output_bytes() const {
  size_t first = 0, count = 0;
  for (int k = 0; k < program_.input_count; ++k) first += static_cast<size_t>(program_.inputs[k].rank);
  for (int k = 0; k < program_.output_count; ++k) count += static_cast<size_t>(program_.outputs[k].rank);
  std::vector<int64_t> sizes(first + count + 1);
  program_.sizes(case_.dims.data(), sizes.data());
  std::vector<size_t> out;
  for (int k = 0; k < program_.output_count; ++k) {
    size_t n = rt::size_of(static_cast<rt::DType>(program_.outputs[k].dtype));
    for (int d = 0; d < program_.outputs[k].rank; ++d) n *= static_cast<size_t>(sizes[first++]);
    out.push_back(n);
  }
  return out;
}

void RankRun::rotate(size_t copies) {
  const std::vector<size_t> bytes = output_bytes();
  while (copies_.size() < copies) {
    Copy copy;
    for (const std::vector<unsigned char>& input : host_inputs_)
      copy.inputs.push_back(allocate(input.size()));
    for (size_t k = 0; k < bytes.size(); ++k) {
      const int alias = program_.outputs[k].alias_of_input;
      copy.outputs.push_back(alias >= 0 ? const_cast<void*>(copy.inputs[static_cast<size_t>(alias)])
                                        : allocate(bytes[k]));
    }
    copies_.push_back(std::move(copy));
  }
  reset();
}

uint64_t RankRun::rotated_bytes() const {
  uint64_t sum = 0;
  for (const std::vector<unsigned char>& input : host_inputs_) sum += input.size();
  const std::vector<size_t> bytes = output_bytes();
  for (size_t k = 0; k < bytes.size(); ++k) sum += program_.outputs[k].alias_of_input < 0 ? bytes[k] : 0;
  return sum;
}

void RankRun::reset() {
  const std::vector<size_t> bytes = output_bytes();
  for (const Copy& copy : copies_) {
    for (size_t k = 0; k < copy.outputs.size(); ++k) {
      if (program_.outputs[k].alias_of_input < 0 && bytes[k] > 0)
        GPU_CHECK(cudaMemsetAsync(copy.outputs[k], 0xA5, bytes[k], stream_));
    }
    for (size_t k = 0; k < copy.inputs.size(); ++k) {
      if (!host_inputs_[k].empty())
        GPU_CHECK(cudaMemcpyAsync(const_cast<void*>(copy.inputs[k]), host_inputs_[k].data(),
                                  host_inputs_[k].size(), cudaMemcpyHostToDevice, stream_));
    }
  }
  GPU_CHECK(cudaStreamSynchronize(stream_));
}

void RankRun::step(size_t copy) {
  const Copy& c = copies_[copy];
  ok(program_.run(instance_, c.inputs.data(), c.outputs.data(), stream_));
}

void RankRun::wait() {
  ok(program_.synchronize(instance_, 120'000));
  GPU_CHECK(cudaStreamSynchronize(stream_));
}

void RankRun::replay([[maybe_unused]] size_t copy) {
#ifdef BRAID_EMULATED_DEVICE
  throw Skipped("the harness captures no graphs on the emulated device");
#else
  Copy& c = copies_[copy];
  if (c.graph == nullptr) {
    cudaGraph_t graph = nullptr;
    GPU_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    const BraidStatus status = program_.run(instance_, c.inputs.data(), c.outputs.data(), stream_);
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    ok(status);
    check(ended, "cudaStreamEndCapture");
    GPU_CHECK(cudaGraphInstantiate(&c.graph, graph, 0));
    GPU_CHECK(cudaGraphDestroy(graph));
  }
  GPU_CHECK(cudaGraphLaunch(c.graph, stream_));
#endif
}

void RankRun::compare() {
  std::ifstream data(data_, std::ios::binary);
  const std::vector<size_t> bytes = output_bytes();
  for (const Expected& e : case_.expected) {
    if (e.rank != rank_) continue;
    const auto k = static_cast<size_t>(e.index);
    const size_t item = rt::size_of(e.dtype);
    const std::string place = "rank " + std::to_string(rank_) + ", output " + std::to_string(e.index);
    if (k >= bytes.size() || bytes[k] != e.elements * item)
      throw std::runtime_error(place + " has another size than expected");
    if (bytes[k] == 0) continue;
    std::vector<unsigned char> got(bytes[k]), want((e.elements + e.stride - 1) / e.stride * item);
    GPU_CHECK(
        cudaMemcpyAsync(got.data(), copies_[0].outputs[k], got.size(), cudaMemcpyDeviceToHost, stream_));
    GPU_CHECK(cudaStreamSynchronize(stream_));
    data.seekg(static_cast<std::streamoff>(e.data_offset));
    data.read(reinterpret_cast<char*>(want.data()), static_cast<std::streamsize>(want.size()));
    if (!data) throw std::runtime_error("cases.data is too short");
    for (uint64_t i = 0; i * e.stride < e.elements; ++i) {
      const unsigned char *a = got.data() + i * e.stride * item, *b = want.data() + i * item;
      if (!equal(e.dtype, a, b, case_.tolerance)) {
        throw std::runtime_error(place + ", element " + std::to_string(i * e.stride) + ": got " +
                                 text_of(e.dtype, a) + ", expected " + text_of(e.dtype, b));
      }
    }
  }
}

}  // namespace braid::gpu_bundle
