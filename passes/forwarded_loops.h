// Shared by forward_copies and forward_parts: lets a loop compute the result of another loop itself instead
// of reading it.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "ir/id_vector.h"
#include "ir/schedule.h"
#include "passes/new_operations.h"

namespace braid::passes {

class ForwardedLoops {
 public:
  // An access, which stays as it was when the sweep began.
  struct Touch {
    std::size_t node;
    ir::OpId op;
    bool writes;
  };
  // A loop that is a piece of another one, from `first` on in the dimension in which that was cut.
  struct Piece {
    std::int64_t first = 0;
    ir::Loops loops;
  };

  explicit ForwardedLoops(ir::Schedule& schedule);

  const std::vector<Touch>& touches(ir::StorageId s) const { return touches_[s]; }  // as scheduled
  // An output, or memory that is shared by declaration.
  bool is_kept(ir::StorageId s) const { return kept_[s]; }
  // A node of its own, a loop without reductions that this sweep has not changed.
  bool is_pointwise(const Touch& t) const;
  bool is_written_between(ir::StorageId s, std::size_t from, std::size_t to) const;
  // Whether a loop writes each element at its own index, with these strides; or, given an operation, with
  // those of its result, which must have the loop's sizes.
  bool stores_in_order(const ir::Loops& loops, const std::vector<ir::Expr>& strides) const;
  bool stores_in_order(ir::OpId op) const;

  // Replaces `reader`, which read the results of `writers`, by `pieces` that compute them: one loop, or
  // several that cut its result in `dim`.
  void replace(ir::OpId reader, const std::vector<ir::OpId>& writers, std::vector<Piece> pieces,
               std::size_t dim);
  // Drops an operation whose result is no longer read.
  void remove(ir::OpId op) { gone_.insert(op); }

 private:
  friend bool forward_loops(ir::Schedule& schedule, const std::function<void(ForwardedLoops&)>& sweep);
  bool finish();
  ir::BufferId part_of(ir::BufferId whole, std::size_t dim, const Piece& piece);

  ir::Schedule& schedule_;
  ir::Graph& graph_;
  ir::IdVector<ir::StorageId, std::vector<Touch>> touches_;
  ir::IdVector<ir::StorageId, bool> kept_;
  std::set<ir::OpId> changed_, gone_;
  NewOperations added_;
};

// Calls `sweep` until it changes nothing. Returns whether it has.
bool forward_loops(ir::Schedule& schedule, const std::function<void(ForwardedLoops&)>& sweep);

}  // namespace braid::passes
