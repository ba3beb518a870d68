#include "tests/codegen_cuda/program_rank.h"

namespace braid::test {

ProgramRank::ProgramRank(const BraidCudaProgram& program, int rank, const ncclUniqueId& id,
                         BraidCudaCreateInfo info)
    : program_(program) {
  check(cudaSetDevice(rank), "cudaSetDevice");
  if (ok() && program.ranks > 1) check(ncclCommInitRank(&comm_, program.ranks, id, rank), "ncclCommInitRank");
  if (ok()) check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  info.abi_version = BRAID_CUDA_ABI_VERSION;
  info.struct_size = sizeof(info);
  info.comm = comm_;
  if (ok() && program.create(&info, &instance_) != BRAID_OK) error = program.last_error(nullptr);
}

ProgramRank::~ProgramRank() {
  destroy();
  for (float* memory : memory_) cudaFree(memory);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  if (comm_ != nullptr) ncclCommDestroy(comm_);
}

void ProgramRank::prepare(const std::vector<int64_t>& dims) {
  if (ok() && program_.prepare(instance_, dims.data()) != BRAID_OK) error = program_.last_error(instance_);
}

float* ProgramRank::floats(const std::vector<float>& values) {
  float* memory = nullptr;
  const size_t bytes = values.size() * sizeof(float);
  if (ok()) check(cudaMalloc(reinterpret_cast<void**>(&memory), bytes), "cudaMalloc");
  if (ok())
    check(cudaMemcpyAsync(memory, values.data(), bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  if (memory != nullptr) memory_.push_back(memory);
  return memory;
}

std::vector<float> ProgramRank::read(const float* memory, size_t count) {
  std::vector<float> values(count);
  if (ok()) {
    check(cudaMemcpyAsync(values.data(), memory, count * sizeof(float), cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync");
  }
  if (ok()) check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return values;
}

BraidStatus ProgramRank::run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
  if (!ok()) return BRAID_INTERNAL_ERROR;
  return kept(program_.run(instance_, inputs.data(), outputs.data(), stream_));
}

BraidStatus ProgramRank::synchronize(int64_t timeout_ms) {
  return ok() ? kept(program_.synchronize(instance_, timeout_ms)) : BRAID_INTERNAL_ERROR;
}

void ProgramRank::destroy() {
  if (instance_ != nullptr) program_.destroy(instance_);
  instance_ = nullptr;
}

void ProgramRank::abort_communicator() {
  if (comm_ != nullptr) check(ncclCommAbort(comm_), "ncclCommAbort");
  comm_ = nullptr;
}

bool ProgramRank::communicator_works() {
  float* one = floats({1.0f});
  if (ok()) check(ncclAllReduce(one, one, 1, ncclFloat32, ncclSum, comm_, stream_), "ncclAllReduce");
  return read(one, 1)[0] == static_cast<float>(program_.ranks) && ok();
}

BraidStatus ProgramRank::kept(BraidStatus status) {
  if (status != BRAID_OK) message = program_.last_error(instance_);
  return status;
}

void ProgramRank::check(cudaError_t e, const char* call) {
  if (e != cudaSuccess) error = std::string(call) + ": " + cudaGetErrorString(e);
}
void ProgramRank::check(ncclResult_t e, const char* call) {
  if (e != ncclSuccess) error = std::string(call) + ": " + ncclGetErrorString(e);
}

}  // namespace braid::test
