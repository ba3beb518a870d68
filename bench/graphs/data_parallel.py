"""Data parallelism: the backward pass makes a gradient per layer, each all-reduced as soon as it is there.

ResNet-50: He et al., arXiv 1512.03385, table 1. BERT-large: Devlin et al., arXiv 1810.04805.
"""

from __future__ import annotations

from braid_text import Buffer, Graph


def resnet50_convolutions() -> list[tuple[int, int, int, int]]:
    """(input channels, output channels, kernel, output height and width) in forward order."""
    convs = [(3, 64, 7, 112)]
    channels = 64
    for blocks, width, size in ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7)):
        for b in range(blocks):
            convs += [(channels, width, 1, size), (width, width, 3, size), (width, 4 * width, 1, size)]
            if b == 0:
                convs.append((channels, 4 * width, 1, size))
            channels = 4 * width
    return convs


def resnet50(name: str, ranks: int, images: int) -> Graph:
    g = Graph(name, ranks, {"dp": list(range(ranks))})
    convs = resnet50_convolutions()
    x = g.input("images", (images, 3, 224, 224))
    weights = [g.constant(f"w{k}", (o, i, s, s)) for k, (i, o, s, _) in enumerate(convs)]
    kept = []
    for k, (i, o, s, size) in enumerate(convs):
        out = (images, o, size, size)
        y = g.kernel(f"f{k}.conv", "conv", out, [x, weights[k]], flops=2 * images * size * size * o * i * s * s)
        kept.append(x)
        x = g.kernel(f"f{k}.bn_relu", "batch_norm_relu", out, [y])
    dy = g.kernel("loss", "cross_entropy", x.shape, [x])
    for k in reversed(range(len(convs))):
        i, o, s, size = convs[k]
        flops = 2 * images * size * size * o * i * s * s
        dy = g.kernel(f"b{k}.bn_relu", "batch_norm_backward", dy.shape, [dy])
        grad = g.kernel(f"b{k}.wgrad", "conv_wgrad", (o, i, s, s), [kept[k], dy], flops=flops, comm="dp")
        g.output(g.kernel(f"b{k}.update", "sgd", grad.shape, [g.collective(f"b{k}.grad", "all_reduce avg", "dp", grad)],
                          output=False))
        if k > 0:
            dy = g.kernel(f"b{k}.dgrad", "conv_dgrad", kept[k].shape, [dy, weights[k]], flops=flops)
    return g


def bert_large(name: str, ranks: int, batch: int, sequence: int, layers: int = 24, d: int = 1024) -> Graph:
    g = Graph(name, ranks, {"dp": list(range(ranks))})
    t = batch * sequence
    parts = [("qkv", d, 3 * d), ("o", d, d), ("up", d, 4 * d), ("down", 4 * d, d)]
    weights = {(k, p): g.constant(f"w{k}.{p}", (a, b)) for k in range(layers) for p, a, b in parts}
    x = g.input("x", (t, d))
    kept: dict[tuple[int, str], Buffer] = {}

    def gemm(name: str, x: Buffer, w: Buffer, n: int) -> Buffer:
        return g.kernel(name, "gemm", (t, n), [x, w], flops=2 * t * x.shape[1] * n)

    for k in range(layers):
        for p, _, n in parts:
            kept[k, p] = x
            x = gemm(f"f{k}.{p}", x, weights[k, p], n)
            if p == "qkv":
                x = g.kernel(f"f{k}.attention", "attention", (t, d), [x], flops=4 * t * sequence * d)
            elif p == "up":
                x = g.kernel(f"f{k}.gelu", "gelu", x.shape, [x])
            else:
                x = g.kernel(f"f{k}.{p}.norm", "add_layer_norm", x.shape, [x])
    dy = g.kernel("loss", "cross_entropy", x.shape, [x])
    for k in reversed(range(layers)):
        for p, a, n in reversed(parts):
            if p == "qkv":
                dy = g.kernel(f"b{k}.attention", "attention_backward", (t, n), [dy, kept[k, p]], flops=10 * t * sequence * d)
            elif p == "up":
                dy = g.kernel(f"b{k}.gelu", "gelu_backward", dy.shape, [dy])
            else:
                dy = g.kernel(f"b{k}.{p}.norm", "layer_norm_backward", dy.shape, [dy])
            grad = g.kernel(f"b{k}.{p}.wgrad", "gemm_wgrad", (a, n), [kept[k, p], dy], flops=2 * t * a * n, comm="dp")
            summed = g.collective(f"b{k}.{p}.grad", "all_reduce avg", "dp", grad)
            g.output(g.kernel(f"b{k}.{p}.update", "adamw", grad.shape, [summed]))
            dy = gemm(f"b{k}.{p}.dgrad", dy, weights[k, p], a)
    return g
