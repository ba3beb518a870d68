// Values that differ between the ranks of one program: choices and index tables in per-rank constants.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/ops/common.h"

namespace braid::frontend {

// Returns i64 of sizes [n]: row r of `of_rank` on rank r; all rows have equal length. It is a per-rank
// constant, unless it follows from the rank's coordinates.
TensorBox rank_table(OpContext& c, const std::vector<std::vector<std::int64_t>>& of_rank);

// candidates[which[rank]], or zeros if the index is negative. All candidates have the same sizes; those not
// chosen are not read.
TensorBox pick_by_rank(OpContext& c, const std::vector<TensorBox>& candidates,
                       const std::vector<std::int64_t>& which);

// An all-to-all in which member i of each part of the group sends split[i*n + j] rows of axis 0 to member j.
// Each row of the matrix adds up to x's size and all columns to one number, since all ranks run one program.
// Blocks are padded to the largest.
TensorBox uneven_all_to_all(OpContext& c, const TensorBox& x, ir::GroupId group,
                            const std::vector<std::int64_t>& split);

}  // namespace braid::frontend
