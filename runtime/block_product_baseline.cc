// Products by blocks of weights, for any processor.
#include <algorithm>

#include "runtime/block_product.h"

namespace braid::rt::baseline {
namespace {

constexpr int64_t kBlockRows = 2;

struct Lanes {
  float v[kBlockLanes];

  static Lanes zero() { return all(0); }
  static Lanes all(float x) {
    Lanes out;
    for (float& o : out.v) o = x;
    return out;
  }
  static Lanes load(const float* from) {
    Lanes out;
    for (int64_t l = 0; l < kBlockLanes; ++l) out.v[l] = from[l];
    return out;
  }
  static Lanes bytes(const uint8_t* from, int zero) {
    Lanes out;
    for (int64_t l = 0; l < kBlockLanes; ++l) out.v[l] = static_cast<float>(from[l] - zero);
    return out;
  }
  struct Table {
    int zero;
    explicit Table(int z) : zero(z) {}
    void nibbles(const uint8_t* from, Lanes* low, Lanes* high) const {
      for (int64_t l = 0; l < kBlockLanes; ++l) {
        low->v[l] = static_cast<float>((from[l] & 15) - zero);
        high->v[l] = static_cast<float>((from[l] >> 4) - zero);
      }
    }
  };
  static Lanes multiply(const Lanes& a, const Lanes& b) {
    Lanes out;
    for (int64_t l = 0; l < kBlockLanes; ++l) out.v[l] = a.v[l] * b.v[l];
    return out;
  }
  static Lanes add(const Lanes& a, const Lanes& b) {
    Lanes out;
    for (int64_t l = 0; l < kBlockLanes; ++l) out.v[l] = a.v[l] + b.v[l];
    return out;
  }
  void store(float* to) const {
    for (int64_t l = 0; l < kBlockLanes; ++l) to[l] = v[l];
  }
};

}  // namespace

#include "runtime/block_product_kernels.inc"

}  // namespace braid::rt::baseline
