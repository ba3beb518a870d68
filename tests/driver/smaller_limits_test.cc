#include "driver/smaller_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/support/random.h"

namespace braid {
namespace {

using ::testing::Optional;

struct LimitedPlan {
  std::int64_t counted, takes;
};

// A search that finds the cheapest of some plans, which are in the order of their times. `careless`: now and
// then it finds some other one.
struct World {
  std::vector<LimitedPlan> plans;
  std::int64_t cap = 0;
  bool careless = false;
  std::mt19937* random = nullptr;

  const LimitedPlan* cheapest(std::int64_t limit) const {
    const auto at = std::ranges::find_if(plans, [&](const LimitedPlan& p) { return p.counted <= limit; });
    return at == plans.end() ? nullptr : &*at;
  }
  LimitOutcome search(std::int64_t limit) const {
    LimitOutcome out;
    const LimitedPlan* plan = cheapest(limit);
    if (careless && (*random)() % 3 == 0) {
      const LimitedPlan& other = plans[(*random)() % plans.size()];
      out.proved = &other == plan;
      plan = other.counted <= limit ? &other : nullptr;
      if (plan == nullptr) return out;  // nor does it know what plans need
    } else {
      out.proved = plan != nullptr;
    }
    if (plan == nullptr) {
      out.reached = std::ranges::min(plans, {}, &LimitedPlan::counted).counted;
      return out;
    }
    out.found = true;
    out.counted = plan->counted;
    out.fits = plan->takes <= cap;
    if (!out.fits) {
      out.missing = plan->takes - cap;
      out.uncounted = plan->takes - plan->counted;
    }
    return out;
  }
};

World random_world(std::mt19937& random) {
  World world;
  const int plans = 1 + static_cast<int>(random() % 6);
  for (int k = 0; k < plans; ++k) {
    const std::int64_t counted = 1 + random() % 60;
    world.plans.push_back({counted, counted + static_cast<std::int64_t>(random() % 30)});
  }
  world.cap = 1 + random() % 80;
  world.random = &random;
  return world;
}

// Every limit that was searched within, until nothing is unknown, and whether a program was found that fits.
struct Search {
  std::vector<std::int64_t> limits;
  bool fits = false;
};

Search search_all(const World& world) {
  SmallerLimits smaller(world.cap);
  Search done;
  std::optional<std::int64_t> limit = world.cap;
  while (limit) {
    done.limits.push_back(*limit);
    const LimitOutcome outcome = world.search(*limit);
    done.fits = done.fits || outcome.fits;
    if (done.limits.size() > 1000) break;
    limit = smaller.next(outcome);
  }
  return done;
}

TEST(SmallerLimits, FindWhatFitsIfTheCheapestPlanWithinSomeLimitDoes) {
  int found = 0, none = 0;
  for (int k = 0; k < test::random_cases(3000); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const World world = random_world(random);
    bool some = false;
    for (std::int64_t limit = 1; limit <= world.cap; ++limit)
      some = some || (world.cheapest(limit) != nullptr && world.cheapest(limit)->takes <= world.cap);
    const Search done = search_all(world);
    EXPECT_EQ(done.fits, some);
    // Between two plans there are at most 80 limits, which are halved.
    EXPECT_LE(done.limits.size(), 7 * (world.plans.size() + 1));
    (some ? found : none) += 1;
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 100);
}

TEST(SmallerLimits, AreEachTriedOnceWhateverASearchFinds) {
  for (int k = 0; k < test::random_cases(3000); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    World world = random_world(random);
    world.careless = true;
    const Search done = search_all(world);
    const std::set<std::int64_t> distinct(done.limits.begin(), done.limits.end());
    EXPECT_EQ(distinct.size(), done.limits.size());
    EXPECT_GE(*distinct.begin(), 1);
    EXPECT_LE(*distinct.rbegin(), world.cap);
  }
}

TEST(SmallerLimits, BeginWithWhatTheSearchDidNotCount) {
  SmallerLimits limits(1000);
  EXPECT_THAT(limits.next({.found = true, .proved = true, .counted = 950, .missing = 30, .uncounted = 80}),
              Optional(920));
}

// An unproved plan need not be the cheapest for the limits below it.
TEST(SmallerLimits, LimitsBelowAPlanThatWasNotProvedStayUnknown) {
  const LimitOutcome outcome = {.found = true, .counted = 10, .missing = 5, .uncounted = 3};
  LimitOutcome proved = outcome;
  proved.proved = true;
  EXPECT_THAT(SmallerLimits(100).next(outcome), Optional(97));
  EXPECT_THAT(SmallerLimits(100).next(proved), Optional(5)) << "the middle of 1 to 9";
}

// A search that was cut off says nothing about what plans need.
TEST(SmallerLimits, GoOnWhereNoPlanWasFoundAndNoneIsKnown) {
  SmallerLimits limits(100);
  ASSERT_THAT(limits.next({.found = true, .proved = true, .counted = 90, .missing = 50}), Optional(50));
  EXPECT_THAT(limits.next({}), Optional(70)) << "the middle of 51 to 89";
}

TEST(SmallerLimits, GoOnWithTheSmallestOfWhichAPlanIsKnown) {
  SmallerLimits limits(100);
  ASSERT_THAT(limits.next({.found = true, .proved = true, .counted = 90, .missing = 50}), Optional(50));
  EXPECT_THAT(limits.next({.reached = 60}), Optional(60)) << "of 60 to 89";
}

TEST(SmallerLimits, EndWhereThePlanThatNeedsLeastDoesNotFit) {
  SmallerLimits limits(100);
  EXPECT_EQ(limits.next({.found = true, .proved = true, .counted = 1, .missing = 5}), std::nullopt);
}

}  // namespace
}  // namespace braid
