"""What a transformer is made of: its sizes and forms, its parameters, and the part of them that a rank holds."""

import dataclasses
import zlib

import numpy as np

# What sizes an option leaves open: GPT-2 small, a Llama of the same size, BERT base.
STYLE_DEFAULTS = {
    "gpt2": dict(layers=12, hidden=768, heads=12, kv_heads=12, vocab=50257, max_positions=1024, intermediate=3072,
                 gelu="tanh", tied=True, norm_epsilon=1e-5),
    "llama": dict(layers=12, hidden=768, heads=12, kv_heads=4, vocab=32000, max_positions=2048, intermediate=2048,
                  gelu="none", tied=False, norm_epsilon=1e-6),
    "bert": dict(layers=12, hidden=768, heads=12, kv_heads=12, vocab=30522, max_positions=512, intermediate=3072,
                 gelu="erf", tied=False, norm_epsilon=1e-12),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Config:
    """A model: its sizes, and which of the equivalent forms its graph takes."""

    style: str  # gpt2, llama, bert
    graph: str  # prefill: no past; decode: one new token after past keys and values
    layers: int
    hidden: int
    heads: int
    kv_heads: int  # llama: heads / kv_heads query heads share a key head; else equal to heads
    vocab: int
    max_positions: int
    intermediate: int  # width of the MLP
    gelu: str  # tanh, erf
    tied: bool  # the head's matrix is the transposed token embedding
    norm_epsilon: float
    linear: str = "matmul"  # matmul: MatMul + Add; gemm: Gemm between two Reshapes
    mask: str = "range"  # causal mask from compared positions, from Trilu, or a Slice of a constant
    rotary: str = "computed"  # llama: sines computed in the graph, or gathered from tables
    position_ids: bool = False  # positions are an input instead of derived from the length of the past
    logits: str = "all"  # for all positions, or for the last one only
    opset: int = 17
    seed: int = 0
    fixed_dims: tuple = ()  # pairs (name, size) of dimensions that are written as numbers

    def __post_init__(self):
        def require(condition, message):
            if not condition:
                raise ValueError(message)

        require(
            self.hidden % self.heads == 0, f"{self.heads} heads do not divide a hidden size of {self.hidden}"
        )
        require(
            self.heads % self.kv_heads == 0, f"{self.kv_heads} key heads do not divide {self.heads} heads"
        )
        require(
            self.style == "llama" or self.kv_heads == self.heads,
            "fewer key heads than heads: llama style only",
        )
        require(self.style != "llama" or self.head_dim % 2 == 0, "rotary embedding needs an even head size")
        require(self.style != "bert" or self.graph == "prefill", "the bert style has no decode graph")
        require(self.style != "bert" or not self.position_ids, "the bert style takes no position_ids")
        require(
            self.graph == "decode" or "past_sequence" not in dict(self.fixed_dims),
            "only a decode graph has a past",
        )
        require(self.opset >= 17, "LayerNormalization exists since opset 17")

    @property
    def head_dim(self):
        return self.hidden // self.heads

    def dim(self, name):
        """A dimension as it stands in the model: its fixed size or its name."""
        return dict(self.fixed_dims).get(name, name)

    @property
    def sequence(self):
        return 1 if self.graph == "decode" else self.dim("sequence")

    @property
    def total_sequence(self):
        """Length of the present keys and values."""
        if self.graph == "prefill":
            return self.sequence
        past = self.dim("past_sequence")
        return past + 1 if isinstance(past, int) else f"{past} + 1"


@dataclasses.dataclass(frozen=True)
class Shard:
    """What one of `ranks` ranks holds."""

    ranks: int = 1
    rank: int = 0

    def part(self, array, axis):
        """This rank's equal part of `array`."""
        return np.split(array, self.ranks, axis)[self.rank]

    def require_divides(self, config):
        for what, size in (
            ("heads", config.heads),
            ("key heads", config.kv_heads),
            ("MLP", config.intermediate),
        ):
            if size % self.ranks:
                raise ValueError(f"{self.ranks} ranks do not divide {size} ({what})")


WHOLE = Shard()  # a plain model


class Parameters:
    """Random parameters that depend on the seed and on their own name only, not on the order or the rank."""

    def __init__(self, config):
        self._seed = config.seed
        # GPT-2 draws from N(0, 0.02) at a width of 768; scaled by the width, activations are alike at all sizes.
        self.deviation = 0.02 * (768 / config.hidden) ** 0.5
        self._residual_scale = (2 * config.layers) ** -0.5

    def normal(self, name, shape, deviation):
        generator = np.random.Generator(np.random.PCG64([self._seed, zlib.crc32(name.encode())]))
        return generator.standard_normal(shape, np.float32) * np.float32(deviation)

    def matrix(self, name, rows, columns, closes_block=False):
        """A weight. What is added to the residual stream is smaller, so that the stream stays sane with depth."""
        return self.normal(
            name, (rows, columns), self.deviation * (self._residual_scale if closes_block else 1)
        )

    def bias(self, name, size):
        """Trained biases are not zero; zero ones would hide a bias that is added once per rank."""
        return self.normal(name, (size,), 0.1)

    def scale(self, name, size):
        return 1 + self.normal(name, (size,), 0.1)
