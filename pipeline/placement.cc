#include "pipeline/placement.h"

#include <charconv>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::pipeline {
namespace {

[[noreturn]] void fail(const std::string& what) {
  ir::user_error(errors::kBadPlacementText, {}, what, "loop, v, or a rank for every stage: 0,1,1,0");
}

void check_blocks(std::string_view name, int ranks, int stages) {
  if (ranks < 1) fail(fmt::format("a placement requires at least 1 rank, got {}", ranks));
  if (stages < ranks || stages % ranks != 0) {
    fail(
        fmt::format("the placement {} requires equally many stages per rank: {} stages cannot be divided "
                    "evenly among {} ranks",
                    name, stages, ranks));
  }
}

RankOfStage explicit_placement(std::string_view text, int ranks, int stages) {
  RankOfStage placement;
  PerRank<bool> used(first_ids<int>(ranks));
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int32_t rank = -1;
    const auto [next, error] = std::from_chars(at, end, rank);
    const auto column = at - text.data() + 1;
    if (error != std::errc()) fail(fmt::format("placement '{}': expected a rank at column {}", text, column));
    if (rank < 0 || rank >= ranks) {
      fail(fmt::format("placement '{}': stage {} is on rank {}, but there are {} ranks", text,
                       placement.size(), rank, ranks));
    }
    placement.push_back(rank);
    used[rank] = true;
    if (next == end) break;
    if (*next != ',')
      fail(fmt::format("placement '{}': expected ',' at column {}", text, next - text.data() + 1));
    at = next + 1;
  }
  if (count_of(placement) != stages) {
    fail(fmt::format("placement '{}' places {} stages, expected {}", text, placement.size(), stages));
  }
  for (const int r : used.ids())
    if (!used[r]) fail(fmt::format("placement '{}' leaves rank {} without a stage", text, r));
  return placement;
}

}  // namespace

RankOfStage loop_placement(int ranks, int stages) {
  check_blocks("loop", ranks, stages);
  RankOfStage placement;
  for (int s = 0; s < stages; ++s) placement.push_back(s % ranks);
  return placement;
}

RankOfStage v_placement(int ranks, int stages) {
  check_blocks("v", ranks, stages);
  RankOfStage placement;
  for (int s = 0; s < stages; ++s)
    placement.push_back((s / ranks) % 2 == 0 ? s % ranks : ranks - 1 - s % ranks);
  return placement;
}

RankOfStage parse_placement(std::string_view text, int ranks, int stages) {
  if (text == "loop") return loop_placement(ranks, stages);
  if (text == "v") return v_placement(ranks, stages);
  if (ranks < 1) fail(fmt::format("a placement requires at least 1 rank, got {}", ranks));
  return explicit_placement(text, ranks, stages);
}

std::string placement_text(const RankOfStage& rank_of_stage, int ranks) {
  const int stages = count_of(rank_of_stage);
  if (ranks >= 1 && stages >= ranks && stages % ranks == 0) {
    if (rank_of_stage == loop_placement(ranks, stages)) return "loop";
    if (rank_of_stage == v_placement(ranks, stages)) return "v";
  }
  return fmt::format("{}", fmt::join(rank_of_stage, ","));
}

}  // namespace braid::pipeline
