// Splits of the cases of ONNX's node suite and of the random cases of operators: every way in which the
// command line can ask for one, and plans that force each combination of each rule.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "tests/support/onnx_cases.h"

namespace braid::test {

struct SweepCase {
  fs::path folder;
  CompileOptions options;                  // of the plain model
  std::map<std::string, ir::Tensor> data;  // of its inputs, by name
};
// nullopt: its data are no tensors, or it has a file or data per rank.
std::optional<SweepCase> sweep_case(const fs::path& folder, bool binds_inputs);

struct Split {
  std::string what;
  std::function<ir::Schedule()> lower;
};
// --tp 2, --tp 3, --devices 2 and a mesh of two by two.
std::vector<Split> asked_splits(const SweepCase& c);
// Returns one split per combination of each node's rule on so many ranks, at most `most`, evenly chosen; with
// two axes, pairs of combinations.
std::vector<Split> forced_splits(const SweepCase& c, const std::string& mesh, std::size_t most);

// The inputs of a program for all of its ranks.
std::vector<std::vector<ir::Tensor>> inputs_of(const ir::Schedule& schedule, const SweepCase& c);
// Compares each rank's results with the plain program's; "" if nothing is wrong. Sums are taken in another
// order.
std::string split_difference(const std::vector<std::vector<ir::Tensor>>& ranks,
                             const std::vector<ir::Tensor>& plain);

}  // namespace braid::test
