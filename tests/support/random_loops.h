// The part of a random program (random_graph.h) that computes: loops, reductions, GEMMs, parts of larger
// tensors, views, mutations and regions, each over tensors that were made before it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/build.h"

namespace braid::test {

class RandomLoops {
 protected:
  explicit RandomLoops(std::uint64_t seed) : random_(seed) {}

  std::mt19937_64 random_;
  Builder b_;
  std::vector<ir::Expr> dims_;
  std::map<std::string, std::int64_t> actual_;  // sizes of the dimensions, within their bounds
  ir::BufferId ids_;                            // four indices below 4, for gathers
  std::vector<ir::BufferId> ready_;             // may be read
  std::multiset<ir::StorageId> pinned_;         // must not be written: a collective reads or writes them

  bool in_region_ = false;  // a body may never run: no graph outputs are made there

  ir::Graph& graph() { return b_.graph; }
  ir::ExprPool& pool() { return *graph().pool; }
  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  ir::Expr i(std::size_t k) { return pool().index(k); }

  void add_dim(const std::string& name, std::int64_t min, std::int64_t max);
  void add(ir::BufferId b) { ready_.push_back(b); }
  ir::BufferId any();
  ir::BufferId fresh(std::vector<ir::Expr> sizes, ir::DType dtype);

  // Writes `out` from `first` and some others, point by point.
  void fill(ir::BufferId out, std::optional<ir::BufferId> first = std::nullopt);

  // Steps of a program.
  void pointwise();
  void copies();  // rows side by side, then columns of them: one copy of a copy
  void reduction();
  void gemm();
  void concatenation();  // a tensor written in parts along one axis, then read as a whole
  void view();
  void mutation();
  void region();  // two loops in a body of their own
  void results();

 private:
  std::vector<ir::Expr> indices(std::size_t n);
  ir::DType random_dtype();
  // A load of `from` at a loop over `sizes`: at its own index, reshaped, broadcast, permuted, reversed,
  // gathered.
  ir::ValueId load(ir::BodyBuilder& body, ir::BufferId from, const std::vector<ir::Expr>& sizes);
  // An activation, or what is one for small values only; whole numbers stay whole.
  ir::ValueId bend(ir::BodyBuilder& body, ir::ValueId v, ir::DType dtype);
  // Small results whatever comes in: the interpreter computes exactly, and so stays exact.
  ir::ValueId combine(ir::BodyBuilder& body, std::vector<ir::ValueId> values, ir::DType dtype);
  void emit_loops(ir::BufferId out, const std::vector<ir::Expr>& sizes, int reduced, ir::ReduceKind kind,
                  const ir::LoopBody& body);
  // Sizes of a loop that fills a buffer of these sizes: the same, or with two dimensions as one.
  std::vector<ir::Expr> factorisation(ir::BufferId out);
  void forget(ir::StorageId storage);
};

}  // namespace braid::test
