// A collective with data, run by every rank and compared with an oracle that knows all inputs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/comm/bootstrap.h"

namespace braid::rt::testing {

enum class Ranks { threads, processes };

// Runs `body` on n ranks and fails the test if a rank fails one of its expectations, wherever it runs.
inline void run_ranks(Ranks ranks, int n, const LaunchOptions& options,
                      const std::function<void(World&)>& body) {
  const RankFunction function = [&](World& world) {
    body(world);
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  const Status status =
      ranks == Ranks::threads ? launch_threads(n, options, function) : launch_processes(n, options, function);
  EXPECT_TRUE(status.ok()) << status.message;
}

inline std::vector<int> first_ranks(int n) {
  std::vector<int> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

inline Communicator* make_group(World& world, const std::vector<int>& ranks, const std::string& name) {
  Communicator* group = nullptr;
  const Status status = world.group(ranks, name, &group);
  EXPECT_TRUE(status.ok()) << status.message;
  return group;
}

// Small whole numbers, exact in every dtype.
inline void store(DType dtype, std::byte* base, size_t i, double value) {
  const auto put = [&](auto typed) { std::memcpy(base + i * sizeof typed, &typed, sizeof typed); };
  switch (dtype) {
    case DType::f32:
      return put(static_cast<float>(value));
    case DType::f64:
      return put(value);
    case DType::f16:
      return put(static_cast<_Float16>(value));
    case DType::bf16: {
      const float exact = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &exact, 4);
      return put(static_cast<uint16_t>(bits >> 16));
    }
    case DType::i8:
      return put(static_cast<int8_t>(value));
    case DType::u8:
      return put(static_cast<uint8_t>(value));
    case DType::i16:
      return put(static_cast<int16_t>(value));
    case DType::u16:
      return put(static_cast<uint16_t>(value));
    case DType::i32:
      return put(static_cast<int32_t>(value));
    case DType::u32:
      return put(static_cast<uint32_t>(value));
    case DType::i64:
      return put(static_cast<int64_t>(value));
    case DType::u64:
      return put(static_cast<uint64_t>(value));
    case DType::boolean:
      return put(static_cast<uint8_t>(value != 0));
  }
}

enum class Place { outside, inside, mixed };  // of the buffers: in the segment or not; mixed: by rank

struct Case {
  CollectiveKind kind = CollectiveKind::all_reduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  Algorithm algorithm = Algorithm::automatic;
  size_t count = 0;
  int peer = 0;  // root; for send and recv: the sender is `peer`, the receiver `peer` + 1
  Place place = Place::outside;
  bool in_place = false;
  int salt = 0;  // other data
};

inline std::string name_of(const Case& c) {
  return std::string(to_string(c.kind)) + " " + to_string(c.dtype) + " " + to_string(c.op) + " algorithm " +
         std::to_string(static_cast<int>(c.algorithm)) + " x " + std::to_string(c.count) + " peer " +
         std::to_string(c.peer) + " place " + std::to_string(static_cast<int>(c.place)) +
         (c.in_place ? " in place" : "") + " salt " + std::to_string(c.salt);
}

// Element i of a member's input.
inline double input_value(const Case& c, int members, int member, size_t i) {
  const int k =
      static_cast<int>((i * 7 + static_cast<size_t>(member) * 3 + static_cast<size_t>(c.salt) * 5) % 11);
  switch (c.op) {
    case ReduceOp::sum:
      return k % 4;
    case ReduceOp::avg:
      return members * (k % 3);
    case ReduceOp::prod:
      return (i + c.salt) % members == static_cast<size_t>(member) ? 3 : 1;
    default:
      return k;
  }
}

inline double reduced_value(const Case& c, int members, size_t i) {
  double result = input_value(c, members, 0, i);
  const bool boolean = c.dtype == DType::boolean;
  if (boolean) result = result != 0;
  for (int member = 1; member < members; ++member) {
    double value = input_value(c, members, member, i);
    if (boolean) value = value != 0;
    switch (c.op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        result += value;
        break;
      case ReduceOp::prod:
        result *= value;
        break;
      case ReduceOp::min:
        result = std::min(result, value);
        break;
      case ReduceOp::max:
        result = std::max(result, value);
        break;
    }
  }
  return c.op == ReduceOp::avg ? result / members : result;
}

// Element i of a member's output.
inline double output_value(const Case& c, int members, int me, size_t i) {
  const size_t block = c.count == 0 ? 0 : i / c.count;
  const size_t within = c.count == 0 ? 0 : i % c.count;
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      return reduced_value(c, members, i);
    case CollectiveKind::reduce_scatter:
      return reduced_value(c, members, me * c.count + i);
    case CollectiveKind::all_gather:
      return input_value(c, members, static_cast<int>(block), within);
    case CollectiveKind::all_to_all:
      return input_value(c, members, static_cast<int>(block), me * c.count + within);
    default:
      return input_value(c, members, c.peer, i);
  }
}

struct Buffers {
  std::vector<std::byte> outside;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  size_t out_elements = 0;
};

// Elements of input and output of one member.
inline std::pair<size_t, size_t> elements(const Case& c, int members, int me) {
  const size_t all = c.count * members;
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      return {c.count, c.count};
    case CollectiveKind::reduce_scatter:
      return {all, c.count};
    case CollectiveKind::all_gather:
      return {c.count, all};
    case CollectiveKind::all_to_all:
      return {all, all};
    case CollectiveKind::broadcast:
      return {me == c.peer ? c.count : 0, c.count};
    case CollectiveKind::send:
    case CollectiveKind::recv:
      return me == c.peer ? std::pair{c.count, size_t{0}} : std::pair{size_t{0}, c.count};
    case CollectiveKind::barrier:
      return {0, 0};
  }
  return {0, 0};
}

// Bytes that place() needs in the segment.
inline size_t case_bytes(const Case& c, int members) {
  return 2 * (c.count * members * size_of(c.dtype) + 64);
}

// Lays out the buffers, at `segment` or outside, and fills the input.
inline Buffers place(const Case& c, int members, int me, std::byte* segment) {
  const size_t element = size_of(c.dtype);
  const auto [in, out] = elements(c, members, me);
  const size_t wide = c.count * members * element + 64;
  Buffers buffers;
  buffers.out_elements = out;
  std::byte* base = segment;
  if (c.place == Place::outside || (c.place == Place::mixed && me % 2 == 0)) {
    buffers.outside.assign(2 * wide + element, std::byte{0x5a});
    base = buffers.outside.data() + element;  // not aligned to more than an element
  }
  buffers.input = base;
  buffers.output = c.in_place ? base : base + wide / element * element;
  for (size_t i = 0; i < in; ++i) store(c.dtype, buffers.input, i, input_value(c, members, me, i));
  return buffers;
}

inline CollectiveCall call_of(const Case& c, int me, const Buffers& buffers) {
  CollectiveCall call{.kind = c.kind,
                      .dtype = c.dtype,
                      .op = c.op,
                      .algorithm = c.algorithm,
                      .peer = c.peer,
                      .count = c.count,
                      .input = buffers.input,
                      .output = buffers.output,
                      .label = "case"};
  if (c.kind == CollectiveKind::send || c.kind == CollectiveKind::recv) {
    call.kind = me == c.peer ? CollectiveKind::send : CollectiveKind::recv;
    call.peer = me == c.peer ? c.peer + 1 : c.peer;
  }
  return call;
}

inline void expect_result(const Case& c, int members, int me, const Buffers& buffers) {
  const size_t element = size_of(c.dtype);
  std::byte want[8];
  for (size_t i = 0; i < buffers.out_elements; ++i) {
    store(c.dtype, want, 0, output_value(c, members, me, i));
    if (std::memcmp(want, buffers.output + i * element, element) != 0) {
      ADD_FAILURE() << name_of(c) << ": member " << me << " of " << members << " differs at " << i;
      return;
    }
  }
}

// Does a member take part? Only in send and recv not all do.
inline bool takes_part(const Case& c, int me) {
  if (c.kind != CollectiveKind::send && c.kind != CollectiveKind::recv) return true;
  return me == c.peer || me == c.peer + 1;
}

inline void run_case(Communicator& group, World& world, const Case& c) {
  if (!takes_part(c, group.index())) return;
  ASSERT_LE(case_bytes(c, group.size()), world.segment_bytes());
  Buffers buffers = place(c, group.size(), group.index(), world.segment());
  const Status status = group.run(call_of(c, group.index(), buffers));
  ASSERT_TRUE(status.ok()) << name_of(c) << ": " << status.message;
  expect_result(c, group.size(), group.index(), buffers);
}

inline constexpr DType kAllDTypes[] = {DType::f32, DType::f64, DType::f16,    DType::bf16, DType::i8,
                                       DType::u8,  DType::i16, DType::u16,    DType::i32,  DType::u32,
                                       DType::i64, DType::u64, DType::boolean};
inline constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max,
                                       ReduceOp::prod};
inline constexpr Place kAllPlaces[] = {Place::outside, Place::inside, Place::mixed};

}  // namespace braid::rt::testing
