// Transposition of a block in registers, for copies of generated loops that read along one dimension and
// write along another.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace braid::rt {

namespace transposition {

// Numbers with so many bytes, whatever they mean.
template <int bytes>
struct Unsigned;
template <>
struct Unsigned<1> {
  using type = uint8_t;
};
template <>
struct Unsigned<2> {
  using type = uint16_t;
};
template <>
struct Unsigned<4> {
  using type = uint32_t;
};
template <>
struct Unsigned<8> {
  using type = uint64_t;
};

// A vector of n numbers; n of them are a square.
template <class T, int n>
struct Square {
  typedef T Vector __attribute__((vector_size(n * sizeof(T))));
  Vector rows[n];

  // Exchanges lanes with bit d of the first row of each pair for lanes without it of the second one.
  template <int d, int... lane>
  static void exchange(Vector& a, Vector& b, std::integer_sequence<int, lane...>) {
    const Vector low = __builtin_shufflevector(a, b, ((lane & d) != 0 ? n + lane - d : lane)...);
    b = __builtin_shufflevector(a, b, ((lane & d) != 0 ? n + lane : lane + d)...);
    a = low;
  }
  template <int d>
  void exchange_all() {
    if constexpr (d > 0) {
      for (int row = 0; row < n; ++row) {
        if ((row & d) == 0) exchange<d>(rows[row], rows[row + d], std::make_integer_sequence<int, n>());
      }
      exchange_all<d / 2>();
    }
  }

  // The lower or upper halves of two vectors, lane by lane in turn: one instruction for 16 bytes.
  template <int half, int... lane>
  static Vector zip(const Vector& a, const Vector& b, std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(a, b, (half * (n / 2) + lane / 2 + lane % 2 * n)...);
  }
  void zip_all() {
    constexpr std::make_integer_sequence<int, n> lanes;
    for (int done = 1; done < n; done *= 2) {
      Square next;
      for (int row = 0; row < n / 2; ++row) {
        next.rows[2 * row] = zip<0>(rows[row], rows[row + n / 2], lanes);
        next.rows[2 * row + 1] = zip<1>(rows[row], rows[row + n / 2], lanes);
      }
      *this = next;
    }
  }

  void transpose() {
    if constexpr (sizeof(Vector) == 16)
      zip_all();
    else
      exchange_all<n / 2>();
  }
};

}  // namespace transposition

// y[r * y_stride + c] = x[c * x_stride + r] for rows * columns elements; strides count elements.
template <class Element>
inline void transpose_block(Element* y, int64_t y_stride, const Element* x, int64_t x_stride, int64_t rows,
                            int64_t columns) {
  using T = typename transposition::Unsigned<sizeof(Element)>::type;
  constexpr int n = sizeof(T) == 1 ? 16 : sizeof(T) == 8 ? 4 : 8;
  const int64_t full_rows = rows / n * n, full_columns = columns / n * n;
  for (int64_t r = 0; r < full_rows; r += n) {
    for (int64_t c = 0; c < full_columns; c += n) {
      transposition::Square<T, n> square;
      for (int k = 0; k < n; ++k)
        std::memcpy(&square.rows[k], x + (c + k) * x_stride + r, sizeof(square.rows[k]));
      square.transpose();
      for (int k = 0; k < n; ++k)
        std::memcpy(y + (r + k) * y_stride + c, &square.rows[k], sizeof(square.rows[k]));
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < full_rows ? full_columns : 0; c < columns; ++c)
      y[r * y_stride + c] = x[c * x_stride + r];
  }
}

}  // namespace braid::rt
