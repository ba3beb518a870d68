// Makes one product of several that multiply the same rows by constants.
//
//   before                                       after
//     q: f16[n, 768] = gemm x, %wq                 q.merged: f16[n, 2304] = gemm x, transpose(%wq.merged)
//     k: f16[n, 768] = gemm x, %wk                   epilogue { acc + %bq.merged[i1] }
//     v: f16[n, 768] = gemm x, %wv                 s = gemm q.merged [...] strides [..., 2304, 1], ...
//     query = pointwise { q + %bq[i1] } ...
//     s = gemm query, key
//
// One product keeps more of a GPU busy than each of the small ones, reads x once and is one launch. Readers
// read slices of its rows in place.
//
// Contract
//   1. Members have the same left operand (buffer and view). Their right operands are constants of f32, f16
//      or bf16 whose bytes are known, of one type, depth and batch. Their results have one type. New weights
//      are stored column by column, each at a multiple of kRowUnit bytes. Their bytes may differ between
//      ranks; the graph does not.
//   2. Loops that a product's kernel takes as steps of its epilogue (`steps_taken`) and that load only
//      constants are fused first. Epilogues of members are equal except for the constants that they load by
//      column; those are concatenated too.
//   3. A slice begins at a multiple of kRowUnit bytes in every row; columns of zeros fill the gaps and are
//      never read.
//   4. Members' results are whole activations. Only loops, products and attention in nodes of their own read
//      them, at indices that are one row and one column. Results of the program, mutations, and tensors that
//      collectives, regions or fused nodes touch are left out. So is a result that a loop adds to another
//      tensor as it is: the library's products add a residual only if its rows have no gaps between them.
//   5. Members stand in one stretch between starts, waits and releases, and the same starts depend on all of
//      them. Then no start waits for a product that could have hidden it. The merged product takes the place
//      of the first member. Only members and their fused loops move, and only upwards, so no cycle can arise.
//   6. A product of f16 or bf16 whose rows do not begin at multiples of kRowUnit bytes is padded alone, if
//      the gap is at most an eighth of a row.
//   7. At most `window` other products stand between two members, so that results do not live for long before
//      they are read.
// Runs after expand_attention and expand_convolutions, and before fuse_epilogues and align_weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct MergeProducts {
  static constexpr std::string_view kName = "merge_products";
  static constexpr std::string_view kDescription =
      "makes one product of several that multiply the same rows by constants";

  std::int64_t window = 2;
  // How many of the product's named steps its kernel applies. Null: all.
  std::function<std::size_t(const ir::Graph&, const ir::Product&)> steps_taken = {};

  static std::vector<PassOption<MergeProducts>> options() {
    return {{"window", &MergeProducts::window, "other products between two that are merged"}};
  }
  bool run(ir::Schedule& schedule) const;
};

}  // namespace braid::passes
