// The steps that lead from one state of a tensor to another, and the cheapest of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ir/dtype.h"
#include "ir/expr.h"
#include "split/mesh.h"

namespace braid::split {

// One step of a conversion. `slice` and `permute` move no data between ranks.
enum class StepKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, slice, permute };
const char* to_string(StepKind kind);

struct ConversionStep {
  StepKind kind = StepKind::slice;
  std::int64_t bytes = 0;  // the bytes of one rank before the step
  ir::DType dtype = ir::DType::f32;
  int axis = 0;    // its number in the mesh
  int stride = 1;  // between the ranks of a group along it
};
// The cost of a step on that many ranks, in picoseconds.
using StepCost = std::function<std::int64_t(const ConversionStep& step, int ranks)>;

// Whether collectives reduce elements of the type.
bool can_reduce(ir::DType dtype);
// Whether each rank's part of a constant is known while compiling.
bool can_shard(ir::DType dtype, const Spec& spec);

// Returns the steps from one state to another; empty if they are equal. Returns nullopt if it is impossible
// (R -> P, P -> another P, element types that no collective takes). `bytes` are those of the whole tensor.
std::optional<std::vector<ConversionStep>> conversion_steps(const Spec& from, const Spec& to, ir::DType dtype,
                                                            std::int64_t bytes, int ranks);

// Finds the cheapest steps from one state on a mesh to another, each on one axis (Dijkstra over the states in
// between). In between, an axis is in its first state, whole, in its last state or, if the tensor is pending,
// scattered. An axis moves only while no later axis cuts its parts of a dimension further or is pending with
// another reduction. The first axis goes to its last state in one move, since the model is split along it
// before the others (apply.h).
//
// One object is for all tensors of one type and these sizes; it asks once for the cost of each step.
class CheapestSteps {
 public:
  // `bytes` and `sizes` are those of the whole tensor. `mesh` and `cost` must outlive it.
  CheapestSteps(ir::DType dtype, std::int64_t bytes, const std::vector<ir::Expr>& sizes, const Mesh& mesh,
                const StepCost& cost);

  // Returns the cost of the steps together; nullopt if the conversion is impossible.
  std::optional<std::int64_t> cost(const MeshSpec& from, const MeshSpec& to);
  // Returns the steps; empty if the states are equal.
  std::optional<std::vector<ConversionStep>> steps(const MeshSpec& from, const MeshSpec& to);

 private:
  using Number = std::uint8_t;  // of a state on one axis
  struct Own {
    Spec spec;
    bool split = false, pending = false;
    std::vector<std::int64_t> moves;  // costs, by the state to which it moves and the other axes that split
  };
  using PlaceId = ir::Id<struct PlaceTag>;
  struct Place {
    std::size_t cell = 0;
    std::int64_t cost = 0;
    PlaceId before;  // invalid: the first one
    int axis = -1;   // that moved
    bool done = false;
  };

  // The states of an axis during a search. States into which only a sum is scattered come last.
  struct Reach {
    std::vector<Number> states;
    std::size_t unscattered = 0;
    std::size_t stride = 1;  // of cells
  };
  enum class Fits : std::uint8_t { unknown, yes, no };

  int axes() const { return mesh_.size(); }
  const Own& own(int axis, Number number) const { return owns_[axis][number]; }
  const Number* state(PlaceId place) const { return &states_[ir::offset_of(place) * axes()]; }
  Number number(int axis, const Spec& spec);
  void forget();  // drops all numbers
  std::size_t cell_of(const std::vector<Number>& state) const;
  PlaceId place_at(std::size_t cell) const;
  PlaceId add_place(std::size_t cell, const std::vector<Number>& state, int axis);
  std::optional<std::int64_t> search(const MeshSpec& from, const MeshSpec& to);
  void find_reach();
  bool may_move(int axis, Number target) const;
  bool may_pad(const std::vector<Number>& state, int axis, std::int64_t size) const;
  bool fits(const std::vector<Number>& state) const;
  bool fits_at(std::size_t cell);
  std::int64_t move_cost(int axis, Number target);
  template <class Add>
  bool each_move(const Number* state, int axis, Number target, const Add& add) const;

  ir::DType dtype_;
  std::int64_t bytes_;
  std::vector<std::int64_t> sizes_;  // -1: only known at run time
  std::vector<char> free_;           // per dimension: whether it can be cut along all axes
  const Mesh& mesh_;
  const StepCost& cost_;
  std::vector<std::vector<Own>> owns_;  // per axis, by number; the first one is whole
  // Per axis: the states split along each dimension, once a pending sum has been met.
  std::vector<std::vector<Number>> scattered_;
  // State of one search.
  IdVector<PlaceId, Place> places_;
  std::vector<Number> states_;  // of the places, one after another
  std::vector<Number> from_, to_, here_, next_;
  std::vector<Reach> reach_;    // by axis
  bool is_small_ = true;        // whether the next two are used
  std::vector<PlaceId> known_;  // by cell: its place
  std::vector<Fits> fits_;      // by cell
  PlaceId last_;
};

}  // namespace braid::split
