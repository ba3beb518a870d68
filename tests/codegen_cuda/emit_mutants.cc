// Writes the mutants as one translation unit: emit_mutants OUTPUT.cu.
#include <fstream>

#include "tests/codegen_cuda/mutants.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ofstream out(argv[1]);
  out << "#define BRAID_PEER_ACCESS\n#include \"runtime/cuda_instance.h\"\n";
  for (const char* header :
       {"async_copy", "ldmatrix", "mma", "pack", "product_tile", "swizzle"})  // of tile_product.h
    out << "#include \"runtime/device/" << header << ".h\"\n";
  for (const braid::test::Mutant& m : braid::test::mutants()) out << "\n// " << m.change << "\n" << m.source;
  return 0;
}
