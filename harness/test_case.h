// Test cases in the layout of ONNX's backend tests:
//
//   CASE/model.onnx | CASE/model.rank{r}.onnx     CASE/dims.json: {"batch": [1, 4]} (optional)
//   CASE/test_data_set_<i>/input_<j>.pb, output_<j>.pb                 one rank, or the same on all
//   CASE/test_data_set_<i>/rank<r>/input_<j>.pb, output_<j>.pb         per rank
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/interface.h"
#include "ir/expr.h"
#include "ir/tensor.h"

namespace braid::harness {

struct TestData {
  std::string name;
  RankTensors inputs;   // per rank
  RankTensors outputs;  // per rank
};

struct TestCase {
  std::string dir;
  std::string model;  // may contain {rank}
  int ranks = 1;
  std::vector<std::string> input_names;  // of the model, in the order of the data's
  std::vector<TestData> data;
  std::map<std::string, ir::Bounds> dims;  // from dims.json, otherwise from the data sets
};

// UserError BR0009 if the folder is not a test case; also throws the errors of its files.
TestCase read_test_case(const std::string& dir);

}  // namespace braid::harness
