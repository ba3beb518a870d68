// Which rank owns which stage.
//
//   loop  0 1 2 0 1 2   rank = stage mod ranks
//   v     0 1 2 2 1 0   up and down again: neighbouring stages share a rank at the turns
#pragma once

#include <string>
#include <string_view>

#include "pipeline/ids.h"

namespace braid::pipeline {

// Both require at least one rank and a number of stages divisible by `ranks` (BR0806).
RankOfStage loop_placement(int ranks, int stages);
RankOfStage v_placement(int ranks, int stages);

// "loop", "v" or a rank for every stage, such as "0,1,1,0". Every rank must own a stage. Throws BR0806.
RankOfStage parse_placement(std::string_view text, int ranks, int stages);

// The first of "loop", "v" and the list "0,1,1,0" that describes the placement.
std::string placement_text(const RankOfStage& rank_of_stage, int ranks);

}  // namespace braid::pipeline
