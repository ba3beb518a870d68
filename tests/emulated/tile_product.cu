#include "runtime/cuda_program.h"
#include "tests/emulated/tile_product.h"
#include "tests/emulated/tile_product_launch.h"

namespace {

using namespace braid_cuda_tile_product;

template <class T, class Out>
Launch launch_of(const TileProduct& p) {
  if constexpr (sizeof(T) == 2)
    if (p.b_by_rows)
      return p.copy_bytes == 16 ? launch_product<T, Out, true, 16, Mutation::kNone>
                                : launch_product<T, Out, true, 4, Mutation::kNone>;
  return p.copy_bytes == 16 ? launch_product<T, Out, false, 16, Mutation::kNone>
                            : launch_product<T, Out, false, 4, Mutation::kNone>;
}

}  // namespace

const char* run_tile_product(const TileProduct& p) {
  switch (p.type) {
    case ProductType::kHalf:
      return run(p, launch_of<__half, __half>(p));
    case ProductType::kBfloat16:
      return run(p, launch_of<__nv_bfloat16, __nv_bfloat16>(p));
    case ProductType::kTf32:
      return run(p, launch_of<Tf32, float>(p));
    case ProductType::kInt8:
      break;
  }
  return run(p, launch_of<int8_t, int>(p));
}
