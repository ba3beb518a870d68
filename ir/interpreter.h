// Runs a schedule on N simulated ranks, slowly and obviously right: the oracle of random tests.
//
// Numbers: every instruction as ir/scalar.h says. Reductions, GEMMs and collectives accumulate floats in
// double and round once, so the result is the accurate one that programs are compared with, not one of their
// many roundings.
//
// Memory is real bytes: views, mutations and aliases share them, activations start out poisoned (0xFF bytes:
// NaN, -1), and with `use_plan` storages lie where the memory plan puts them and are poisoned again when they
// die. Every touch is then held to the plan (ir/plan_watch.h): what is wrong is an InternalError that names
// storage and step.
//
// Ranks run one after the other until they block, in an order set by `order_seed`. Collectives are as unkind
// as a real engine may be: a start poisons its outputs, peers read a rank's input as late as in their own
// wait, and only the release ends that. Touching what is in flight therefore gives wrong numbers as well.
// What can never go on is a user error that says which rank waits for whom. A rank that is not in a
// collective's group passes it over; so does a rank that would send to or receive from itself.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "ir/tensor.h"

namespace braid::ir {

// One call of an extern kernel: operands in row-major order; `writes` come in zeroed and go out as results.
struct ExternCall {
  const Operation& op;
  int rank;
  std::vector<Tensor> reads;
  std::vector<Tensor> writes;
};
using ExternFn = std::function<void(ExternCall&)>;

// An extern kernel for graphs that only exist to be scheduled: writes small integers that depend on the
// operation's callee and attributes and on every bit that it reads.
void opaque_kernel(ExternCall& call);

struct InterpreterOptions {
  bool use_plan = false;
  std::uint64_t order_seed = 0;             // 0: ranks in order; else a random rank that can go on
  std::map<std::string, ExternFn> externs;  // by callee; "" serves all that have no entry
};

struct InterpreterResult {
  std::vector<std::vector<Tensor>> outputs;  // per rank, in the order of Graph::outputs
};

// Inputs per rank in the order of Graph::inputs; as many ranks as the graph has. Dimensions are found from
// the inputs' sizes. User errors: wrong inputs (BR0701), a dimension outside of its bounds or not determined
// by the inputs (BR0302), a guard that does not hold (BR0303), constants without data (BR0702), extern
// kernels nobody knows (BR0703), failed index checks and integer division by zero (BR0711), collectives that
// do not match or never end (BR0410).
InterpreterResult run(const Schedule& schedule, std::span<const std::vector<Tensor>> inputs_per_rank,
                      const InterpreterOptions& options = {});
// The same with a program per rank (pipelines).
InterpreterResult run(std::span<const Schedule* const> programs,
                      std::span<const std::vector<Tensor>> inputs_per_rank,
                      const InterpreterOptions& options = {});

// The dimensions that a set of inputs means, by name.
std::map<std::string, std::int64_t> bind_dims(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace braid::ir
