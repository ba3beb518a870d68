"""Mixture of experts with expert parallelism: dispatch and combine are all-to-alls.

Shapes: DeepSeek-V3-16B-like (27 layers, hidden 2048, 64 routed experts of 1408, top 6, 2 shared), as in the public
configuration of the same name. Routing is taken as balanced: shapes are static.
"""

from __future__ import annotations

from dataclasses import dataclass

from braid_text import Buffer, Graph


@dataclass(frozen=True)
class Moe:
    layers: int = 27
    d: int = 2048
    heads: int = 16
    head_dim: int = 128
    expert_ffn: int = 1408
    top_k: int = 6
    shared: int = 2


class Layer:
    def __init__(self, g: Graph, m: Moe, tokens: int, sequence: int):
        self.g, self.m, self.t, self.s = g, m, tokens, sequence
        self.q = m.heads * m.head_dim

    def gemm(self, name: str, x: Buffer, w: Buffer, n: int, comm: str | None = None, backward: bool = False) -> Buffer:
        rows, k = x.shape
        work = 2 if backward else 1  # the gradients of data and of weights in one kernel
        return self.g.kernel(name, "gemm", (rows, n), [x, w], flops=2 * work * rows * k * n,
                             moved=work * (x.bytes + 2 * k * n + 2 * rows * n), comm=comm)

    def experts(self, name: str, x: Buffer, w: Buffer, backward: bool = False) -> Buffer:
        hidden = self.gemm(f"{name}.up", x, w, 2 * self.m.expert_ffn, backward=backward)
        act = self.g.kernel(f"{name}.act", "swiglu", (x.shape[0], self.m.expert_ffn), [hidden])
        return self.gemm(f"{name}.down", act, w, self.m.d, comm="ep", backward=backward)

    def half(self, l: str, x: Buffer, w: Buffer, we: Buffer, backward: bool) -> Buffer:
        """A layer for one chunk of the tokens; backward has the same communication in the other direction."""
        g, m = self.g, self.m
        rows = x.shape[0]
        factor = 2.5 if backward else 1
        n1 = g.kernel(f"{l}.norm1", "rms_norm", x.shape, [x])
        qkv = self.gemm(f"{l}.qkv", n1, w, 3 * self.q, backward=backward)
        att = g.kernel(f"{l}.attention", "attention", (rows, self.q), [qkv], flops=factor * 2 * rows * self.s * self.q)
        h = self.gemm(f"{l}.o", att, w, m.d, backward=backward)
        n2 = g.kernel(f"{l}.norm2", "rms_norm", h.shape, [h, x])
        route = g.kernel(f"{l}.route", "topk_route", (rows, m.top_k), [n2])
        sent = g.kernel(f"{l}.permute", "permute_gather", (rows * m.top_k, m.d), [n2, route], comm="ep")
        got = g.collective(f"{l}.dispatch", "all_to_all", "ep", sent)
        done = self.experts(f"{l}.experts", got, we, backward)
        back = g.collective(f"{l}.combine", "all_to_all", "ep", done)
        shared = self.gemm(f"{l}.shared_up", n2, w, m.shared * 2 * m.expert_ffn, backward=backward)
        shared = g.kernel(f"{l}.shared_act", "swiglu", (rows, m.shared * m.expert_ffn), [shared])
        shared = self.gemm(f"{l}.shared_down", shared, w, m.d, backward=backward)
        return g.kernel(f"{l}.sum", "unpermute_add", (rows, m.d), [back, shared, h, route])


def train(name: str, m: Moe, ranks: int, batch: int, sequence: int, chunks: int) -> Graph:
    """Forward and backward of all layers with the tokens in `chunks` independent parts (each its own sequences)."""
    g = Graph(name, ranks, {"ep": list(range(ranks))})
    rows = batch * sequence // chunks
    layer = Layer(g, m, rows, sequence)
    attention = 4 * m.d * layer.q + 3 * m.shared * m.d * m.expert_ffn
    w = [g.constant(f"w{k}", (attention,)) for k in range(m.layers)]
    experts = [g.constant(f"experts{k}", (64 // ranks * 3 * m.d * m.expert_ffn if ranks <= 64 else 3 * m.d * m.expert_ffn,))
               for k in range(m.layers)]
    xs = [g.input(f"x{c}", (rows, m.d)) for c in range(chunks)]
    for phase, layers in (("f", range(m.layers)), ("b", reversed(range(m.layers)))):
        for k in layers:
            for c in range(chunks):
                xs[c] = layer.half(f"{phase}{k}.c{c}", xs[c], w[k], experts[k], phase == "b")
    for x in xs:
        g.output(x)
    return g
