"""Small models that are split over the ranks of a device mesh, and the same models whole.

Each function returns a SplitModel. Weights come from the seed that is set before.
"""

import copy
from dataclasses import dataclass, field

import torch
import torch.distributed._functional_collectives as collectives
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

HIDDEN, HEADS, HEAD, INTERMEDIATE, VOCABULARY, POSITIONS = 32, 4, 8, 48, 14, 16
TOKENS = {"input_ids": (("batch", "sequence"), "token")}


@dataclass
class SplitModel:
    """What is exported. An input is (shape in names and numbers, kind), as in tests/models."""

    module: nn.Module  # this rank's part
    whole: object  # the same model on one rank, or a function of all ranks' inputs that returns all ranks' outputs
    inputs: dict = field(default_factory=dict)
    outputs: tuple = ("logits",)
    bounds: dict = field(default_factory=dict)  # of sizes that are known at run time only
    sizes: tuple = ({},)  # of the data sets; the first one is the exporter's example
    own_inputs: bool = False  # whether every rank has inputs of its own


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(HIDDEN))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    """Causal, with rotary positions. A rank that has fewer heads finds out from the width of the projections."""

    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))
        angles = torch.outer(torch.arange(POSITIONS), 100.0 ** (-torch.arange(0, HEAD, 2) / HEAD)).repeat(
            1, 2
        )
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def rotate(self, x):
        left, right = x.chunk(2, dim=-1)
        n = x.shape[2]
        return x * self.cos[:n] + torch.cat([-right, left], dim=-1) * self.sin[:n]

    def forward(self, x):
        batch, n, _ = x.shape
        q, k, v = (w(x).view(batch, n, -1, HEAD).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        scores = self.rotate(q) @ self.rotate(k).transpose(2, 3) / HEAD**0.5
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -1e9).softmax(-1)
        return self.wo((weights @ v).transpose(1, 2).reshape(batch, n, -1))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(HIDDEN, INTERMEDIATE, bias=False) for _ in range(2))
        self.w2 = nn.Linear(INTERMEDIATE, HIDDEN, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Llama(nn.Module):
    """Embedding, one layer, head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.attention_norm, self.attention = RMSNorm(), Attention()
        self.ffn_norm, self.feed_forward = RMSNorm(), FeedForward()
        self.norm, self.head = RMSNorm(), nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        x = x + self.attention(self.attention_norm(x))
        x = x + self.feed_forward(self.ffn_norm(x))
        return self.head(self.norm(x))


def split_llama(whole, mesh):
    """Columns and rows of the weights, the embedding by rows of the vocabulary, all-reduces between."""
    return parallelize_module(
        copy.deepcopy(whole),
        mesh,
        {
            "embedding": RowwiseParallel(input_layouts=Replicate()),
            **{f"attention.{w}": ColwiseParallel() for w in ("wq", "wk", "wv")},
            "attention.wo": RowwiseParallel(),
            **{f"feed_forward.{w}": ColwiseParallel() for w in ("w1", "w3")},
            "feed_forward.w2": RowwiseParallel(),
            "head": ColwiseParallel(output_layouts=Replicate()),
        },
    )


def llama_tensor_parallel(mesh):
    """DTensor, all ranks along one axis."""
    whole = Llama().eval()
    sizes = ({"batch": 2, "sequence": 6}, {"batch": 3, "sequence": 7}, {"batch": 1, "sequence": 2})
    bounds = {"batch": (1, 4), "sequence": (1, 8)}
    return SplitModel(split_llama(whole, mesh), whole, TOKENS, bounds=bounds, sizes=sizes)


class OnMesh(nn.Module):
    """A model that is split along one axis of a mesh, with a batch for each point of the other; all ranks get all results."""

    def __init__(self, split, mesh):
        super().__init__()
        self.split, self.along, self.across = split, mesh.get_group("tp"), mesh.get_group("dp")

    def forward(self, input_ids):
        input_ids = collectives.broadcast(input_ids, 0, self.along)  # whatever the others were given
        return collectives.all_gather_tensor(self.split(input_ids), 0, self.across)


def llama_mesh(mesh):
    """DTensor along axis tp; a batch of its own for each point of axis dp."""
    whole = Llama().eval()
    ways = mesh.size(1)

    def results(inputs):
        everything = torch.cat([whole(each[0]) for each in inputs[::ways]])
        return [[everything]] * len(inputs)

    return SplitModel(
        OnMesh(split_llama(whole, mesh["tp"]), mesh),
        results,
        TOKENS,
        bounds={"batch": (1, 4), "sequence": (1, 8)},
        sizes=({"batch": 2, "sequence": 6}, {"batch": 3, "sequence": 7}, {"batch": 1, "sequence": 2}),
        own_inputs=True,
    )


def llama_sequence_parallel(mesh):
    """DTensor: between the blocks every rank has its part of the sequence; all-gathers and reduce-scatters."""
    whole = Llama().eval()
    prepare = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    split = parallelize_module(
        copy.deepcopy(whole),
        mesh,
        {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            **{norm: SequenceParallel() for norm in ("attention_norm", "ffn_norm", "norm")},
            "attention": prepare,
            **{f"attention.{w}": ColwiseParallel(use_local_output=True) for w in ("wq", "wk", "wv")},
            "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
            "feed_forward": prepare,
            **{f"feed_forward.{w}": ColwiseParallel() for w in ("w1", "w3")},
            "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    return SplitModel(
        split,
        whole,
        {"input_ids": (("batch", 8), "token")},
        bounds={"batch": (1, 4)},
        sizes=({"batch": 2}, {"batch": 3}, {"batch": 1}),
    )


class HandSplitBlock(nn.Module):
    """A GPT-2 block, split by hand as in Megatron-LM: heads and columns of the MLP, each with an all-reduce."""

    def __init__(self, whole, rank, ranks, group):
        super().__init__()
        self.rank, self.ranks, self.group = rank, ranks, group

        def part(tensor, axis):
            return nn.Parameter(tensor.detach().chunk(ranks, axis)[rank].clone())

        self.norm_1, self.norm_2 = copy.deepcopy(whole.norm_1), copy.deepcopy(whole.norm_2)
        self.qkv = nn.ParameterList([part(w, 0) for w in whole.qkv.weight.chunk(3)])
        self.qkv_bias = nn.ParameterList([part(b, 0) for b in whole.qkv.bias.chunk(3)])
        self.out, self.out_bias = part(whole.out.weight, 1), nn.Parameter(whole.out.bias.detach().clone())
        self.up, self.up_bias = part(whole.up.weight, 0), part(whole.up.bias, 0)
        self.down, self.down_bias = part(whole.down.weight, 1), nn.Parameter(whole.down.bias.detach().clone())
        self.head = part(whole.head.weight, 0)

    def forward(self, x):
        x = collectives.broadcast(x, 0, self.group)  # whatever the others were given
        y = attend(*(F.linear(self.norm_1(x), w, b) for w, b in zip(self.qkv, self.qkv_bias)))
        x = x + collectives.all_reduce(F.linear(y, self.out), "sum", self.group) + self.out_bias
        y = F.gelu(F.linear(self.norm_2(x), self.up, self.up_bias), approximate="tanh")
        x = x + collectives.all_reduce(F.linear(y, self.down), "sum", self.group) + self.down_bias
        return collectives.all_gather_tensor(F.linear(x, self.head), 2, self.group)


class WholeBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 2 * HIDDEN), nn.Linear(2 * HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, x):
        x = x + self.out(attend(*self.qkv(self.norm_1(x)).chunk(3, dim=-1)))
        x = x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))
        return self.head(x)


def attend(q, k, v):
    batch, n, _ = q.shape
    q, k, v = (t.view(batch, n, -1, HEAD).transpose(1, 2) for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(batch, n, -1)


def gpt2_block_functional(mesh):
    """No DTensor: functional collectives in the module itself. Rank 1 is given other inputs, which rank 0's replace."""
    whole = WholeBlock().eval()
    group = mesh.get_group()
    split = HandSplitBlock(whole, mesh.get_local_rank(), mesh.size(), group).eval()
    return SplitModel(
        split,
        lambda inputs: [[whole(inputs[0][0])]] * len(inputs),
        {"x": (("batch", "sequence", HIDDEN), "float")},
        bounds={"batch": (1, 4), "sequence": (1, 8)},
        sizes=({"batch": 2, "sequence": 5}, {"batch": 3, "sequence": 8}, {"batch": 1, "sequence": 3}),
        own_inputs=True,
    )
