// Parts of which the cases of collective_forms.h are made.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

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

// Odd ranks backwards and even ones, each on their own.
inline ir::Parts odd_and_even(int n) {
  ir::Parts parts(2);
  for (int r = 0; r + 1 < n; r += 2) {
    parts[0].insert(parts[0].begin(), r + 1);
    parts[1].push_back(r);
  }
  return parts;
}

// The groups of collectives that do not run over all ranks.
struct Subgroup {
  std::string name;  // "some", "parts"
  ir::Parts parts;

  int size() const { return static_cast<int>(parts[0].size()); }
  std::string attributes() const {  // of ai.braid's nodes
    if (parts.size() == 1) return fmt::format("group = [{}]", fmt::join(parts[0], ", "));
    std::vector<int> listed;
    for (const std::vector<int>& part : parts) listed.insert(listed.end(), part.begin(), part.end());
    return fmt::format("groups = [{}], group_size = {}", fmt::join(listed, ", "), size());
  }
};
inline std::vector<Subgroup> subgroups(int ranks) {
  std::vector<Subgroup> out;
  if (ranks > 2) out.push_back({"some", {all_but_first_backwards(ranks)}});
  if (ranks > 2 && ranks % 2 == 0) out.push_back({"parts", odd_and_even(ranks)});
  return out;
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
  CaseWriter(std::string name, const ir::Parts& parts, Matrices inputs) : matrices_(std::move(inputs)) {
    case_.name = std::move(name);
    case_.group = {"g", parts};
    for (const Matrix& m : matrices_) case_.inputs.push_back({tensor_of(m)});
    case_.expected.resize(matrices_.size());
  }
  // The next output. `others`: of ranks outside of the group, from their own input; null: not defined there.
  void expect(const Reference& reference, const std::function<Matrix(const Matrix&)>& others = nullptr) {
    for (std::size_t r = 0; r < matrices_.size(); ++r) {
      case_.expected[r].emplace_back();
      if (others) case_.expected[r].back() = tensor_of(others(matrices_[r]));
    }
    for (const std::vector<int>& part : case_.group.parts) {
      Matrices in;
      for (int r : part) in.push_back(matrices_[static_cast<std::size_t>(r)]);
      for (std::size_t me = 0; me < part.size(); ++me)
        case_.expected[static_cast<std::size_t>(part[me])].back() =
            tensor_of(reference(in, static_cast<int>(me)));
    }
  }
  CollectiveCase finish(ir::Schedule schedule) {
    case_.schedule = std::move(schedule);
    return std::move(case_);
  }

 private:
  Matrices matrices_;
  CollectiveCase case_;
};

}  // namespace braid::test
