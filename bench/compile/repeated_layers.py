#!/usr/bin/env python3
"""Writes IR text of many equal layers to standard output, to see how compile time grows with the graph.

  bench/compile/repeated_layers.py 12500 > deep.braid      # 8 operations a layer: 100,000
  braid opt deep.braid --timing -o /dev/null

A layer is a normalisation (two reductions and a loop), a matrix product, its activation, a second product, the residual
and, with --ranks 2, an all-reduce before it; without, a copy in its place.
"""

import argparse

LAYER = """\
%l{i}.sum: f32[n] = reduction sum over [64] {{
  %0 = load %x{i}
  store %0
}}
%l{i}.squares: f32[n] = reduction sum over [64] {{
  %0 = load %x{i}
  %1 = load %l{i}.sum[i0]
  %2 = constant f32 64.0
  %3 = div %1, %2
  %4 = sub %0, %3
  %5 = mul %4, %4
  store %5
}}
%l{i}.norm: f32[n, 64] = pointwise {{
  %0 = load %x{i}
  %1 = load %l{i}.sum[i0]
  %2 = constant f32 64.0
  %3 = div %1, %2
  %4 = sub %0, %3
  %5 = load %l{i}.squares[i0]
  %6 = rsqrt %5
  %7 = mul %4, %6
  store %7
}}
%l{i}.up: f32[n, 64] = gemm %l{i}.norm, %w
%l{i}.act: f32[n, 64] = pointwise {{
  %0 = load %l{i}.up
  %1 = tanh %0
  store %1
}}
%l{i}.down: f32[n, 64] = gemm %l{i}.act, %w
{middle}
%x{next}: f32[n, 64] = pointwise {{
  %0 = load %x{i}
  %1 = load %{last}
  %2 = add %0, %1
  store %2
}}
"""
COPY = """\
%l{i}.copy: f32[n, 64] = pointwise {{
  %0 = load %l{i}.down
  store %0
}}"""
ALL_REDUCE = """\
%l{i}.total: f32[n, 64] comm(symmetric, @tp) = all_reduce sum @tp (%l{i}.down)
%l{i}.total.1 mutates %l{i}.total = wait l{i}.total
release l{i}.total"""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("layers", type=int)
    parser.add_argument("--ranks", type=int, default=1)
    options = parser.parse_args()
    print("graph deep")
    if options.ranks > 1:
        print(f"ranks {options.ranks}\ngroup @tp = [{', '.join(str(r) for r in range(options.ranks))}]")
    print("dim n in [1, 128]\n\ninput %x0: f32[n, 64]\nconstant %w: f32[64, 64] = splat(0.5)\n")
    for i in range(options.layers):
        middle = (ALL_REDUCE if options.ranks > 1 else COPY).format(i=i)
        last = f"l{i}.total.1" if options.ranks > 1 else f"l{i}.copy"
        print(LAYER.format(i=i, next=i + 1, middle=middle, last=last))
    print(f"output %x{options.layers}")


if __name__ == "__main__":
    main()
