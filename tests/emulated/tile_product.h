// A product on tensor cores as kernels of a program have it: double-buffered copies, swizzled rows,
// fragments by ldmatrix, tails filled with zeros. Each mutation is wrong in one way.
#pragma once

#include <cstddef>

enum class Mutation {
  kNone,
  kNoWait,         // for the copies of a tile
  kWaitForTooFew,  // for all groups but two
  kNoCommit,       // of the copies of a tile
  kNoBarrierAfterWait,
  kNoBarrierAfterUse,  // before the next copies overwrite a tile
  kNoSwizzle,          // right, with bank conflicts
  kNoSwizzleInReader,
  kRegistersExchanged,  // 1 and 2 of a
  kLaneExchanged,       // the registers of b of one lane
  kNoRowGuard,          // rows past the end are copied
  kNoColumnGuard,       // elements past the end of a row are copied
  kMisalignedRow,       // of a matrix
  kSourceOverwritten,   // in flight
  kTargetOverwritten,   // in flight
  kLaneMissing,         // from a product
  kOneTileTooMany,      // is copied, and not waited for
};
constexpr int kMutations = 17;

enum class ProductType { kHalf, kBfloat16, kTf32, kInt8 };

// c = a * b: a has m rows of k elements; b has n rows of k elements, or k rows of n with `b_by_rows`, which
// elements of 16 bits allow. Rows begin `stride` elements apart; the last one ends with its last element.
// Sums are float, of kInt8 int; c has m rows of n, of the type of a, of Tf32 float and of int8_t int.
struct TileProduct {
  ProductType type = ProductType::kHalf;
  bool b_by_rows = false;
  int copy_bytes = 16;  // 4 or 16: strides are multiples of it
  int m = 0, n = 0, k = 0, a_stride = 0, b_stride = 0;
  const void *a = nullptr, *b = nullptr;  // host memory
  size_t a_bytes = 0, b_bytes = 0;
  void* c = nullptr;
  size_t c_bytes = 0;
};
// Return null, or the error of a call.
const char* run_tile_product(const TileProduct& product);
// Makes copies of 16 bytes; `b_by_rows` must be false.
const char* run_tile_product_mutant(const TileProduct& product, Mutation mutation);
