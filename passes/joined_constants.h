// Constants side by side in a new one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "passes/pack_rows.h"

namespace braid::passes {

class JoinedConstants {
 public:
  explicit JoinedConstants(ir::Graph& graph) : graph_(graph), packer_(graph) {}

  // A constant with known bytes (RowPacker::is_known). `rows` is its number of rows, or of elements of the
  // row, in the new constant; those beyond the given ones are 0.
  struct Part {
    ir::TensorRef ref;
    std::int64_t rows;
    friend bool operator==(const Part&, const Part&) = default;
  };
  bool is_known(const ir::TensorRef& ref) const { return packer_.is_known(ref); }

  // [batch..., sum of rows, depth] of parts [batch..., n, depth], each row at a multiple of kRowUnit bytes.
  ir::TensorRef rows(const std::vector<Part>& parts);
  // [sum of rows] of parts [1, n].
  ir::BufferId row(const std::vector<Part>& parts);

 private:
  // Along dimension `joined`, whose elements have so many bytes.
  ir::ConstantData bytes_of(const std::vector<Part>& parts, std::size_t joined, std::int64_t row_bytes) const;
  ir::BufferId found(const std::vector<Part>& parts, std::size_t rank) const;

  ir::Graph& graph_;
  RowPacker packer_;
  std::vector<std::pair<std::vector<Part>, ir::BufferId>> made_;
};

}  // namespace braid::passes
