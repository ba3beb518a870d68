// Writes the text that computes one member of a plan for a pack of its elements, at any place in the kernel's
// loops. For a member m, the surrounding text declares:
//
//   pack        how many elements; `valid`: how many of them there are, unless the plan is `whole`
//   i0, i1, ..  the indices of the first element of the pack
//   j           rows in registers: the turn
//   at, packs   tiles: where in the tile (codegen/cuda/loop_writer.cc)
//   stores      columns: whether this thread stores
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/kernel.h"
#include "codegen/cuda/loop_plan.h"

namespace braid::codegen::cuda {

class MemberWriter {
 public:
  // `acc` is the text of the sum of element e, for the epilogue of a product.
  MemberWriter(const ir::Graph& graph, const LoopPlan& plan, KernelBuilder& kernel, std::string acc = {});

  // `valid`, if the lanes have `extent` elements and the pack begins at `at`.
  void write_valid(ir::Expr extent, const std::string& at);
  std::string valid_argument() const { return plan_.whole ? "" : ", valid"; }
  std::string packed_load(const LoopPlan::Member& m, const ir::Instr& instr);
  // The tile of load k of member m.
  static std::string tile_name(std::size_t m, std::size_t k);

  // Value k.
  void define(std::size_t m, std::size_t k);
  // Defines the values that are the same for the whole row, unless no element may need them.
  void define_before_turns(std::size_t m);
  // Defines the values that are the same for all elements of the pack, and loads its packs.
  void open_pack(std::size_t m);
  // A loop over the elements, and what differs between them.
  void open_elements(std::size_t m);
  void close_elements() { k_.close(); }
  // The result of the body as a value of that type.
  std::string result(std::size_t m, ir::DType type) const;
  // Computes a pack of the member into `target` and stores it.
  void write_pack(std::size_t m, const std::string& target);

 private:
  // Where the elements of a fold that change nothing begin: from there on `condition` is false, so the loop
  // ends there.
  struct FoldEnd {
    std::size_t dimension;
    ir::ValueId condition;
    ir::Expr size;
  };
  ir::Loops in_terms_of_elements(const LoopPlan::Member& m) const;
  bool uses_element_index(std::size_t m) const;
  bool takes_memory(const LoopPlan::Member& m, std::size_t k) const;
  std::optional<std::string> load_text(std::size_t m, std::size_t k);
  bool hoists(const LoopPlan::Member& m) const;
  bool needs_guard(const LoopPlan::Member& m) const;
  void open_each_element(std::size_t m, bool with_index);
  void store_element(std::size_t m, const std::string& target);
  void write_folds_of_threads(std::size_t m);
  std::size_t shared_dimension(const LoopPlan::Member& m) const;
  std::optional<FoldEnd> fold_end(const LoopPlan::Member& m) const;

  const ir::Graph& graph_;
  const LoopPlan& plan_;
  KernelBuilder& k_;
  const char* index_;
  std::string acc_;
  std::vector<ir::Loops> element_loops_;  // per member: indices of elements in the place of those of packs
};

}  // namespace braid::codegen::cuda
