#!/usr/bin/env python3
"""Writes small programs that can really run, as IR text in the order of the graph (every collective is waited for as soon
as it is started): what the passes have to hide in each is of another kind.

  fsdp             each layer gathers its weight from the ranks, then multiplies
  data_parallel    a chain of products whose gradients are summed over the ranks
  tensor_parallel  products whose partial sums are summed; two halves of the batch do not depend on each other
  experts          tokens go to the ranks of their experts and back, beside a shared expert; two halves

Usage: make_graphs.py FOLDER [--layers N] [--rows M] [--width N]
"""
import argparse
import pathlib


class Text:
    def __init__(self, name):
        self.inputs, self.lines, self.outputs = [], [], []
        self.head = [f"graph {name}", "ranks 2", "channels communicator", "group @all = [0, 1]", ""]

    def input(self, name, *sizes):
        self.inputs.append(f"input %{name}: f32[{', '.join(map(str, sizes))}]")
        return name

    def gemm(self, name, a, b, rows, columns):
        self.lines.append(f"%{name}: f32[{rows}, {columns}] = gemm %{a}, %{b}")
        return name

    def relu(self, name, x, rows, columns):
        self.lines += [f"%{name}: f32[{rows}, {columns}] = pointwise {{", f"  %0 = load %{x}", "  %1 = constant f32 0",
                       "  %2 = max %0, %1", "  store %2", "}"]
        return name

    def add(self, name, x, y, rows, columns):
        self.lines += [f"%{name}: f32[{rows}, {columns}] = pointwise {{", f"  %0 = load %{x}", f"  %1 = load %{y}",
                       "  %2 = add %0, %1", "  store %2", "}"]
        return name

    def collective(self, name, kind, x, *sizes):
        self.lines += [f"%{name}: f32[{', '.join(map(str, sizes))}] = {kind} @all (%{x})",
                       f"%{name}.1 mutates %{name} = wait {name}", f"release {name}"]
        return f"{name}.1"

    def output(self, name):
        self.outputs.append(f"output %{name}")

    def text(self):
        return "\n".join([*self.head, *self.inputs, "", *self.lines, "", *self.outputs]) + "\n"


def fsdp(o):
    t = Text("fsdp")
    x = t.input("x", o.rows, o.width)
    for layer in range(o.layers):
        shard = t.input(f"shard{layer}", o.width // 2, o.width)
        weight = t.collective(f"weight{layer}", "all_gather", shard, o.width, o.width)
        x = t.relu(f"act{layer}", t.gemm(f"mm{layer}", x, weight, o.rows, o.width), o.rows, o.width)
    t.output(x)
    return t


def data_parallel(o):
    t = Text("data_parallel")
    x = t.input("x", o.width, o.width)
    for layer in range(o.layers):
        w = t.input(f"w{layer}", o.width, o.width)
        g = t.gemm(f"grad{layer}", x, w, o.width, o.width)
        t.output(t.collective(f"sum{layer}", "all_reduce sum", g, o.width, o.width))
        x = t.gemm(f"back{layer}", x, w, o.width, o.width)
    t.output(x)
    return t


def tensor_parallel(o):
    t = Text("tensor_parallel")
    halves = [t.input(f"x{h}", o.rows, o.width) for h in range(2)]
    for layer in range(o.layers):
        up = t.input(f"up{layer}", o.width, o.width)
        down = t.input(f"down{layer}", o.width, o.width)
        for h in range(2):
            hidden = t.relu(f"hidden{layer}_{h}", t.gemm(f"up{layer}_{h}", halves[h], up, o.rows, o.width), o.rows, o.width)
            part = t.gemm(f"part{layer}_{h}", hidden, down, o.rows, o.width)
            halves[h] = t.collective(f"sum{layer}_{h}", "all_reduce sum", part, o.rows, o.width)
    for half in halves:
        t.output(half)
    return t


def experts(o):
    t = Text("experts")
    halves = [t.input(f"x{h}", o.rows, o.width) for h in range(2)]
    for layer in range(o.layers):
        w = t.input(f"expert{layer}", o.width, o.width)
        shared = t.input(f"shared{layer}", o.width, o.width)
        for h in range(2):
            sent = t.collective(f"to{layer}_{h}", "all_to_all", halves[h], o.rows, o.width)
            mine = t.gemm(f"expert{layer}_{h}", sent, w, o.rows, o.width)
            back = t.collective(f"from{layer}_{h}", "all_to_all", mine, o.rows, o.width)
            beside = t.gemm(f"shared{layer}_{h}", halves[h], shared, o.rows, o.width)
            halves[h] = t.add(f"out{layer}_{h}", back, beside, o.rows, o.width)
    for half in halves:
        t.output(half)
    return t


GRAPHS = {make.__name__: make for make in (fsdp, data_parallel, tensor_parallel, experts)}


def write_all(folder, layers, rows, width):
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in GRAPHS.items():
        options = argparse.Namespace(layers=layers, rows=rows, width=width)
        (folder / f"{name}.braid").write_text(make(options).text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    options = parser.parse_args()
    write_all(options.folder, options.layers, options.rows, options.width)


if __name__ == "__main__":
    main()
