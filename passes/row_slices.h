// Results of products that become slices of longer rows: finds their readers, and moves these to the
// elements' new places.
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

  // Returns the only operation that reads the result, which only `writer` writes. The reader must be a node
  // of its own, and the memory must be private: an activation that is no output and is not shared by
  // declaration.
  std::optional<ir::OpId> only_reader(ir::BufferId result, ir::OpId writer) const;

  // Returns all operations except `writer` that touch private memory which only `writer` writes. Returns
  // nullopt if others write it, if it has several versions or types, or if one of the operations is no node
  // of its own.
  std::optional<std::vector<ir::OpId>> readers(ir::BufferId result, ir::OpId writer) const;
  const std::vector<ir::BufferId>& names(ir::StorageId memory) const { return buffers_[memory]; }

  // Whether rows of `columns` elements may lie apart. `out` must be all of a private row-major activation
  // that `writer` writes. Its readers must be loops, products or attention, and each access must be one row
  // and one column. No loop may add it as it is to a value that is no constant.
  bool may_be_slice(const ir::TensorRef& out, std::int64_t columns, ir::OpId writer) const;

  // Makes all readers of `result` read `rows` instead, whose rows have `pitch` elements, from column `first`
  // on.
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
