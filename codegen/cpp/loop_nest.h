// From a schedule node of Loops to one loop nest: which loops are shared, which are merged, what stays in
// registers.
//
//   before   max:  m[b, s]    = max_k  x[b, s, k]         after   for outer o in [0, B*S):
//            exp:  e[b, s, k] = exp(x[b, s, k] - m[b, s])           group 1: for k: m = max(m, x[o*K + k])
//            sum:  z[b, s]    = sum_k  e[b, s, k]                   group 2: for k: e = exp(x[o*K + k] - m)
//                                                                                   z += e
//            div:  y[b, s, k] = e[b, s, k] / z[b, s]                group 3: for k: y[o*K + k] = e / z
//
// The outer loops run over the kept dimensions that all members share; their iterations are independent, so
// they are flattened and run in parallel. Inside, groups of members run one after another; members of a group
// share their loops. A buffer that only this node uses is local: a register if producer and consumer are in
// one group, otherwise a row of scratch memory for one iteration of the outer loops.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::codegen::cpp {

struct NestMember {
  ir::OpId op;
  ir::BufferId out;
  bool reduction = false;
  ir::ReduceKind reduce = ir::ReduceKind::sum;
  ir::LoopBody body;   // over the nest's indices
  ir::Expr store = 0;  // element offset in `out`
};

// Loops over index numbers (into LoopNest::extents). `kept` loops enclose `reduced` ones, except in a group
// of columns: there the last kept loop is innermost and runs over an array of accumulators. The last two
// loops of a transposed group go through a block, which is read along the first of them and written along the
// second.
struct NestGroup {
  std::vector<int> kept;
  std::vector<int> reduced;
  bool columns = false;
  bool transposed = false;
  std::vector<NestMember> members;
};

struct LocalBuffer {
  ir::BufferId buffer;
  std::int64_t elements = 1;  // for one outer iteration, at the upper bounds; 1: a register
  ir::Expr origin = 0;        // element offset of the first one in the buffer; in outer indices
};

struct LoopNest {
  std::vector<ir::Expr> extents;  // by index number; outer ones first
  int outer = 0;
  std::vector<NestGroup> groups;
  std::vector<LocalBuffer> locals;
  bool flat = false;  // no outer loop, one loop of independent iterations, which runs in parallel
};

// Innermost loops of at most so many points are unrolled; vectors then span the loop around them.
inline constexpr std::int64_t kUnrolled = 4;

// Whether two buffers share bytes in the plan, which may give the bytes of one storage to another in place.
using Overlap = std::function<bool(ir::BufferId, ir::BufferId)>;

// `ops` are Loops, in order, that obey the contract of ir/fused_loops.h. `is_local_output` says of each
// whether its output is used only by these operations and has no memory.
LoopNest make_loop_nest(const ir::Graph& graph, const std::vector<ir::OpId>& ops,
                        const std::vector<bool>& is_local_output, const Overlap& overlap);

}  // namespace braid::codegen::cpp
