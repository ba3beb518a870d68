// What conversions between the states of a space cost, of alike ones once.
//
//   S(0), S(1)  ->  R, S(0)   of [8, 2048, 4096]          the same steps of the same bytes: which dimensions are split matters
//   S(1), S(2)  ->  R, S(1)                               only where one cannot be cut along all axes, or is split in blocks
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "split/conversion_steps.h"
#include "split/mesh.h"

namespace braid::split {

// States with codes in which their dimensions can be exchanged; of one space, for all who ask what its conversions cost.
class StateCodes {
 public:
  explicit StateCodes(const std::vector<MeshSpec>& states);

 private:
  friend class ConversionCosts;
  static constexpr std::size_t kMostAxes = 8;
  // On an axis; `whole` is the number of the state, 0: it is replicated.
  struct Place {
    std::uint8_t dim = 0;
    std::uint8_t whole = 0;
    bool split = false;
  };
  struct Coded {
    std::array<Place, kMostAxes> places;
    std::uint64_t blocked = 0;  // dimensions that it splits in blocks
  };

  bool coded_ = true;  // whether all states have codes
  std::vector<Coded> codes_;
};

class ConversionCosts {
 public:
  // All of them must outlive this; states are named by their numbers.
  ConversionCosts(const std::vector<MeshSpec>& states, const StateCodes& codes, const Mesh& mesh,
                  const StepCost& step);

  // Tensors of one number cost the same. `bytes` and `sizes` are those of the whole tensor.
  int tensor(ir::DType dtype, std::int64_t bytes, const std::vector<ir::Expr>& sizes);
  // nullopt: impossible.
  std::optional<std::int64_t> operator()(int tensor, int from, int to);

 private:
  struct Tensor {
    CheapestSteps steps;
    std::uint64_t free = 0;  // dimensions that can be cut along all axes: any other of them would do as well
  };
  struct Key {
    std::uint64_t from = 0, to = 0;
    bool operator==(const Key&) const = default;
  };
  // Costs by keys, in a power of two of cells; what is taken stands in the first one that was free from the key's own on.
  class Known {
   public:
    // The cost of the key; kUnknown if it is new.
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

  Key key(const Tensor& tensor, int from, int to) const;

  const std::vector<MeshSpec>& states_;
  const StateCodes& codes_;
  const Mesh& mesh_;
  const StepCost& step_;
  std::vector<Tensor> tensors_;
  using TensorKey = std::pair<ir::DType, std::vector<std::int64_t>>;  // with the bytes behind the sizes
  std::map<TensorKey, int> numbers_;
  TensorKey asked_;
  std::vector<Known> known_;  // per tensor
};

}  // namespace braid::split
