// Results of products that become slices of longer rows: who touches them, and the same elements where they then lie.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "ir/id_vector.h"
#include "ir/schedule.h"

namespace braid::passes {

class RowSlices {
 public:
  explicit RowSlices(ir::Schedule& schedule);

  // The operation that alone reads what `writer` alone writes, if both are nodes of their own and the memory is no one else's.
  std::optional<ir::OpId> only_reader(ir::BufferId result, ir::OpId writer) const;

  // All operations but `writer` that touch memory which `writer` alone writes and no one else keeps; nullopt if others write it, it has several
  // versions or types, or one is no node of its own.
  std::optional<std::vector<ir::OpId>> readers(ir::BufferId result, ir::OpId writer) const;
  const std::vector<ir::BufferId>& names(ir::StorageId memory) const { return buffers_[memory]; }

  // Whether rows of so many columns may lie apart: `out` is all of a row-major activation of its own, which `writer` writes, and others read it as
  // loops, products or attention, whose every access is one row and one column. Not if a loop adds it to another tensor as it is.
  bool may_be_slice(const ir::TensorRef& out, std::int64_t columns, ir::OpId writer) const;

  // Has all readers of `result` read `rows` instead, whose rows have `pitch` elements, from column `first` on.
  void replace(ir::BufferId result, std::int64_t columns, ir::BufferId rows, std::int64_t first,
               std::int64_t pitch);

 private:
  struct Touch {
    ir::OpId op;
    bool writes;
  };
  struct Slice {
    std::int64_t columns, first, pitch;
  };
  bool is_private(ir::StorageId s) const;
  bool has_one_version(ir::BufferId result) const;
  bool readable(ir::OpId op, ir::StorageId memory, std::int64_t columns) const;
  std::optional<ir::Expr> moved(ir::BufferId b, ir::Expr e, std::span<const ir::Expr> sizes,
                                const Slice& slice) const;
  std::optional<ir::TensorRef> moved(const ir::TensorRef& ref, ir::BufferId rows, const Slice& slice) const;

  ir::Graph& graph_;
  ir::IdVector<ir::StorageId, std::vector<Touch>> touches_;  // in order, those of regions among them
  ir::IdVector<ir::StorageId, bool> kept_;  // outputs, and memory that is shared by declaration
  ir::IdVector<ir::StorageId, std::vector<ir::BufferId>> buffers_;
  ir::IdVector<ir::OpId, bool> single_;
};

}  // namespace braid::passes
