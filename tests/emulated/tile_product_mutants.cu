// Every mutation of tile_product.h, for each type.
#include <array>
#include <utility>

#include "runtime/cuda_program.h"
#include "tests/emulated/tile_product_launch.h"

namespace {

using namespace braid_cuda_tile_product;

template <class T, class Out, int... mutation>
Launch mutant(Mutation which, std::integer_sequence<int, mutation...>) {
  constexpr std::array<Launch, kMutations> launches = {
      launch_product<T, Out, false, 16, static_cast<Mutation>(mutation)>...};
  return launches[static_cast<size_t>(which)];
}
template <class T, class Out>
Launch mutant(Mutation which) {
  return mutant<T, Out>(which, std::make_integer_sequence<int, kMutations>{});
}

}  // namespace

const char* run_tile_product_mutant(const TileProduct& p, Mutation mutation) {
  switch (p.type) {
    case ProductType::kHalf:
      return run(p, mutant<__half, __half>(mutation));
    case ProductType::kBfloat16:
      return run(p, mutant<__nv_bfloat16, __nv_bfloat16>(mutation));
    case ProductType::kTf32:
      return run(p, mutant<Tf32, float>(mutation));
    case ProductType::kInt8:
      break;
  }
  return run(p, mutant<int8_t, int>(mutation));
}
