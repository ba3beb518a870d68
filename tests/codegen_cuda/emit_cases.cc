// Writes all cases as one translation unit: emit_cases OUTPUT.cu
#include <cstdio>
#include <exception>
#include <fstream>

#include "tests/codegen_cuda/cases.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<braid::codegen::cuda::CudaProgram> programs;
  for (const braid::test::Case& c : braid::test::cases()) {
    braid::codegen::cuda::CudaOptions options = c.options;
    options.name = c.name;
    try {
      programs.push_back(braid::codegen::cuda::emit_cuda(c.build(), options));
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", c.name.c_str(), e.what());
      return 1;
    }
  }
  std::ofstream(argv[1]) << braid::codegen::cuda::cuda_source(programs);
  return 0;
}
