#include "tests/support/collective_reference.h"

#include <algorithm>
#include <numeric>

namespace braid::test {

Matrix fill(int rows, int cols, const std::function<float(int, int)>& f) {
  Matrix m(rows, cols);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) m.at(r, c) = f(r, c);
  }
  return m;
}

Matrix part(const Matrix& m, int axis, int k, int n) {
  const int rows = axis == 0 ? m.rows / n : m.rows, cols = axis == 1 ? m.cols / n : m.cols;
  return fill(rows, cols,
              [&](int r, int c) { return axis == 0 ? m.at(r + k * rows, c) : m.at(r, c + k * cols); });
}

Matrix joined(const Matrices& parts, int axis) {
  const int n = static_cast<int>(parts.size()), rows = parts[0].rows, cols = parts[0].cols;
  return fill(axis == 0 ? rows * n : rows, axis == 1 ? cols * n : cols, [&](int r, int c) {
    return axis == 0 ? parts[static_cast<std::size_t>(r / rows)].at(r % rows, c)
                     : parts[static_cast<std::size_t>(c / cols)].at(r, c % cols);
  });
}

Reference reduced(const std::string& op) {
  return [op](const Matrices& in, int) {
    return fill(in[0].rows, in[0].cols, [&](int r, int c) {
      float v = in[0].at(r, c);
      for (std::size_t k = 1; k < in.size(); ++k) {
        const float w = in[k].at(r, c);
        if (op == "sum" || op == "avg") v += w;
        if (op == "prod") v *= w;
        if (op == "max") v = std::max(v, w);
        if (op == "min") v = std::min(v, w);
      }
      return op == "avg" ? v / static_cast<float>(in.size()) : v;
    });
  };
}

Reference gathered(int axis) {
  return [axis](const Matrices& in, int) { return joined(in, axis); };
}

Reference scattered(const std::string& op, int axis) {
  return [=](const Matrices& in, int me) {
    return part(reduced(op)(in, me), axis, me, static_cast<int>(in.size()));
  };
}

Reference exchanged(int split, int concat) {
  return [=](const Matrices& in, int me) {
    Matrices parts;
    for (const Matrix& m : in) parts.push_back(part(m, split, me, static_cast<int>(in.size())));
    return joined(parts, concat);
  };
}

Reference exchanged_unevenly(std::vector<int> split) {
  return [split = std::move(split)](const Matrices& in, int me) {
    Matrix out(0, in[0].cols);
    const int n = static_cast<int>(in.size());
    for (int i = 0; i < n; ++i) {
      const int* row = split.data() + i * n;
      const int begin = std::accumulate(row, row + me, 0) * out.cols;
      const std::vector<float>& from = in[static_cast<std::size_t>(i)].values;
      out.values.insert(out.values.end(), from.begin() + begin, from.begin() + begin + row[me] * out.cols);
      out.rows += row[me];
    }
    return out;
  };
}

Reference from_member(int k) {
  return [k](const Matrices& in, int) { return in[static_cast<std::size_t>(k)]; };
}

}  // namespace braid::test
