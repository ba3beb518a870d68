// What differs between the ranks of one program: choices and index tables held in constants of each rank's
// own.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/ops/common.h"

namespace braid::frontend {

// An i64 constant of sizes [n] with contents of each rank's own; `of_rank` has one row per rank, all of one
// length.
TensorBox rank_table(OpContext& c, const std::vector<std::vector<std::int64_t>>& of_rank);

// candidates[which[rank]], or zeros where that is negative. All candidates have the same sizes; those that
// were not chosen are not read.
TensorBox pick_by_rank(OpContext& c, const std::vector<TensorBox>& candidates,
                       const std::vector<std::int64_t>& which);

// An all-to-all in which member i sends rows of axis 0 to member j in number split[i*n + j]. Rows of the
// matrix add up to x's size and columns to one number, for there is one program for all ranks. Blocks travel
// padded to the largest.
TensorBox uneven_all_to_all(OpContext& c, const TensorBox& x, ir::GroupId group,
                            const std::vector<int>& ranks, const std::vector<std::int64_t>& split);

}  // namespace braid::frontend
