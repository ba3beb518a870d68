// Parts of which the cases of collective_forms.h are made.
#pragma once

#include <numeric>
#include <random>

#include "tests/support/collective_forms.h"
#include "tests/support/collective_reference.h"

namespace braid::test {

inline std::vector<int> all_ranks(int n) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}
inline std::vector<int> all_but_first_backwards(int n) {
  const std::vector<int> all = all_ranks(n);
  return {all.rbegin(), all.rend() - 1};
}

// Small whole numbers: sums and products of them are exact in any order. One matrix per rank.
inline Matrices random_matrices(int ranks, int rows, int cols) {
  std::mt19937_64 random(17);
  Matrices out;
  for (int r = 0; r < ranks; ++r)
    out.push_back(fill(rows, cols, [&](int, int) { return static_cast<float>(random() % 7) - 3; }));
  return out;
}

inline ir::Tensor tensor_of(const Matrix& m) {
  return ir::make_tensor(ir::DType::f32, {m.rows, m.cols}, m.values);
}

// A program with one input per rank; what is expected is said output by output.
class CaseWriter {
 public:
  CaseWriter(std::string name, std::vector<int> group, Matrices inputs)
      : group_(std::move(group)), matrices_(std::move(inputs)) {
    case_.name = std::move(name);
    case_.group = group_;
    for (const Matrix& m : matrices_) case_.inputs.push_back({tensor_of(m)});
    case_.expected.resize(matrices_.size());
  }
  Matrices of_members() const {
    Matrices out;
    for (int r : group_) out.push_back(matrices_[static_cast<std::size_t>(r)]);
    return out;
  }
  // The next output. `others`: of ranks outside of the group, from their own input; null: not defined there.
  void expect(const Reference& reference, const std::function<Matrix(const Matrix&)>& others = nullptr) {
    for (std::size_t r = 0; r < matrices_.size(); ++r) {
      case_.expected[r].emplace_back();
      if (others) case_.expected[r].back() = tensor_of(others(matrices_[r]));
    }
    const Matrices in = of_members();
    for (std::size_t me = 0; me < group_.size(); ++me)
      case_.expected[static_cast<std::size_t>(group_[me])].back() =
          tensor_of(reference(in, static_cast<int>(me)));
  }
  CollectiveCase finish(ir::Schedule schedule) {
    case_.schedule = std::move(schedule);
    return std::move(case_);
  }

 private:
  std::vector<int> group_;
  Matrices matrices_;
  CollectiveCase case_;
};

}  // namespace braid::test
