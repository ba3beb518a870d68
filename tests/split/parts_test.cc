// part_of against the parts that the proofs of rules make (proof.h), axis after axis.
#include "split/parts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/frontend/sharding/proof.h"

namespace braid::frontend::sharding {
namespace {

TEST(Parts, EqualCutsOneAxisAfterAnother) {
  int padded = 0, blocked = 0, twice = 0;
  for (unsigned seed = 1; seed <= 1000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
    std::vector<std::int64_t> sizes(1 + random() % 3);
    for (std::int64_t& size : sizes) size = 1 + below(12);
    const ir::Tensor whole = random_tensor(ir::DType::i64, sizes, 1, 1e6, false, seed);
    std::vector<AxisSpec> axes(1 + random() % 3);
    std::vector<ir::Tensor> parts = {whole};
    std::set<int> split_dims, padded_dims;
    for (AxisSpec& axis : axes) {
      axis.ranks = 2 + below(3);
      const int dim = below(static_cast<unsigned>(sizes.size()));
      const std::int64_t size = parts[0].sizes[static_cast<std::size_t>(dim)];
      // No axis cuts the padding of padded parts.
      if (below(4) > 0 && !padded_dims.contains(dim)) {
        const std::int64_t half = size / 2;
        if (size % 2 == 0 && half % axis.ranks == 0 && half > 0 && below(2) == 0) {
          axis.spec = Spec::split(dim, {half, half});
          ++blocked;
        } else if (size % axis.ranks == 0 || can_pad(size, axis.ranks)) {
          axis.spec = Spec::split(dim);
          if (size % axis.ranks != 0) padded_dims.insert(dim);
        }
        if (axis.spec.is_split() && !split_dims.insert(dim).second) ++twice;
      }
      std::vector<ir::Tensor> next;
      for (const ir::Tensor& part : parts) {
        for (ir::Tensor& own : cut(part, axis.spec, axis.ranks, 2)) next.push_back(std::move(own));
      }
      parts = std::move(next);
    }
    padded += !padded_dims.empty();
    for (std::size_t r = 0; r < parts.size(); ++r) {
      SCOPED_TRACE(fmt::format("seed {}, rank {} of {}", seed, r, parts.size()));
      const ir::Tensor with = part_of(whole, axes, static_cast<int>(r), true);
      const ir::Tensor without = part_of(whole, axes, static_cast<int>(r), false);
      EXPECT_EQ(with.sizes, parts[r].sizes);
      EXPECT_TRUE(without_padding(parts[r], without.sizes) == without);
      EXPECT_TRUE(without_padding(with, without.sizes) == without);
      EXPECT_TRUE(!padded_dims.empty() || with == parts[r]);
    }
  }
  EXPECT_GT(padded, 20);
  EXPECT_GT(blocked, 20);
  EXPECT_GT(twice, 20);
}

}  // namespace
}  // namespace braid::frontend::sharding
