"""Llama-3 blocks: forward and backward with FSDP, tensor parallelism, sequence parallelism, and inference.

Shapes: "The Llama 3 Herd of Models" (arXiv 2407.21783), table 3, and the published configurations.
"""

from __future__ import annotations

from dataclasses import dataclass

from braid_text import Buffer, Graph


@dataclass(frozen=True)
class Llama:
    layers: int
    d: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int = 128256
    head_dim: int = 128


LLAMA_8B = Llama(32, 4096, 14336, 32, 8)
LLAMA_70B = Llama(80, 8192, 28672, 64, 8)
LLAMA_405B = Llama(126, 16384, 53248, 128, 8)


@dataclass(frozen=True)
class Parallel:
    """`dp` ranks shard the weights (FSDP), `tp` ranks of a node split every layer."""

    dp: int = 1
    tp: int = 1
    sequence: bool = False  # activations between the tensor-parallel parts are split along the tokens
    microbatches: int = 1

    def groups(self) -> dict[str, list[int]]:
        groups = {}
        if self.dp > 1:
            groups["dp"] = [r * self.tp for r in range(self.dp)]
        if self.tp > 1:
            groups["tp"] = list(range(self.tp))
        return groups


class Block:
    """The parts that forward and backward of one layer are made of."""

    def __init__(self, g: Graph, model: Llama, parallel: Parallel, tokens: int, sequence: int):
        self.g, self.m, self.p, self.t, self.s = g, model, parallel, tokens, sequence
        self.q = model.heads * model.head_dim // parallel.tp
        self.kv = max(1, model.kv_heads // parallel.tp) * model.head_dim
        self.f = model.ffn // parallel.tp
        self.rows = tokens // parallel.tp if parallel.sequence else tokens  # between tensor-parallel parts
        self.weights = [(model.d, self.q + 2 * self.kv), (self.q, model.d), (model.d, 2 * self.f), (self.f, model.d)]
        self.flat = sum(a * b for a, b in self.weights) + 2 * model.d

    # -- communication -----------------------------------------------------------------------------------------

    def gather_weights(self, name: str, shard: Buffer) -> Buffer:
        return self.g.collective(name, "all_gather", "dp", shard) if self.p.dp > 1 else shard

    def enter(self, name: str, x: Buffer) -> Buffer:
        """Into a tensor-parallel part: all tokens."""
        return self.g.collective(name, "all_gather", "tp", x) if self.p.sequence else x

    def leave(self, name: str, partial: Buffer) -> Buffer:
        """Out of it: the sum over the ranks."""
        if self.p.tp == 1:
            return partial
        kind = "reduce_scatter sum" if self.p.sequence else "all_reduce sum"
        return self.g.collective(name, kind, "tp", partial)

    # -- kernels -----------------------------------------------------------------------------------------------

    def gemm(self, name: str, x: Buffer, w: Buffer, n: int, *, partial: bool = False) -> Buffer:
        rows, k = x.shape
        moved = x.bytes + 2 * k * n + 2 * rows * n
        return self.g.kernel(name, "gemm", (rows, n), [x, w], flops=2 * rows * k * n, moved=moved,
                             comm="tp" if partial and self.p.tp > 1 else None)

    def wgrad(self, name: str, x: Buffer, dy: Buffer, n: int) -> Buffer:
        k, cols = x.shape[1], dy.shape[1]
        return self.g.kernel(name, "gemm_wgrad", (k, cols), [x, dy], flops=2 * x.shape[0] * k * cols)

    def elementwise(self, name: str, what: str, shape: tuple[int, ...], reads: list[Buffer]) -> Buffer:
        return self.g.kernel(name, what, shape, reads)

    def attention_flops(self) -> float:
        return 4 * self.t * self.s * self.q / 2  # causal

    # -- a layer -----------------------------------------------------------------------------------------------

    def forward(self, l: str, x: Buffer, w: Buffer) -> tuple[Buffer, dict[str, Buffer]]:
        m, rows, t = self.m, self.rows, self.t
        n1 = self.enter(f"{l}.n1_all", self.elementwise(f"{l}.norm1", "rms_norm", (rows, m.d), [x]))
        qkv = self.gemm(f"{l}.qkv", n1, w, self.q + 2 * self.kv)
        rope = self.elementwise(f"{l}.rope", "rope", qkv.shape, [qkv])
        att = self.g.kernel(f"{l}.attention", "attention", (t, self.q), [rope], flops=self.attention_flops())
        o = self.leave(f"{l}.o_sum", self.gemm(f"{l}.o", att, w, m.d, partial=True))
        h = self.elementwise(f"{l}.add1", "residual_add", (rows, m.d), [x, o])
        n2 = self.enter(f"{l}.n2_all", self.elementwise(f"{l}.norm2", "rms_norm", (rows, m.d), [h]))
        gu = self.gemm(f"{l}.gate_up", n2, w, 2 * self.f)
        act = self.elementwise(f"{l}.swiglu", "swiglu", (t, self.f), [gu])
        down = self.leave(f"{l}.down_sum", self.gemm(f"{l}.down", act, w, m.d, partial=True))
        y = self.elementwise(f"{l}.add2", "residual_add", (rows, m.d), [h, down])
        return y, {"x": x, "n1": n1, "rope": rope, "att": att, "h": h, "n2": n2, "gu": gu, "act": act}

    def backward(self, l: str, dy: Buffer, w: Buffer, saved: dict[str, Buffer]) -> tuple[Buffer, list[Buffer]]:
        m, rows, t = self.m, self.rows, self.t
        dy_all = self.enter(f"{l}.dy_all", dy)
        dact = self.gemm(f"{l}.down_dgrad", dy_all, w, self.f)
        gdown = self.wgrad(f"{l}.down_wgrad", saved["act"], dy_all, m.d)
        dgu = self.elementwise(f"{l}.swiglu_bwd", "swiglu_backward", (t, 2 * self.f), [dact, saved["gu"]])
        dn2 = self.leave(f"{l}.dn2_sum", self.gemm(f"{l}.gate_up_dgrad", dgu, w, m.d, partial=True))
        ggu = self.wgrad(f"{l}.gate_up_wgrad", saved["n2"], dgu, 2 * self.f)
        dh = self.elementwise(f"{l}.norm2_bwd", "rms_norm_backward", (rows, m.d), [dn2, saved["h"], dy])
        dh_all = self.enter(f"{l}.dh_all", dh)
        datt = self.gemm(f"{l}.o_dgrad", dh_all, w, self.q)
        go = self.wgrad(f"{l}.o_wgrad", saved["att"], dh_all, m.d)
        drope = self.g.kernel(f"{l}.attention_bwd", "attention_backward", (t, self.q + 2 * self.kv),
                              [datt, saved["rope"], saved["att"]], flops=2.5 * self.attention_flops())
        dqkv = self.elementwise(f"{l}.rope_bwd", "rope_backward", drope.shape, [drope])
        dn1 = self.leave(f"{l}.dn1_sum", self.gemm(f"{l}.qkv_dgrad", dqkv, w, m.d, partial=True))
        gqkv = self.wgrad(f"{l}.qkv_wgrad", saved["n1"], dqkv, self.q + 2 * self.kv)
        dx = self.elementwise(f"{l}.norm1_bwd", "rms_norm_backward", (rows, m.d), [dn1, saved["x"], dh])
        return dx, [gqkv, go, ggu, gdown]


def train(name: str, model: Llama, parallel: Parallel, batch: int, sequence: int) -> Graph:
    """One training step without the optimizer: gradients (shards of them, with FSDP) are the results."""
    g = Graph(name, parallel.dp * parallel.tp, parallel.groups())
    tokens = batch * sequence
    block = Block(g, model, parallel, tokens, sequence)
    flat = -(-block.flat // parallel.dp) * parallel.dp
    vocab = -(-model.vocab // (parallel.tp * parallel.dp)) * parallel.dp  # columns of this rank
    ends = vocab * model.d
    shards = [g.constant(f"w{k}", (flat // parallel.dp,)) for k in range(model.layers)]
    embedding = g.constant("w_embedding", (ends // parallel.dp,))
    head = g.constant("w_head", (ends // parallel.dp,))
    totals: dict[str, Buffer] = {}
    last = parallel.microbatches - 1

    def reduce(mb: int, what: str, parts: list[Buffer]) -> None:
        """Gradients leave: copied into one buffer, reduced over `dp`, added to those of earlier micro-batches."""
        size = -(-sum(p.elements for p in parts) // parallel.dp) * parallel.dp
        flat_grad = g.kernel(f"m{mb}.{what}.copy_in", "copy_in", (size,), parts, comm="dp" if parallel.dp > 1 else None,
                             output=parallel.dp == 1 and last == 0)
        if parallel.dp == 1 and last == 0:
            return
        out = flat_grad
        if parallel.dp > 1:
            out = g.collective(f"m{mb}.{what}.grad", "reduce_scatter sum", "dp", flat_grad, output=last == 0)
        if last == 0:
            return
        if what in totals:
            out = g.kernel(f"m{mb}.{what}.total", "accumulate", out.shape, [totals[what], out], output=mb == last)
        totals[what] = out

    for mb in range(parallel.microbatches):
        ids = g.input(f"ids{mb}", (tokens,), "i64")
        w = block.gather_weights(f"m{mb}.embedding.w", embedding)
        x = g.kernel(f"m{mb}.embedding", "embedding_gather", (block.rows, model.d), [ids, w],
                     moved=4 * block.rows * model.d)
        saved = []
        for k in range(model.layers):
            w = block.gather_weights(f"m{mb}.f{k}.w", shards[k])
            x, keep = block.forward(f"m{mb}.f{k}", x, w)
            saved.append(keep)
        w = block.gather_weights(f"m{mb}.head.w", head)
        x_all = block.enter(f"m{mb}.head.x_all", block.elementwise(f"m{mb}.head.norm", "rms_norm", x.shape, [x]))
        logits = block.gemm(f"m{mb}.head.logits", x_all, w, vocab)
        dlogits = block.elementwise(f"m{mb}.loss", "cross_entropy", logits.shape, [logits])
        dx = block.leave(f"m{mb}.head.dx_sum", block.gemm(f"m{mb}.head.dgrad", dlogits, w, model.d, partial=True))
        reduce(mb, "head", [block.wgrad(f"m{mb}.head.wgrad", x_all, dlogits, vocab)])
        dx = block.elementwise(f"m{mb}.head.norm_bwd", "rms_norm_backward", (block.rows, model.d), [dx, x])
        for k in reversed(range(model.layers)):
            w = block.gather_weights(f"m{mb}.b{k}.w", shards[k])
            dx, grads = block.backward(f"m{mb}.b{k}", dx, w, saved[k])
            reduce(mb, f"b{k}", grads)
        grad = g.kernel(f"m{mb}.embedding.bwd", "embedding_scatter", (ends,), [dx, ids], moved=2 * ends + dx.bytes)
        reduce(mb, "embedding", [grad])
    return g


def infer(name: str, model: Llama, tp: int, tokens: int, context: int, batches: int = 1) -> Graph:
    """Prefill (tokens == context) or decode (few tokens, long context) of `batches` independent batches."""
    parallel = Parallel(tp=tp)
    g = Graph(name, tp, parallel.groups())
    block = Block(g, model, parallel, tokens, context)
    weights = [g.constant(f"w{k}", (block.flat,)) for k in range(model.layers)]
    xs = [g.input(f"x{b}", (tokens, model.d)) for b in range(batches)]
    for k in range(model.layers):
        for b in range(batches):
            xs[b], _ = block.forward(f"s{b}.l{k}", xs[b], weights[k])
    for b in range(batches):
        g.output(xs[b])
    return g
