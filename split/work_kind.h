// The kind of work that an operator does, and its effect on costs, before anything is lowered.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/kernel_class.h"

namespace braid::split {

enum class WorkKind : std::uint8_t {
  // Nothing is computed at run time.
  sizes,     // only the sizes of its input are looked at
  view,      // the same elements in the same memory
  constant,  // its result is known while compiling
  list,      // sequences and optional values are taken apart while compiling
  control,   // its bodies are computed, which no plan splits
  // Loops that are fused into what they read or what reads them.
  reorder,    // each element of the input, elsewhere
  repeat,     // each element of the input, perhaps several times
  join,       // the elements of all inputs
  select,     // some elements of the input, perhaps together with constants
  gather,     // elements at positions that are computed or read
  pointwise,  // each element from those at its place
  // Kernels of their own.
  reduction,  // each element from many
  softmax,
  scatter,  // elements are written to positions that are read
  product,
  convolution,
  attention,
  recurrence,
  collective,
};

// Whether it costs nothing, and whether it is fused into other kernels.
constexpr bool is_free(WorkKind kind) { return kind <= WorkKind::control; }
constexpr bool is_fused(WorkKind kind) { return kind >= WorkKind::reorder && kind <= WorkKind::pointwise; }
// Whether all that it makes are elements of its inputs, moved by loops.
constexpr bool is_moved(WorkKind kind) { return kind >= WorkKind::reorder && kind <= WorkKind::gather; }
constexpr bool multiplies(WorkKind kind) { return kind >= WorkKind::product && kind <= WorkKind::attention; }

// The class of kernels that does the work.
ir::KernelClass class_of(WorkKind kind);

// The elements of the first input that a node must fold in a loop, whatever is fused with it. Bounds count
// such a loop as a launch.
enum class Folded : std::uint8_t {
  unknown,  // perhaps none: a softmax may be a part of an attention kernel
  rows,     // its last dimension
  rest,     // the dimensions that the result lacks
};

// Facts of an operator that do not depend on sizes.
struct WorkFacts {
  WorkKind kind;
  // The inputs that flops follow; -1: none. Products and convolutions: the two that are multiplied;
  // attention: query and key; others: the input whose elements are counted.
  int a = -1, b = -1;
  int weights = -1;       // of attention: the input that projects the first one to queries, keys and values
  int passes = 1;         // over the input a, if several kernels read it
  bool looks_up = false;  // reads no more elements of any input than it computes, or than input a has
  Folded folded = Folded::unknown;
  // Whether every program has a kernel of exactly these flops for it if its second factor is a matrix of
  // weights. Bounds count these.
  bool exact = false;
  // The dimension of input 0 that counts the steps of a recurrence, at each of which input 2 is read.
  int steps = -1;
};

// An operand of a node, at the sizes that count.
struct Operand {
  bool present = false;
  std::vector<double> sizes = {};
  std::vector<std::int64_t> ints = {};  // of a small tensor of integers that are known

  int rank() const { return static_cast<int>(sizes.size()); }
  // Negative dimensions count from the end; those that it lacks have size 1.
  double size(int dim) const;
  double elements() const;
};

// All operands of a node.
struct Operands {
  std::vector<Operand> inputs = {}, outputs = {};

  const Operand& input(int k) const { return of(inputs, k); }
  const Operand& output(int k) const { return of(outputs, k); }
  // The elements of all outputs together, and of the largest.
  double results() const;
  double largest_result() const;

 private:
  static const Operand& of(const std::vector<Operand>& list, int k);  // absent beyond its end
};

}  // namespace braid::split
