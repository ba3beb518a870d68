// Test cases in the layout of ONNX's backend tests:
//
//   CASE/model.onnx | CASE/model.rank{r}.onnx     CASE/dims.json: {"batch": [1, 4]} (optional)
//   CASE/test_data_set_<i>/input_<j>.pb, output_<j>.pb                 one rank, or the same on all
//   CASE/test_data_set_<i>/rank<r>/input_<j>.pb, output_<j>.pb         per rank
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/expr.h"
#include "ir/tensor.h"

namespace braid::cli {

struct TestData {
  std::string name;
  std::vector<std::vector<ir::Tensor>> inputs;   // per rank
  std::vector<std::vector<ir::Tensor>> outputs;  // per rank
};

struct TestCase {
  std::string dir;
  std::string model;  // may hold {rank}
  int ranks = 1;
  std::vector<TestData> data;
  std::map<std::string, ir::Bounds> dims;  // from dims.json, else what the data sets have
};

// UserError BR0009 where the folder is no test case; those of the files in it.
TestCase read_test_case(const std::string& dir);

}  // namespace braid::cli
