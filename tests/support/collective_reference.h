// The results of collectives of matrices, computed from the inputs of all members in the plainest way.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace braid::test {

struct Matrix {
  int rows = 0, cols = 0;
  std::vector<float> values;  // row-major
  Matrix(int r, int c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c)) {}
  float& at(int r, int c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  float at(int r, int c) const { return values[static_cast<std::size_t>(r * cols + c)]; }
};
Matrix fill(int rows, int cols, const std::function<float(int, int)>& f);

using Matrices = std::vector<Matrix>;  // one of each member, in the order of the group
// A function that returns the result of the member at position `me`.
using Reference = std::function<Matrix(const Matrices&, int me)>;

Matrix part(const Matrix& m, int axis, int k, int n);  // the k-th of n
Matrix joined(const Matrices& parts, int axis);

Reference reduced(const std::string& op);  // sum, avg, min, max, prod
Reference gathered(int axis);
Reference scattered(const std::string& op, int axis);
Reference exchanged(int split, int concat);
// Member i sends split[i*n + j] rows to member j.
Reference exchanged_unevenly(std::vector<int> split);
Reference from_member(int k);

}  // namespace braid::test
