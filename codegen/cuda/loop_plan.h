// How the threads of one kernel share the points of a loop, or of a fused node's members (ir/fused_loops.h).
// A plan is a plain value; codegen/cuda/loop_writer.h writes the kernel.
//
//   points      A thread takes `pack` neighbouring outer points along one dimension, for all members. A
//               member that folds does so in the thread.
//   columns     The same, but several warps of a block share the elements that the points of one warp fold.
//   tiles       The same without folds. A block takes a square of points over two dimensions. Loads that are
//               contiguous along the other dimension go through shared memory.
//   warp_rows   A warp takes an outer point. Its lanes take packs of the members' inner elements.
//   block_rows  The same with a block.
//
// Neighbouring lanes take neighbouring packs. A pack moves 16 bytes of the narrowest element type that is
// streamed, and at most 32 of the widest, if all strides are multiples of it. If symbols do not prove that,
// there are two kernels, and the launch chooses by the dims of the step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/fused_loops.h"
#include "ir/graph.h"

namespace braid::codegen::cuda {

struct LoopPlan {
  enum class Shape : std::uint8_t { points, columns, tiles, warp_rows, block_rows };

  // How often a value is computed: once per outer point, once per pack, or for each element of a pack.
  enum class Level : std::uint8_t { point, pack, element };
  // How it is computed. Forms other than `ieee` are chosen by codegen/cuda/forms.h.
  enum class Form : std::uint8_t {
    ieee,
    literal_product,  // a quotient: the divisor's reciprocal is a literal
    product,  // a quotient: the divisor, an f16, has a reciprocal that is computed once for several elements
    scaled_product,  // the same for any divisor, by a scale
    refined,         // an approximation of the device and a step of Newton
    for_half,        // only a value rounded to a half type is used
  };
  struct Value {
    Level level = Level::point;
    Form form = Form::ieee;
    int writer = -1;      // of a load: the earlier member whose result it takes
    bool packed = false;  // of a load: `pack` neighbouring elements at once
    int kept_load = -1;   // of a packed load: where in kept_loads
    bool tiled = false;   // of a packed load: the packs lie along `across`, and go through shared memory
  };

  // Where a member's result stays for later members: one value per outer point, a row in registers, or a row
  // in shared memory.
  enum class Held : std::uint8_t { value, registers, shared };
  struct Member {
    ir::OpId op;
    ir::BufferId out;
    ir::Loops loops;  // collapsed; a load from another member's row has its position in the row as index
    std::vector<Value> values;  // one per instruction of the body
    // Lanes share the dimensions [lane_begin, lane_end); one thread folds those from thread_begin on.
    std::size_t lane_begin = 0, lane_end = 0, thread_begin = 0;
    bool row = false;           // writes a row at each outer point, otherwise one element
    bool folds = false;         // all lanes of a row fold one value
    bool local = false;         // nothing outside of the node reads it, so it is not stored
    bool read_later = false;    // by a later member
    bool packed_store = false;  // of `pack` neighbouring elements at once
    bool barrier =
        false;  // all threads of a row, or of columns, finish the earlier members before this one begins
    Held held = Held::value;
    ir::Expr row_offset = 0;  // bytes, in shared memory

    bool spans_lanes() const { return row || folds; }
    ir::Expr extent() const;  // elements along the lanes
  };
  // A load that several members read at the same elements, kept in registers for all of them.
  struct KeptLoad {
    std::size_t member, instr;  // the first of them
  };

  Shape shape = Shape::points;
  std::vector<ir::Expr> outer;
  std::size_t lane =
      0;  // points, columns, tiles: the dimension along which packs lie; outer.size() if there is none
  std::size_t across = 0;  // tiles: the other dimension of the square
  std::vector<Member> members;
  std::vector<KeptLoad> kept_loads;
  std::int64_t pack = 1;
  std::vector<ir::Expr> multiples;  // packs are possible if these are multiples of `pack`
  bool whole = false;               // the extents along the lanes are multiples of `pack`, if `multiples` are
  std::int64_t elements = 0;        // rows: of one thread, in registers; 0: any number, in turns
  ir::Expr shared_bytes = 0;        // rows in shared memory

  bool by_rows() const { return shape == Shape::warp_rows || shape == Shape::block_rows; }
};

// `local` are the buffers of the node that nothing outside reads. Rows in shared memory of more than
// `portable_shared_bytes` may lie in the workspace instead; such kernels have packs only if symbols prove
// that they are possible.
LoopPlan plan_loops(const ir::Graph& graph, const ir::FusedLoops& fused, std::span<const ir::BufferId> local,
                    std::int64_t portable_shared_bytes);
// A single loop as a node of one member.
LoopPlan plan_loops(const ir::Graph& graph, ir::OpId op);
// The epilogue of a product as a loop over its results, in packs of at most `most` columns. Its dimensions
// are those of the result, and the packs need no conditions.
LoopPlan plan_epilogue(const ir::Graph& graph, const ir::Product& product, std::int64_t most);

// "points, packs of 8 along i1": a comment over the kernel.
std::string to_string(const LoopPlan& plan);

}  // namespace braid::codegen::cuda
