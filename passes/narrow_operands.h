// Rewrites operations one by one for lower_precision: gives them operands in a narrower type and adds the
// casts that make these.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/schedule.h"
#include "passes/new_operations.h"
#include "passes/storage_use.h"

namespace braid::passes {

class NarrowOperands {
 public:
  // bf16, f16 or i8. The schedule must outlive this, and stays inconsistent until finish().
  NarrowOperands(ir::Schedule& schedule, ir::DType type);

  // Rewrites a product or convolution with constant weights. Returns false, with nothing changed, if the
  // weights do not fit the type.
  bool narrow_product(ir::OpId id);
  // bf16 and f16. Its readers are narrowed after it.
  void narrow_attention(ir::OpId id);
  void finish();

 private:
  struct Rows {
    ir::TensorRef values;
    ir::TensorRef largest;  // i8: of what has one scale, an index of the first `apart` dimensions
    std::size_t apart = 0;
  };
  struct Weights {
    ir::TensorRef values;
    ir::BufferId scales;  // i8
  };
  struct Result {  // of an attention, in the narrow type
    ir::BufferId narrow;
    ir::OpId widened;  // the cast to f32
  };

  std::optional<ir::TensorRef> narrow_result(const ir::TensorRef& ref) const;
  std::string suffix() const;
  void add_before(ir::OpId reader, const std::string& name, ir::Loops loops, ir::BufferId out);
  std::optional<Weights> weights_of(const ir::Product& product);
  std::optional<Weights> made_weights(const ir::Product& product);
  // A dense copy whose dimensions lie in memory in this order.
  Rows values_of(ir::OpId id, const ir::TensorRef& ref, const std::vector<std::size_t>& order,
                 std::size_t apart);
  // Returns an operand of an attention in the narrow type; `all` are the attention's operands. If they read
  // as many elements of a buffer as it has, the buffer is cast in its own layout: then the cast can join its
  // producer.
  ir::TensorRef operand(ir::OpId id, const ir::TensorRef& ref, const std::vector<ir::TensorRef>& all);
  void add_largest(ir::OpId id, const ir::TensorRef& ref, const std::vector<ir::Expr>& sizes, Rows& rows);
  void scale_sums(ir::OpId id, const Rows& rows, const Weights& weights);

  ir::Schedule& schedule_;
  ir::Graph& graph_;
  ir::DType type_;
  StorageWriters writers_;
  NewOperations added_;
  std::vector<std::pair<ir::TensorRef, Rows>> rows_;
  std::vector<std::pair<ir::BufferId, ir::BufferId>> copies_;  // of whole buffers
  std::vector<std::pair<ir::TensorRef, std::optional<Weights>>> weights_;
  std::map<ir::StorageId, Result> results_;
};

}  // namespace braid::passes
