#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

constexpr size_t kStaging = 32 * 1024;

LaunchOptions small_staging(size_t segment_bytes) {
  return {.world = {.segment_bytes = segment_bytes, .staging_bytes = kStaging}};
}

struct Layout {
  Ranks ranks;
  int n;
};

class CollectivesOnRanks : public ::testing::TestWithParam<Layout> {};

std::string layout_name(const ::testing::TestParamInfo<Layout>& info) {
  return std::to_string(info.param.n) + (info.param.ranks == Ranks::threads ? "_threads" : "_processes");
}

INSTANTIATE_TEST_SUITE_P(Shm, CollectivesOnRanks,
                         ::testing::Values(Layout{Ranks::threads, 1}, Layout{Ranks::threads, 2},
                                           Layout{Ranks::threads, 3}, Layout{Ranks::threads, 4},
                                           Layout{Ranks::threads, 8}, Layout{Ranks::processes, 1},
                                           Layout{Ranks::processes, 2}, Layout{Ranks::processes, 3},
                                           Layout{Ranks::processes, 4}, Layout{Ranks::processes, 8}),
                         layout_name);

TEST_P(CollectivesOnRanks, reduce_every_dtype_with_every_op) {
  run_ranks(GetParam().ranks, GetParam().n, small_staging(1 << 20), [&](World& world) {
    Communicator* all = make_group(world, first_ranks(world.size()), "all");
    for (const DType dtype : kAllDTypes) {
      for (const ReduceOp op : kAllOps) {
        if (dtype == DType::boolean && op == ReduceOp::avg) continue;
        for (const Algorithm algorithm : {Algorithm::one_shot, Algorithm::two_shot}) {
          for (const Place place : {Place::outside, Place::inside}) {
            run_case(*all, world,
                     {.dtype = dtype, .op = op, .algorithm = algorithm, .count = 1003, .place = place});
          }
        }
        run_case(*all, world,
                 {.kind = CollectiveKind::reduce_scatter, .dtype = dtype, .op = op, .count = 203});
      }
    }
  });
}

TEST_P(CollectivesOnRanks, every_kind_at_every_size_and_place) {
  run_ranks(GetParam().ranks, GetParam().n, small_staging(8 << 20), [&](World& world) {
    const int n = world.size();
    Communicator* all = make_group(world, first_ranks(n), "all");
    int salt = 0;
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
          CollectiveKind::broadcast, CollectiveKind::all_to_all, CollectiveKind::send,
          CollectiveKind::barrier}) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{13}, size_t{4096}, size_t{50'001}}) {
        for (const Place place : kAllPlaces) {
          for (const bool in_place : {false, true}) {
            const bool pair = kind == CollectiveKind::send;
            if (pair && n == 1) continue;
            const int peer = kind == CollectiveKind::broadcast ? salt % n : pair ? salt % (n - 1) : 0;
            run_case(*all, world,
                     {.kind = kind,
                      .dtype = salt % 2 ? DType::i32 : DType::i16,
                      .count = count,
                      .peer = peer,
                      .place = place,
                      .in_place = in_place,
                      .salt = salt});
            ++salt;
          }
        }
      }
    }
  });
}

TEST_P(CollectivesOnRanks, both_all_reduce_algorithms_larger_than_the_staging) {
  run_ranks(GetParam().ranks, GetParam().n, small_staging(8 << 20), [&](World& world) {
    Communicator* all = make_group(world, first_ranks(world.size()), "all");
    for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::one_shot, Algorithm::two_shot}) {
      for (const Place place : kAllPlaces) {
        for (const bool in_place : {false, true}) {
          for (const size_t count : {size_t{8192}, size_t{8193}, size_t{100'003}}) {
            run_case(*all, world,
                     {.algorithm = algorithm, .count = count, .place = place, .in_place = in_place});
          }
        }
      }
    }
  });
}

TEST(Collectives, the_block_of_a_member_in_the_larger_buffer_is_in_place) {
  run_ranks(Ranks::threads, 3, small_staging(1 << 20), [](World& world) {
    Communicator* all = make_group(world, first_ranks(3), "all");
    for (const bool inside : {false, true}) {
      constexpr size_t kCount = 9001;
      std::vector<int32_t> outside(3 * kCount);
      auto* wide = inside ? reinterpret_cast<int32_t*>(world.segment()) : outside.data();
      int32_t* mine = wide + world.rank() * kCount;
      for (size_t i = 0; i < kCount; ++i) mine[i] = world.rank() * 100'000 + static_cast<int>(i);
      Status status = all->run({.kind = CollectiveKind::all_gather,
                                .dtype = DType::i32,
                                .count = kCount,
                                .input = mine,
                                .output = wide});
      ASSERT_TRUE(status.ok()) << status.message;
      for (int r = 0; r < 3; ++r) ASSERT_EQ(wide[r * kCount + 77], r * 100'000 + 77);
      status = all->run({.kind = CollectiveKind::reduce_scatter,
                         .dtype = DType::i32,
                         .count = kCount,
                         .input = wide,
                         .output = mine});
      ASSERT_TRUE(status.ok()) << status.message;
      ASSERT_EQ(mine[kCount - 1], 3 * (world.rank() * 100'000 + static_cast<int>(kCount) - 1));
    }
  });
}

TEST(Collectives, all_ranks_get_the_same_bits) {
  for (const Algorithm algorithm : {Algorithm::one_shot, Algorithm::two_shot}) {
    std::vector<std::vector<float>> results(4);
    run_ranks(Ranks::threads, 4, small_staging(1 << 20), [&](World& world) {
      Communicator* all = make_group(world, first_ranks(4), "all");
      std::vector<float> input(30'000), output(30'000);
      for (size_t i = 0; i < input.size(); ++i)
        input[i] = std::sin(static_cast<float>(i * 4 + world.rank())) * 1e3f;
      const Status status = all->run(
          {.algorithm = algorithm, .count = input.size(), .input = input.data(), .output = output.data()});
      EXPECT_TRUE(status.ok()) << status.message;
      results[world.rank()] = output;
    });
    for (int rank = 1; rank < 4; ++rank) {
      EXPECT_EQ(std::memcmp(results[0].data(), results[rank].data(), results[0].size() * sizeof(float)), 0);
    }
  }
}

TEST(Collectives, groups_follow_their_rank_lists) {
  run_ranks(Ranks::threads, 4, small_staging(1 << 20), [](World& world) {
    Communicator* pair = make_group(world, {3, 1}, "pair");
    Communicator* other = make_group(world, {0, 2}, "other");
    EXPECT_EQ(pair != nullptr, world.rank() % 2 == 1);
    EXPECT_EQ(other != nullptr, world.rank() % 2 == 0);
    Communicator* mine = pair != nullptr ? pair : other;
    EXPECT_EQ(mine->index(), world.rank() == 3 || world.rank() == 0 ? 0 : 1);
    run_case(*mine, world, {.kind = CollectiveKind::all_gather, .count = 100});
  });
}

TEST(Collectives, groups_of_equal_name_and_ranks_are_distinct) {
  run_ranks(Ranks::threads, 2, small_staging(1 << 20), [](World& world) {
    Communicator* first = make_group(world, {0, 1}, "tp");
    Communicator* second = make_group(world, {0, 1}, "tp");
    ASSERT_NE(first, second);
    Ticket a, b;
    int in = world.rank() + 1, out_a = 0, out_b = 0;
    const auto call = [&](int* out) {
      return CollectiveCall{
          .kind = CollectiveKind::all_reduce, .dtype = DType::i32, .count = 1, .input = &in, .output = out};
    };
    // Opposite order on the two ranks: independent communicators do not wait for each other.
    if (world.rank() == 0) {
      EXPECT_TRUE(first->start(call(&out_a), &a).ok() && second->start(call(&out_b), &b).ok());
      EXPECT_TRUE(first->wait(a).ok() && second->wait(b).ok());
    } else {
      EXPECT_TRUE(second->start(call(&out_b), &b).ok() && first->start(call(&out_a), &a).ok());
      EXPECT_TRUE(second->wait(b).ok() && first->wait(a).ok());
    }
    EXPECT_EQ(out_a + out_b, 6);
  });
}

TEST(Collectives, waits_in_opposite_order_of_large_collectives_do_not_deadlock) {
  run_ranks(Ranks::threads, 2, small_staging(1 << 20), [](World& world) {
    Communicator* groups[2] = {make_group(world, {0, 1}, "a"), make_group(world, {0, 1}, "b")};
    std::vector<float> in(200'000, 1.0f), out[2];
    Ticket tickets[2];
    for (int g = 0; g < 2; ++g) {
      out[g].resize(in.size());
      EXPECT_TRUE(groups[g]
                      ->start({.kind = CollectiveKind::all_reduce,
                               .algorithm = Algorithm::two_shot,
                               .count = in.size(),
                               .input = in.data(),
                               .output = out[g].data()},
                              &tickets[g])
                      .ok());
    }
    for (int step = 0; step < 2; ++step) {
      const int g = world.rank() == 0 ? step : 1 - step;
      const Status status = groups[g]->wait(tickets[g]);
      EXPECT_TRUE(status.ok()) << status.message;
    }
    EXPECT_EQ(out[0], std::vector<float>(in.size(), 2.0f));
    EXPECT_EQ(out[1], out[0]);
  });
}

TEST(Collectives, a_small_send_does_not_wait_for_its_receiver) {
  run_ranks(Ranks::threads, 2, small_staging(1 << 20), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    int in = world.rank(), out = -1;
    const CollectiveCall send{.kind = CollectiveKind::send,
                              .dtype = DType::i32,
                              .peer = 1 - world.rank(),
                              .count = 1,
                              .input = &in};
    const CollectiveCall recv{.kind = CollectiveKind::recv,
                              .dtype = DType::i32,
                              .peer = 1 - world.rank(),
                              .count = 1,
                              .output = &out};
    Ticket sent, received;
    EXPECT_TRUE(all->start(send, &sent).ok() && all->wait(sent).ok());  // both ranks send first
    EXPECT_TRUE(all->start(recv, &received).ok() && all->wait(received).ok());
    EXPECT_TRUE(all->release(sent).ok());
    EXPECT_EQ(out, 1 - world.rank());
  });
}

TEST(Collectives, more_in_flight_than_the_ring_holds) {
  run_ranks(Ranks::threads, 2, small_staging(1 << 20), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    constexpr int kCalls = 3 * Communicator::kMaxInFlight;
    std::vector<int> in(kCalls), out(kCalls);
    std::vector<Ticket> tickets(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      in[i] = i + world.rank();
      EXPECT_TRUE(all->start({.kind = CollectiveKind::all_reduce,
                              .dtype = DType::i32,
                              .count = 1,
                              .input = &in[i],
                              .output = &out[i]},
                             &tickets[i])
                      .ok());
    }
    for (int i = kCalls; i-- > 0;) EXPECT_TRUE(all->wait(tickets[i]).ok() && all->release(tickets[i]).ok());
    for (int i = 0; i < kCalls; ++i) EXPECT_EQ(out[i], 2 * i + 1);
  });
}

TEST(Collectives, calls_that_make_no_sense_are_refused_and_harmless) {
  run_ranks(Ranks::threads, 2, small_staging(1 << 20), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    std::vector<float> data(100);
    const auto code = [&](const CollectiveCall& call) { return all->run(call).code; };
    const auto kind = CollectiveKind::all_reduce;
    EXPECT_EQ(code({.kind = kind, .count = 50, .input = data.data(), .output = data.data() + 1}),
              StatusCode::invalid_argument);
    EXPECT_EQ(code({.kind = kind, .count = 50, .output = data.data()}), StatusCode::invalid_argument);
    EXPECT_EQ(code({.kind = kind, .count = 50, .input = data.data()}), StatusCode::invalid_argument);
    EXPECT_EQ(code({.kind = kind,
                    .dtype = DType::boolean,
                    .op = ReduceOp::avg,
                    .count = 1,
                    .input = data.data(),
                    .output = data.data()}),
              StatusCode::invalid_argument);
    EXPECT_EQ(code({.kind = CollectiveKind::broadcast,
                    .peer = 2,
                    .count = 1,
                    .input = data.data(),
                    .output = data.data()}),
              StatusCode::invalid_argument);
    EXPECT_EQ(code({.kind = CollectiveKind::send, .peer = world.rank(), .count = 1, .input = data.data()}),
              StatusCode::invalid_argument);
    EXPECT_EQ(all->wait(Ticket{12345}).code, StatusCode::invalid_argument);
    EXPECT_EQ(all->release(Ticket{99ull << 32}).code, StatusCode::invalid_argument);
    Communicator* none = nullptr;
    EXPECT_EQ(world.group(std::vector<int>{0, 0}, "twice", &none).code, StatusCode::invalid_argument);
    EXPECT_EQ(world.group(std::vector<int>{0, 2}, "outside", &none).code, StatusCode::invalid_argument);
    EXPECT_EQ(world.group(std::vector<int>{}, "empty", &none).code, StatusCode::invalid_argument);
    EXPECT_TRUE(world.last_error().ok());
    run_case(*all, world, {.count = 10});
  });
}

}  // namespace
}  // namespace braid::rt::testing
