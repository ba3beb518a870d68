// Runs a schedule on N simulated ranks, slowly and obviously right: the oracle of random tests.
//
// Numbers: every instruction computes what ir/scalar.h defines. Reductions, GEMMs and collectives accumulate
// floats in double and round once, so programs are compared with the accurate result and not with one of the
// many possible roundings.
//
// Memory is real bytes: views, mutations and aliases share them, activations start out poisoned (0xFF bytes:
// NaN, -1), and with `use_plan` storages lie where the memory plan puts them and are poisoned again when they
// die. Every access is then checked against the plan (ir/plan_watch.h); a violation is an InternalError that
// names storage and step.
//
// Ranks run one after another until they block, in an order set by `order_seed`. Collectives use all the
// freedom of a real engine: a start poisons its outputs, and peers may read a rank's input as late as in
// their own wait, until the release. Touching memory in flight therefore gives wrong numbers. A deadlock is a
// user error that says which rank waits for which. A rank outside a collective's group skips it, and so does
// a rank that would send to or receive from itself.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "ir/tensor.h"

namespace braid::ir {

// One call of an extern kernel. Operands are row-major; `writes` are zeroed before the call and hold the
// results after it.
struct ExternCall {
  const Operation& op;
  int rank;
  std::vector<Tensor> reads;
  std::vector<Tensor> writes;
};
using ExternFn = std::function<void(ExternCall&)>;

// An extern kernel for graphs that exist only to be scheduled: it writes small integers that depend on the
// operation's callee and attributes and on every bit that it reads.
void opaque_kernel(ExternCall& call);

struct InterpreterOptions {
  bool use_plan = false;
  std::uint64_t order_seed = 0;             // 0: ranks in order; otherwise a random runnable rank
  std::map<std::string, ExternFn> externs;  // by callee, before registered ones; "": all others
};

struct InterpreterResult {
  std::vector<std::vector<Tensor>> outputs;  // per rank, in the order of Graph::outputs
};

// Takes the inputs of each of the graph's ranks, in the order of Graph::inputs. The inputs' sizes determine
// the dimensions. User errors: wrong inputs (BR0701), a dimension outside its bounds or not determined by the
// inputs (BR0302), a guard that does not hold (BR0303), constants without data (BR0702), unknown extern
// kernels (BR0703), failed index checks and integer division by zero (BR0711), collectives that do not match
// or never complete (BR0410).
InterpreterResult run(const Schedule& schedule, std::span<const std::vector<Tensor>> inputs_per_rank,
                      const InterpreterOptions& options = {});
// The same with one program per rank (pipelines).
InterpreterResult run(std::span<const Schedule* const> programs,
                      std::span<const std::vector<Tensor>> inputs_per_rank,
                      const InterpreterOptions& options = {});

// The dimensions implied by the inputs' sizes, by name.
std::map<std::string, std::int64_t> bind_dims(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace braid::ir
