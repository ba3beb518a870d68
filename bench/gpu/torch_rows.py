#!/usr/bin/env python3
"""Times in PyTorch what a timed case of a bundle computes: torch_rows.py graph|compile CASE...

graph: eager PyTorch, captured in a CUDA graph. compile: torch.compile(mode="max-autotune"). Prints a line of JSON for each, with
medians between CUDA events or an error. --cpu runs each once on the processor instead, to see that it works: no times. Exit status
3: no PyTorch, or no GPU.
"""

import json
import math
import statistics
import sys

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    print("SKIP PyTorch is not installed")
    sys.exit(3)

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
WIDTH = 1024  # of rows of kernels


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """With the norm before (GPT-2, ViT) or behind (BERT)."""

    def __init__(self, width, heads, causal, gelu, first):
        super().__init__()
        self.first, self.gelu = first, gelu
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def mlp(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.gelu))

    def forward(self, x):
        if self.first:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Gpt2(nn.Module):
    def __init__(self, width=768, heads=12, layers=12, vocab=50257, positions=1024):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*(Block(width, heads, True, "tanh", True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


class Bert(nn.Module):
    def __init__(self, width=768, heads=12, layers=12, vocab=30522, positions=512):
        super().__init__()
        self.tokens, self.positions, self.types = (
            nn.Embedding(vocab, width),
            nn.Embedding(positions, width),
            nn.Embedding(2, width),
        )
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(Block(width, heads, False, "none", False) for _ in range(layers)))

    def forward(self, ids):
        x = (
            self.tokens(ids)
            + self.positions(torch.arange(ids.shape[1], device=ids.device))
            + self.types(torch.zeros_like(ids))
        )
        return self.blocks(self.norm(x))


class Vit(nn.Module):
    def __init__(self, width=768, heads=12, layers=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first, self.positions = (
            nn.Parameter(torch.randn(1, 1, width)),
            nn.Parameter(torch.randn(1, 197, width)),
        )
        self.blocks = nn.Sequential(*(Block(width, heads, False, "none", True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bottleneck(nn.Module):
    """Batch normalisation is folded into the convolutions, as in the ONNX model."""

    def __init__(self, inner_from, inner, out, stride):
        super().__init__()
        self.convs = nn.ModuleList(
            [nn.Conv2d(inner_from, inner, 1), nn.Conv2d(inner, inner, 3, stride, 1), nn.Conv2d(inner, out, 1)]
        )
        self.skip = (
            nn.Conv2d(inner_from, out, 1, stride) if stride > 1 or inner_from != out else nn.Identity()
        )

    def forward(self, x):
        y = F.relu(self.convs[1](F.relu(self.convs[0](x))))
        return F.relu(self.convs[2](y) + self.skip(x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        layers, width = [nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                inner = 64 << stage
                layers.append(Bottleneck(width, inner, 4 * inner, 2 if block == 0 and stage > 0 else 1))
                width = 4 * inner
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(2048, 1000)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


class Kernel(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.function = {
            "add": torch.add,
            "gelu": F.gelu,
            "transpose": lambda x: x.t().contiguous(),
            "row_sum": lambda x: x.sum(1),
            "column_sum": lambda x: x.sum(0),
            "softmax": lambda x: torch.softmax(x, 1),
            "layer_norm": lambda x: F.layer_norm(x, (WIDTH,), eps=1e-3),
            "product": torch.matmul,
            "batched_product": torch.matmul,
        }[name]

    def forward(self, *tensors):
        return self.function(*tensors)


def subject(case, device, small=False):
    """The module and its inputs. `small` replaces the sizes, to try it."""
    program, _, text = case.partition("@")
    sizes = {k: int(v) for k, v in (part.split("=") for part in text.split(","))}
    if small:
        sizes = {k: min(v, 4) for k, v in sizes.items()}
    dtype = DTYPES[program.rsplit("_", 1)[1]]

    def numbers(*shape):
        return torch.randn(shape, device=device, dtype=dtype)

    if program.startswith("kernel_"):
        name = program[len("kernel_") :].rsplit("_", 1)[0]
        if name == "product":
            inputs = numbers(sizes["rows"], sizes["inner"]), numbers(sizes["inner"], sizes["columns"])
        elif name == "batched_product":
            inputs = numbers(sizes["batch"], sizes["rows"], 64), numbers(sizes["batch"], 64, sizes["rows"])
        else:
            inputs = tuple(numbers(sizes["rows"], WIDTH) for _ in range(2 if name == "add" else 1))
        return Kernel(name), inputs
    name = program.rsplit("_", 1)[0]
    module = {"gpt2": Gpt2, "bert": Bert, "vit": Vit, "resnet50": ResNet50}[name]().to(device, dtype).eval()
    if name in ("gpt2", "bert"):
        return module, (torch.randint(0, 30000, (sizes["batch"], sizes["sequence"]), device=device),)
    return module, (numbers(sizes["batch"], 3, 224, 224),)


def medians(run, repeat=200):
    for _ in range(20):
        run()
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeat)
    ]
    for begin, end in events:
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    us = sorted(1e3 * begin.elapsed_time(end) for begin, end in events)
    return {
        "median_us": statistics.median(us),
        "p10_us": us[repeat // 10],
        "p90_us": us[repeat * 9 // 10],
        "count": repeat,
    }


def graphed(module, inputs):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module(*inputs)
    return graph.replay


def tried(case):
    module, inputs = subject(case, "cpu", small=True)
    with torch.no_grad():
        result = module(*inputs)
    return {"shape": list(result.shape), "finite": bool(math.isfinite(result.float().sum()))}


def timed(mode, case):
    with torch.no_grad():
        module, inputs = subject(case, "cuda")
        if mode == "graph":
            times = medians(graphed(module, inputs))
        else:
            compiled = torch.compile(module, mode="max-autotune")
            times = medians(lambda: compiled(*inputs))
    return {"mode": mode, "torch": torch.__version__, **times}


def main():
    mode, *cases = [w for w in sys.argv[1:] if w != "--cpu"]
    on_cpu = "--cpu" in sys.argv
    if not on_cpu and not torch.cuda.is_available():
        print("SKIP PyTorch finds no GPU")
        return 3
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # nor does Braid
    for case in cases:
        try:
            found = tried(case) if on_cpu else timed(mode, case)
        except Exception as error:  # the other cases do not suffer
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": case, **found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
