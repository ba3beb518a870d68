// Costs of conversions between the states of a space. Conversions that take the same steps are computed once.
//
//   S(0), S(1)  ->  R, S(0)   of [8, 2048, 4096]  the same steps of the same bytes: the split dimensions
//   S(1), S(2)  ->  R, S(1)                       matter only where one cannot be cut along all axes, or is
//                                                 split in blocks
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "split/conversion_steps.h"
#include "split/mesh.h"

namespace braid::split {

// Codes of states in which dimensions can be exchanged. All ConversionCosts of one space share them.
class StateCodes {
 public:
  explicit StateCodes(const IdVector<StateId, MeshSpec>& states);

 private:
  friend class ConversionCosts;
  static constexpr std::size_t kMostAxes = 8;
  // The state on one axis; `whole` is the number of the state, 0: replicated.
  struct Place {
    std::uint8_t dim = 0;
    std::uint8_t whole = 0;
    bool split = false;
  };
  struct Coded {
    std::array<Place, kMostAxes> places;
    std::uint64_t blocked = 0;  // dimensions that are split in blocks
  };

  bool coded_ = true;  // whether all states have codes
  IdVector<StateId, Coded> codes_;
};

class ConversionCosts {
 public:
  using TensorId = ir::Id<struct TensorTag>;  // tensors of one id have equal costs

  // All arguments must outlive this.
  ConversionCosts(const IdVector<StateId, MeshSpec>& states, const StateCodes& codes, const Mesh& mesh,
                  const StepCost& step);

  // `bytes` and `sizes` are those of the whole tensor.
  TensorId tensor(ir::DType dtype, std::int64_t bytes, const std::vector<ir::Expr>& sizes);
  // Returns nullopt if the conversion is impossible.
  std::optional<std::int64_t> operator()(TensorId tensor, StateId from, StateId to);

 private:
  struct Tensor {
    CheapestSteps steps;
    std::uint64_t free = 0;  // dimensions that can be cut along all axes, which are interchangeable
  };
  struct Key {
    std::uint64_t from = 0, to = 0;
    bool operator==(const Key&) const = default;
  };
  // A hash table of costs by key: a power of two of cells, linear probing.
  class Known {
   public:
    // Returns the cost of the key; kUnknown if it is new.
    std::int64_t& operator[](const Key& key);

   private:
    struct Cell {
      Key key;
      std::int64_t cost = 0;
      bool taken = false;
    };
    Cell& cell(const Key& key);
    std::vector<Cell> cells_ = std::vector<Cell>(64);
    std::size_t taken_ = 0;
  };
  static constexpr std::int64_t kUnknown = -1, kImpossible = -2;

  Key key(const Tensor& tensor, StateId from, StateId to) const;

  const IdVector<StateId, MeshSpec>& states_;
  const StateCodes& codes_;
  const Mesh& mesh_;
  const StepCost& step_;
  IdVector<TensorId, Tensor> tensors_;
  using TensorKey = std::pair<ir::DType, std::vector<std::int64_t>>;  // with the bytes after the sizes
  std::map<TensorKey, TensorId> ids_;
  TensorKey asked_;
  IdVector<TensorId, Known> known_;
};

}  // namespace braid::split
