// Runs the cases of `braid test`: a case's model, or a compiled program on its data.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/temp_dir.h"
#include "driver/compile.h"
#include "harness/program.h"
#include "harness/test_case.h"
#include "ir/schedule.h"

namespace braid::harness {

// The inputs of a data set by name; only those that are equal on all ranks, which run one program.
std::map<std::string, ir::Tensor> bindable_inputs(const TestCase& test, const TestData& data);

class CaseProgram {
 public:
  // The model of a case, compiled for its target or lowered for the interpreter. Everything must outlive this
  // object.
  CaseProgram(CompileOptions options, bool interpreted, const ExecuteOptions& execution,
              const TestCase& test);
  // The compiled program in `dir`. One of several ranks may have been made of the plain model of the case.
  // UserError BR0401 if it is not for the case's ranks.
  CaseProgram(const std::string& dir, const ExecuteOptions& execution, const TestCase& test);

  // The inputs that are constants of the program.
  const std::set<std::string>& bound() const { return bound_; }
  std::vector<RankResult> run(RankTensors inputs) const;
  // Returns the outputs that the ranks must return; their results lose their padding.
  RankTensors expected(const TestData& data, std::vector<RankResult>& results) const;

 private:
  void find_bound(const CompileOptions& options, const TestCase& test);
  // UserError BR0484 if a rank has a term of a sum. `shown` is the program.
  void require_no_terms(const std::string& shown) const;

  const ExecuteOptions& execution_;
  ir::Schedule schedule_;
  int ranks_ = 1;
  bool split_ = false;  // a plain case on several ranks
  // Which parts of the inputs and outputs of a plain case a program of several ranks has.
  std::vector<std::optional<TensorPart>> inputs_, outputs_;
  std::set<std::string> bound_;
  std::vector<std::size_t> bound_positions_;  // ascending
  codegen::TempDir temporary_;
  std::shared_ptr<const Program> program_;  // null: the interpreter runs
};

}  // namespace braid::harness
