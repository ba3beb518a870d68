// Makes one product of several that multiply the same rows by constants.
//
//   before                                       after
//     q: f16[n, 768] = gemm x, %wq                 q.merged: f16[n, 2304] = gemm x, transpose(%wq.merged) epilogue {
//     k: f16[n, 768] = gemm x, %wk                   acc + %bq.merged[i1] }
//     v: f16[n, 768] = gemm x, %wv                 s = gemm q.merged [...] strides [..., 2304, 1], ...
//     query = pointwise { q + %bq[i1] } ...
//     s = gemm query, key
//
// One product keeps more of a GPU busy than each alone, reads x once and is one launch. Readers read slices of its rows where they lie.
//
// Contract
//   1. Members have the same left operand (buffer and view), constant right operands of one type, depth and batch whose bytes are known, of f32,
//      f16 or bf16, and results of one type. New weights lie column by column, each at a multiple of kRowUnit bytes.
//      Their bytes may differ between ranks; the graph does not.
//   2. Loops that a product's kernel takes as steps of its epilogue (`steps_taken`) and that load only constants are fused first. The epilogues of members
//      are equal but for what they load by column; those constants are concatenated, too.
//   3. A slice begins at a multiple of kRowUnit bytes in every row; columns of zeros fill the gaps, which nobody reads.
//   4. Members' results are whole activations that only loops, products and attention read, in nodes of their own, at indices that are one row and one column.
//      Results of the program, mutations, and what collectives, regions and fused nodes touch are left out; so is a result
//      that a loop adds to another tensor as it is: a residual is a step of the library's products only without gaps between its rows.
//   5. Collectives: members stand in one stretch between starts, waits and releases, and the same starts depend on all of them. Then no start
//      waits for a product that could have hidden it. The merged product stands where the first member stood; nothing else moves but members and their
//      fused loops, upwards, so no cycle can arise.
//   6. A product of f16 or bf16 whose rows begin at no multiple of kRowUnit bytes is padded alone, if the gap is at most an eighth of a row.
//   7. At most `window` other products stand between two members, so that results do not live for long before they are read.
// After expand_attention and expand_convolutions, before fuse_epilogues and align_weights.
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
