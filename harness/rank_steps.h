// The steps of one rank of a CPU program on given inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "harness/session.h"
#include "ir/tensor.h"

namespace braid::harness {

class RankSteps {
 public:
  // Memory for output k of this shape.
  using Memory = std::function<void*(std::size_t k, std::span<const std::int64_t> shape)>;

  // Prepares for the inputs. Everything must outlive this object, and the inputs stay unchanged. Inputs that
  // a step writes are copied, and so are inputs with capacities; the copies have the memory that the
  // program's table asks for. Without `memory` the outputs have memory of this object.
  RankSteps(Session& session, const BraidProgram& table, const std::vector<ir::Tensor>& inputs,
            const Memory& memory = {});

  // Restores the inputs that the last step has written, runs one step and returns its nanoseconds.
  std::int64_t run();
  std::span<const rt::TensorView> outputs() const { return outputs_; }

 private:
  bool fits(std::size_t k) const;
  void fill(std::pair<std::size_t, std::vector<std::byte>>& own) const;

  Session& session_;
  const BraidProgram& table_;
  const std::vector<ir::Tensor>& given_;
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> own_inputs_;  // by input
  std::vector<std::vector<std::byte>> own_outputs_;
  std::vector<rt::TensorView> inputs_, outputs_;
};

}  // namespace braid::harness
