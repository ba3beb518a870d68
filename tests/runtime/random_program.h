// Random programs of 200 collectives over random groups, several in flight, waited for in an order that
// differs from rank to rank, with buffers in reused parts of the segment; compared with the oracle of
// comm_cases.h.
#pragma once

#include <deque>
#include <random>

#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
inline constexpr size_t kSlotBytes = 1 << 19;
inline constexpr int kSlots = 6;
inline constexpr int kSteps = 200;

struct Pending {
  int step;
  Case c;
  Communicator* group;
  Buffers buffers;
  Ticket ticket;
  int slot;
};

inline Case random_case(std::mt19937& random, int members) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_reduce,
                                  CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                  CollectiveKind::broadcast,  CollectiveKind::all_to_all,
                                  CollectiveKind::send,       CollectiveKind::barrier};
  Case c;
  c.kind = kinds[pick(members > 1 ? 8 : 6)];
  c.dtype = kAllDTypes[pick(static_cast<int>(std::size(kAllDTypes)))];
  do {
    c.op = kAllOps[pick(5)];
  } while (c.dtype == DType::boolean && c.op == ReduceOp::avg);
  c.algorithm = c.kind == CollectiveKind::all_reduce ? static_cast<Algorithm>(pick(3)) : Algorithm::automatic;
  const int sizes[] = {0, 1, 17, 333, 2048, 3001};
  c.count = c.kind == CollectiveKind::barrier ? 0 : sizes[pick(6)];
  c.peer = c.kind == CollectiveKind::broadcast ? pick(members)
           : c.kind == CollectiveKind::send    ? pick(members - 1)
                                               : 0;
  c.place = kAllPlaces[pick(3)];
  c.in_place = pick(3) == 0;
  return c;
}

inline void run_program(World& world, unsigned seed) {
  const int n = world.size();
  std::mt19937 shared(seed);  // equal on all ranks: the program
  std::mt19937 own(seed * 977 + world.rank());
  std::vector<std::vector<int>> lists = {first_ranks(n)};
  for (int g = 0; g < 4; ++g) {
    std::vector<int> ranks = first_ranks(n);
    std::shuffle(ranks.begin(), ranks.end(), shared);
    ranks.resize(1 + shared() % static_cast<unsigned>(n));
    lists.push_back(ranks);
  }
  std::vector<Communicator*> groups;
  for (size_t g = 0; g < lists.size(); ++g)
    groups.push_back(make_group(world, lists[g], "g" + std::to_string(g)));

  std::deque<Pending> pending;
  std::vector<Pending> slots(kSlots);  // last user of each part of the segment
  const auto finish = [&](size_t which) {
    Pending& p = pending[which];
    const Status status = p.group->wait(p.ticket);
    ASSERT_TRUE(status.ok()) << "seed " << seed << " step " << p.step << ": " << status.message;
    expect_result(p.c, p.group->size(), p.group->index(), p.buffers);
    slots[p.slot] = {
        .step = p.step, .c = {}, .group = p.group, .buffers = {}, .ticket = p.ticket, .slot = p.slot};
    pending.erase(pending.begin() + static_cast<long>(which));
  };
  for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
    const size_t g = shared() % lists.size();
    Case c = random_case(shared, static_cast<int>(lists[g].size()));
    c.salt = step;
    if (groups[g] == nullptr || !takes_part(c, groups[g]->index())) continue;
    const int slot = step % kSlots;
    for (size_t i = 0; i < pending.size() && !::testing::Test::HasFailure();) {
      if (pending[i].slot == slot)
        finish(i);
      else
        ++i;
    }
    if (slots[slot].group != nullptr) {
      const Status released = slots[slot].group->release(slots[slot].ticket);
      ASSERT_TRUE(released.ok()) << released.message;
    }
    Pending p{.step = step, .c = c, .group = groups[g], .buffers = {}, .ticket = {}, .slot = slot};
    ASSERT_LE(case_bytes(c, p.group->size()), kSlotBytes);
    p.buffers = place(c, p.group->size(), p.group->index(), world.segment() + slot * kSlotBytes);
    const Status started = p.group->start(call_of(c, p.group->index(), p.buffers), &p.ticket);
    ASSERT_TRUE(started.ok()) << "seed " << seed << " step " << step << ": " << started.message;
    pending.push_back(std::move(p));
    while (!pending.empty() && !::testing::Test::HasFailure() && own() % 3 == 0)
      finish(own() % pending.size());
  }
  while (!pending.empty() && !::testing::Test::HasFailure()) finish(own() % pending.size());
  for (const Pending& last : slots) {
    if (last.group != nullptr) {
      EXPECT_TRUE(last.group->release(last.ticket).ok());
    }
  }
}

}  // namespace braid::rt::testing
