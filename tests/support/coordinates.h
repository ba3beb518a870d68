// A program in which everything that may depend on the rank's coordinates does: operands of products, parts
// of weights, indices of loads and stores, numbers, views, epilogues; with collectives between them. On every
// engine it computes the interpreter's bits.
#pragma once

#include <fmt/format.h>

#include <string>

namespace braid::test {

inline std::string by_coordinates() {
  std::string weights;
  for (int k = 0; k < 64; ++k) weights += fmt::format("{}{}", k == 0 ? "" : ", ", (k * 7 + 3) % 5 - 2);
  return fmt::format(R"(graph by_coordinates
dim n in [1, 6]
ranks 8
mesh [dp=2, tp=2, "e p"=2]
group @tp = axis tp
group @rest = axis dp, "e p"
input %x: f32[n, 8]
constant %w: f32[8, 8] = [{}]
%columns: f32[n, 4] = gemm %x, %w at 4*rank(tp) [8, 4] strides [8, 1]
%rows: f32[n, 8] = gemm %x at 4*rank(tp) [n, 4] strides [8, 1], %w at 32*rank(tp) [4, 8] strides [8, 1] epilogue {{
  %0 = acc f32
  %1 = index i64 i1 + 10*rank(dp) + rank("e p")
  %2 = cast f32 %1
  %3 = add %0, %2
  return %3
}}
%zero: f32[n, 8] = pointwise {{ %0 = constant f32 0.0 store %0 }}
%wide mutates %zero = pointwise [n, 4] {{
  %0 = load %columns
  store %0 at 8*i0 + i1 + 4*rank(tp)
}}
%sum: f32[n, 8] = all_reduce sum @tp (%wide)
%all: f32[4, n, 8] = all_gather @rest (%rows)
%sum.1 mutates %sum = wait sum
release sum
%all.1 mutates %all = wait all
release all
buffer %mine: f32[n, 4] in %sum.1 at 4*rank(tp) strides [8, 1]
%largest: f32[4] = reduction max over [n] {{ %0 = load %mine[i1, i0] store %0 }}
%own: f32[n, 8] = pointwise {{
  %0 = load %all.1[16*n*rank(dp) + 8*n*rank("e p") + 8*i0 + i1]
  %1 = index i64 rank("e p") + floordiv(i1, 2)
  %2 = check_index %1, 5
  %3 = load %largest[min(%2, 3)]
  %4 = index i64 i1 - 6*rank(tp)
  %5 = constant i64 0
  %6 = ge %4, %5
  %7 = load %x[8*i0 + i1 - 6*rank(tp)] if %6
  %8 = add %0, %3
  %9 = add %8, %7
  store %9
}}
%zeros: f32[n, 16] = pointwise {{ %0 = constant f32 0.0 store %0 }}
%z mutates %zeros = pointwise [n, 8] {{
  %0 = load %own
  store %0 at 16*i0 + i1 + 8*rank(dp)
}}
output %sum.1
output %largest
output %own
output %z
)",
                     weights);
}

}  // namespace braid::test
