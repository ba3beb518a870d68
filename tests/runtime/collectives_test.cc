#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "runtime/comm/bootstrap.h"

namespace braid::rt {
namespace {

TEST(Collectives, all_reduce_sums_over_threads) {
  for (int n : {1, 2, 3, 4}) {
    for (size_t count : {size_t{0}, size_t{1}, size_t{257}, size_t{100'000}, size_t{1'000'003}}) {
      const Status status = launch_threads(n, {}, [&](World& world) {
        std::vector<int> all(n);
        std::iota(all.begin(), all.end(), 0);
        Communicator* group = nullptr;
        EXPECT_TRUE(world.group(all, "all", &group).ok());
        std::vector<float> in(count), out(count);
        for (int repeat = 0; repeat < 5; ++repeat) {
          for (size_t i = 0; i < count; ++i)
            in[i] = static_cast<float>((i * 7 + world.rank() + repeat) % 100);
          Status s = group->run({.kind = CollectiveKind::all_reduce,
                                 .count = count,
                                 .input = in.data(),
                                 .output = out.data(),
                                 .label = "sum"});
          EXPECT_TRUE(s.ok()) << s.message;
          for (size_t i = 0; i < count; ++i) {
            float want = 0;
            for (int r = 0; r < n; ++r) want += static_cast<float>((i * 7 + r + repeat) % 100);
            if (out[i] != want) {
              ADD_FAILURE() << n << " " << count << " at " << i;
              return 1;
            }
          }
        }
        return 0;
      });
      ASSERT_TRUE(status.ok()) << status.message;
    }
  }
}

}  // namespace
}  // namespace braid::rt
