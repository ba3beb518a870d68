// Makes several collectives of one: the inverse of merging, and cutting one tensor into pieces.
//
//   %a, %b = all_gather @dp (%x, %y)   ->   %a = all_gather @dp (%x)
//                                           %b = all_gather @dp (%y)
//
//   %r = all_reduce sum @dp (%x)       ->   buffer %r
//   %r.1 mutates %r = wait r                %r.part0 in %r        = all_reduce sum @dp (%x at 0 [n/2])
//                                           %r.part1 in %r at n/2 = all_reduce sum @dp (%x at n/2 [n/2])
//                                           %r.part0.1 mutates %r.part0 = wait ..., and so on
//
// Nothing is copied and the memory is the same: the pieces now fill the memory of the former result, and each
// reader waits for the pieces that it reads. Starts, waits and releases of the parts stand where that of the
// whole stood, in order.
//
// Possible cuts:
//   * Between the operands of a coalesced collective: always.
//   * Within an operand of an all-reduce or a broadcast, which treat all elements in the same way. The result
//     of an all-gather (the input of a reduce-scatter or all-to-all) has one slab per rank. A piece of each
//     rank's part would be scattered over it, but operands of collectives must be contiguous.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/problem.h"
#include "ir/schedule.h"

namespace braid::passes {

// A run of elements of one operand: piece `number` of `of` equal pieces (as equal as alignment allows). Piece
// 0 of 1 is the whole operand.
struct Piece {
  std::size_t operand = 0;
  int number = 0, of = 1;
  friend bool operator==(const Piece&, const Piece&) = default;
};
// The parts that a collective is split into; each becomes a collective of its pieces.
struct Split {
  analysis::CollectiveId collective;
  std::vector<std::vector<Piece>> parts;
};

// How to split. Exactly one of the two is given.
struct SplitLimits {
  int chunks = 0;              // number of parts
  std::int64_t max_bytes = 0;  // maximum payload of a part
};

// Decides about the collectives of one schedule, whose problem this is.
class Splitter {
 public:
  Splitter(const ir::Schedule& schedule, const analysis::Problem& problem, const analysis::CostModel& costs);

  // Why the collective cannot be split at all; empty if it can, at least between its operands.
  std::string why_whole(analysis::CollectiveId collective) const;
  // Why an operand of it cannot be cut; empty if it can.
  std::string why_uncut(analysis::CollectiveId collective, std::size_t operand) const;
  // Fewer than two parts mean that it stays whole; `reason` (if not null) then says why, or is empty if the
  // collective is small enough.
  Split split(analysis::CollectiveId collective, const SplitLimits& limits,
              std::string* reason = nullptr) const;
  std::int64_t payload(analysis::CollectiveId collective) const;

 private:
  std::int64_t operand_bytes(const ir::CollectiveKernel& kernel, std::size_t operand) const;

  const ir::Schedule& schedule_;
  const analysis::Problem& problem_;
  const analysis::CostModel& costs_;
  ir::IdVector<ir::BufferId, char> written_through_view_;  // a view of this very version is written
  ir::IdVector<ir::BufferId, char> derived_;               // this version is changed
};

// Performs all splits, each of a different collective. All other nodes keep their order.
void split_collectives(ir::Schedule& schedule, const analysis::Problem& problem,
                       std::span<const Split> splits);

}  // namespace braid::passes
