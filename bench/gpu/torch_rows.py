#!/usr/bin/env python3
"""Times in PyTorch what a timed case of a bundle computes: torch_rows.py graph|compile CASE...

graph: eager PyTorch, captured in CUDA graphs. compile: torch.compile with the choices of mode="max-autotune", captured here as well:
the graphs that this mode makes itself would copy their inputs in every step. Each module has the inputs and outputs of the model that
Braid compiles (examples/tensor_parallel/transformer.py, tests/models/networks.py), caches included. Prints a line of JSON for each, with
medians between CUDA events or an error. Inputs and outputs take turns as rotation.py says, with a graph for each copy.

--cpu runs each once on the processor instead, with small sizes, and prints the outputs' shapes: no times. Exit status 3: no PyTorch, or
no GPU.
"""

import itertools
import json
import math
import statistics
import sys

import rotation

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
    """Returns keys and values, too. `mask` is added to the scores."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.causal:  # a decoder's caches, [batch, heads, length, width / heads] in memory
            k, v = k.contiguous(), v.contiguous()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width)), k, v


class Block(nn.Module):
    """With the norm before (GPT-2, ViT) or behind (BERT). Returns keys and values, too."""

    def __init__(self, width, heads, causal, gelu, first, epsilon):
        super().__init__()
        self.first, self.gelu = first, gelu
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.attention = Attention(width, heads, causal)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def mlp(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.gelu))

    def forward(self, x, mask=None):
        attended, k, v = self.attention(self.norm1(x) if self.first else x, mask)
        x = x + attended
        if self.first:
            return x + self.mlp(self.norm2(x)), k, v
        x = self.norm1(x)
        return self.norm2(x + self.mlp(x)), k, v


class Gpt2(nn.Module):
    """Logits, then the key and the value of each layer."""

    def __init__(self, width=768, heads=12, layers=12, vocab=50257, positions=1024):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads, True, "tanh", True, 1e-5) for _ in range(layers))
        self.norm = nn.LayerNorm(width, 1e-5)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        caches = []
        for block in self.blocks:
            x, key, value = block(x)
            caches += [key, value]
        return self.norm(x) @ self.tokens.weight.T, *caches


class Bert(nn.Module):
    """The last hidden state and the pooled first position, under a mask that is an input."""

    def __init__(self, width=768, heads=12, layers=12, vocab=30522, positions=512):
        super().__init__()
        self.tokens, self.positions, self.types = (
            nn.Embedding(vocab, width),
            nn.Embedding(positions, width),
            nn.Embedding(2, width),
        )
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(Block(width, heads, False, "none", False, 1e-12) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids, attention_mask, token_types):
        x = (
            self.tokens(ids)
            + self.types(token_types)
            + self.positions(torch.arange(ids.shape[1], device=ids.device))
        )
        x = self.norm(x)
        # 0 where a key counts, the lowest finite number where it does not, for all heads and queries.
        mask = (1 - attention_mask[:, None, None].to(x.dtype)) * torch.finfo(x.dtype).min
        mask = mask.expand(-1, -1, ids.shape[1], -1)
        for block in self.blocks:
            x, _, _ = block(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Vit(nn.Module):
    def __init__(self, width=768, heads=12, layers=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first, self.positions = (
            nn.Parameter(torch.randn(1, 1, width)),
            nn.Parameter(torch.randn(1, 197, width)),
        )
        self.blocks = nn.ModuleList(Block(width, heads, False, "none", True, 1e-6) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x, _, _ = block(x)
        return (self.head(self.norm(x)[:, 0]),)


class Bottleneck(nn.Module):
    """Batch normalisation is folded into the convolutions, as in the ONNX model."""

    def __init__(self, inner_from, inner, out, stride, shortcut):
        super().__init__()
        self.convs = nn.ModuleList(
            [nn.Conv2d(inner_from, inner, 1), nn.Conv2d(inner, inner, 3, stride, 1), nn.Conv2d(inner, out, 1)]
        )
        self.skip = nn.Conv2d(inner_from, out, 1, stride) if shortcut else nn.Identity()

    def forward(self, x):
        y = F.relu(self.convs[1](F.relu(self.convs[0](x))))
        return F.relu(self.convs[2](y) + self.skip(x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        layers, width = [nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                inner, stride = 64 << stage, 2 if block == 0 and stage > 0 else 1
                layers.append(Bottleneck(width, inner, 4 * inner, stride, block == 0))
                width = 4 * inner
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(2048, 1000)

    def forward(self, x):
        return (self.head(self.layers(x).mean((2, 3))),)


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
        return (self.function(*tensors),)


MODELS = {"gpt2": Gpt2, "bert": Bert, "vit": Vit, "resnet50": ResNet50}


def kernel_inputs(name, sizes, numbers):
    if name == "product":
        return numbers(sizes["rows"], sizes["inner"]), numbers(sizes["inner"], sizes["columns"])
    if name == "batched_product":
        return numbers(sizes["batch"], sizes["rows"], 64), numbers(sizes["batch"], 64, sizes["rows"])
    return tuple(numbers(sizes["rows"], WIDTH) for _ in range(2 if name == "add" else 1))


def subject(case, device, small=False):
    """The module and its inputs. `small` replaces the sizes, to try it."""
    program, _, text = case.partition("@")
    sizes = {k: int(v) for k, v in (part.split("=") for part in text.split(","))}
    if small:
        sizes = {k: min(v, 4) for k, v in sizes.items()}
    name, _, type_name = program.rpartition("_")
    dtype = DTYPES[type_name]

    def numbers(*shape):
        return torch.randn(shape, device=device, dtype=dtype)

    def integers(below):
        return torch.randint(0, below, (sizes["batch"], sizes["sequence"]), device=device)

    if name.startswith("kernel_"):
        name = name[len("kernel_") :]
        return Kernel(name), kernel_inputs(name, sizes, numbers)
    module = MODELS[name]().to(device, dtype).eval()
    if name == "gpt2":
        return module, (integers(50257),)
    if name == "bert":
        return module, (integers(30522), integers(2), integers(2))
    # cuDNN's fast convolutions have the channels last.
    image = numbers(sizes["batch"], 3, 224, 224).to(memory_format=torch.channels_last)
    return module.to(memory_format=torch.channels_last), (image,)


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


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


def warmed_up(module, inputs):
    """Runs it as often as libraries take to choose their kernels; returns the outputs."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            outputs = module(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    return outputs


def graphed(module, copies):
    """A graph for each copy of the inputs. They share the memory of what is neither input nor output."""
    graphs, outputs, pool = [], [], None
    for inputs in copies:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            outputs.append(module(*inputs))  # kept, so that no other graph takes their memory
        pool = pool or graph.pool()
        graphs.append(graph)
    return graphs, outputs


def tried(case):
    module, inputs = subject(case, "cpu", small=True)
    with torch.no_grad():
        results = module(*inputs)
    finite = all(math.isfinite(result.float().sum()) for result in results)
    return {"shapes": [list(result.shape) for result in results], "finite": finite}


def timed(mode, case):
    with torch.no_grad():
        module, inputs = subject(case, "cuda")
        fixed = bytes_of([*module.parameters(), *module.buffers()])
        if mode == "compile":
            module = torch.compile(module, mode="max-autotune-no-cudagraphs")
        rotated = bytes_of([*inputs, *warmed_up(module, inputs)])
        l2, free = torch.cuda.get_device_properties(0).L2_cache_size, torch.cuda.mem_get_info()[0]
        count = rotation.copies(fixed, rotated, l2, free)
        copies = [inputs, *(tuple(t.clone() for t in inputs) for _ in range(count - 1))]
        graphs, outputs = graphed(module, copies)
        turn = itertools.cycle(graphs)
        times = medians(lambda: next(turn).replay())
        del outputs
    return {"mode": mode, "torch": torch.__version__, "copies": count, "rotated_bytes": rotated, **times}


def main():
    mode, *cases = [w for w in sys.argv[1:] if w != "--cpu"]
    on_cpu = "--cpu" in sys.argv
    if not on_cpu and not torch.cuda.is_available():
        print("SKIP PyTorch finds no GPU")
        return 3
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # nor does Braid
    torch.backends.cudnn.benchmark = True  # cuDNN times its convolutions and takes the fastest
    for case in cases:
        try:
            found = tried(case) if on_cpu else timed(mode, case)
        except Exception as error:  # the other cases do not suffer
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": case, **found}), flush=True)
        if not on_cpu:
            torch.compiler.reset()
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
