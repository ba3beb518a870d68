// Writes cases as one translation unit: emit_cases OUTPUT.cu NAME..., where @SOURCE stands for all of a
// source.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "tests/codegen_cuda/cases.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::vector<std::string> wanted(argv + 2, argv + argc);
  std::vector<braid::codegen::cuda::CudaProgram> programs;
  for (const braid::test::Case& c : braid::test::cases()) {
    const auto is_wanted = [&](const std::string& name) {
      return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
    };
    if (!is_wanted(c.name) && !is_wanted("@" + c.source)) continue;
    try {
      programs.push_back(braid::test::emitted(c));
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", c.name.c_str(), e.what());
      return 1;
    }
  }
  std::ofstream(argv[1]) << braid::codegen::cuda::cuda_source(programs);
  return 0;
}
