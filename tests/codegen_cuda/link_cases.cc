// Cases that nvcc has built, linked with CUDA, cuBLASLt and NCCL: their tables can be read without a GPU.
#include <cstdio>
#include <initializer_list>

#include "runtime/cuda_host.h"

extern "C" {
const BraidCudaProgram* braid_cuda_program_layers_2(void);
const BraidCudaProgram* braid_cuda_program_layernorm(void);
}

int main() {
  for (const BraidCudaProgram* program : {braid_cuda_program_layers_2(), braid_cuda_program_layernorm()}) {
    if (program->abi_version != BRAID_CUDA_ABI_VERSION || program->run == nullptr) return 1;
    std::printf("%s: %d ranks, %llu bytes of arena\n", program->name, program->ranks,
                static_cast<unsigned long long>(program->arena_bytes));
  }
  // Refused before anything is done, but linked.
  return braid_cuda_host_run(nullptr, nullptr, 0) == BRAID_INVALID_ARGUMENT ? 0 : 1;
}
