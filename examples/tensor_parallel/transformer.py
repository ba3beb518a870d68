"""Transformers of three families as ONNX graphs, whole or split over ranks as Megatron-LM does.

The split (Shoeybi et al., 2019, section 3): the matrices that open a block (query, key, value; MLP up) are split by
columns, attention by heads, the matrices that close it by rows; the partial sums of the ranks are added by one
AllReduce per block, before the bias. The head is split by vocabulary, the logits are put together by an AllGather.
Norms, embeddings and biases after a reduce are the same on all ranks.
"""

import numpy as np
from onnx import TensorProto, numpy_helper

from graph_builder import GraphBuilder
from model_config import WHOLE, Parameters

LOWEST = float(np.finfo(np.float32).min)  # what a masked score becomes


class Transformer:
    """Builds the graph of one rank; one method per block. Values are [batch, sequence, hidden] unless said otherwise."""

    def __init__(self, config, shard=WHOLE, weight_file=None):
        shard.require_divides(config)
        self.c, self.shard = config, shard
        self.b = GraphBuilder(config.opset, weight_file)
        self.parameters = Parameters(config)
        self.heads, self.kv_heads = config.heads // shard.ranks, config.kv_heads // shard.ranks

    def build(self):
        """The whole model."""
        c, b = self.c, self.b
        ids = b.input("input_ids", np.int64, [c.dim("batch"), c.sequence])
        self.declare_positions_and_past(ids)
        if c.style == "bert":
            self.bert(ids)
        else:
            self.decoder(ids)
        return b.model(f"{c.style}_{c.graph}")

    # Inputs, positions and masks

    def declare_positions_and_past(self, ids):
        """Inputs beside the tokens, and what all layers share: positions and sizes, as scalars of the graph."""
        c, b = self.c, self.b
        self.positions = (
            b.input("position_ids", np.int64, [c.dim("batch"), c.sequence]) if c.position_ids else None
        )
        self.past = []
        if c.graph == "decode":
            dims = [c.dim("batch"), self.kv_heads, c.dim("past_sequence"), c.head_dim]
            self.past = [
                tuple(b.input(f"past_{kind}_{i}", np.float32, dims) for kind in ("key", "value"))
                for i in range(c.layers)
            ]
        with b.scope("positions"):
            length = b.dim(ids, 1)
            self.past_length = b.dim(self.past[0][0], 2) if self.past else b.int(0)
            self.total_length = b.op("Add", self.past_length, length) if self.past else length
            self.new_positions = b.op("Range", self.past_length, self.total_length, b.int(1))  # [sequence]
            if self.positions is None:
                self.positions = b.op("Unsqueeze", self.new_positions, b.ints(0))  # [1, sequence]

    def causal_mask(self):
        """Which key (column) a query (row) may see: bool [sequence, total] or [1, 1, sequence, total]."""
        c, b = self.c, self.b
        with b.scope("mask"):
            if c.mask == "range":
                keys = b.op("Range", b.int(0), self.total_length, b.int(1))
                return b.op(
                    "LessOrEqual",
                    b.op("Unsqueeze", keys, b.ints(0)),
                    b.op("Unsqueeze", self.new_positions, b.ints(1)),
                )
            if c.mask == "trilu":
                length = b.op("Sub", self.total_length, self.past_length)
                one = numpy_helper.from_array(np.ones(1, np.float32))
                ones = b.op("ConstantOfShape", b.shape(length, self.total_length), value=one)
                return b.op("Cast", b.op("Trilu", ones, self.past_length, upper=0), to=TensorProto.BOOL)
            table = b.weight("causal_mask", np.tri(c.max_positions, dtype=bool)[None, None])
            zero, past, total = (
                b.op("Unsqueeze", v, b.ints(0)) for v in (b.int(0), self.past_length, self.total_length)
            )
            rows = b.op("Slice", table, past, total, b.ints(2))
            return b.op("Slice", rows, zero, total, b.ints(3))

    # Linear layers and norms

    def linear(self, x, name, weight, bias=None):
        """x weight + bias, in the form that the configuration asks for."""
        b = self.b
        bias = [] if bias is None else [b.weight(f"{name}.bias", bias)]
        rows, columns = weight.shape
        weight = b.weight(f"{name}.weight", weight)
        if self.c.linear == "gemm":
            product = b.op("Gemm", b.op("Reshape", x, b.ints(-1, rows)), weight, *bias)
            return b.op("Reshape", product, b.shape(b.dim(x, 0), b.dim(x, 1), columns))
        product = b.op("MatMul", x, weight)
        return b.op("Add", product, *bias) if bias else product

    def column_linear(self, x, name, columns, biased=True, parts=1):
        """Opens a block: a rank computes its own columns, of each of `parts` equal parts (query, key, value) its own."""
        weight = self.parameters.matrix(f"{name}.weight", self.c.hidden, columns)
        own_weight = np.concatenate([self.shard.part(w, 1) for w in np.split(weight, parts, 1)], 1)
        if not biased:
            return self.linear(x, name, own_weight)
        bias = self.parameters.bias(f"{name}.bias", columns)
        own_bias = np.concatenate([self.shard.part(v, 0) for v in np.split(bias, parts)])
        return self.linear(x, name, own_weight, own_bias)

    def row_linear(self, x, name, rows, biased=True):
        """Closes a block: a rank multiplies its own rows, an AllReduce adds the partial sums, the bias follows once."""
        c, b = self.c, self.b
        weight = self.shard.part(
            self.parameters.matrix(f"{name}.weight", rows, c.hidden, closes_block=True), 0
        )
        bias = self.parameters.bias(f"{name}.bias", c.hidden) if biased else None
        if self.shard.ranks == 1:
            return self.linear(x, name, weight, bias)
        partial = self.linear(x, name, weight)
        total = b.collective("AllReduce", partial, [c.dim("batch"), c.sequence, c.hidden])
        return b.op("Add", total, b.weight(f"{name}.bias", bias)) if biased else total

    def layer_norm(self, x, name):
        b, size = self.b, self.c.hidden
        with b.scope(name.rsplit(".", 1)[-1]):
            scale = b.weight(f"{name}.weight", self.parameters.scale(f"{name}.weight", size))
            bias = b.weight(f"{name}.bias", self.parameters.bias(f"{name}.bias", size))
            return b.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=self.c.norm_epsilon)

    def rms_norm(self, x, name):
        """x / sqrt(mean(x^2) + epsilon) * weight."""
        b = self.b
        with b.scope(name.rsplit(".", 1)[-1]):
            square = b.op("Pow", x, b.float(2))
            if self.c.opset < 18:
                mean = b.op("ReduceMean", square, axes=[-1], keepdims=1)
            else:
                mean = b.op("ReduceMean", square, b.ints(-1), keepdims=1)
            root = b.op("Sqrt", b.op("Add", mean, b.float(self.c.norm_epsilon)))
            scale = b.weight(f"{name}.weight", self.parameters.scale(f"{name}.weight", self.c.hidden))
            return b.op("Mul", b.op("Div", x, root), scale)

    # Activations

    def gelu(self, x):
        """Written out, as exporters do below opset 20."""
        b = self.b
        if self.c.gelu == "erf":
            erf = b.op("Erf", b.op("Div", x, b.float(2**0.5)))
            return b.op("Mul", b.op("Mul", x, b.op("Add", erf, b.float(1))), b.float(0.5))
        cube = b.op("Mul", b.op("Pow", x, b.float(3)), b.float(0.044715))
        tanh = b.op("Tanh", b.op("Mul", b.op("Add", x, cube), b.float((2 / np.pi) ** 0.5)))
        return b.op("Mul", b.op("Mul", x, b.float(0.5)), b.op("Add", tanh, b.float(1)))

    def silu(self, x):
        return self.b.op("Mul", x, self.b.op("Sigmoid", x))

    # Attention; values by head are [batch, heads, sequence, head_dim]

    def split_heads(self, x, heads):
        b = self.b
        by_head = b.op("Reshape", x, b.shape(b.dim(x, 0), b.dim(x, 1), heads, self.c.head_dim))
        return b.op("Transpose", by_head, perm=[0, 2, 1, 3])

    def merge_heads(self, x):
        b = self.b
        by_position = b.op("Transpose", x, perm=[0, 2, 1, 3])
        shape = b.shape(b.dim(by_position, 0), b.dim(by_position, 1), self.heads * self.c.head_dim)
        return b.op("Reshape", by_position, shape)

    def rotate(self, x):
        """Rotary position embedding: x cos + rotate_half(x) sin (Su et al., 2021), halves as in Llama."""
        b, half = self.b, self.c.head_dim // 2
        with b.scope("rotary"):
            first, second = b.slice(x, 0, half, 3), b.slice(x, half, 2 * half, 3)
            turned = b.op("Concat", b.op("Neg", second), first, axis=-1)
            return b.op("Add", b.op("Mul", x, self.cosine), b.op("Mul", turned, self.sine))

    def rotary_angles(self):
        """Cosine and sine by position, [batch or 1, 1, sequence, head_dim], the same for all layers and heads."""
        c, b = self.c, self.b
        frequencies = (10000.0 ** -(np.arange(0, c.head_dim, 2) / c.head_dim)).astype(np.float32)
        with b.scope("rotary"):
            if c.rotary == "tables":
                angles = np.outer(np.arange(c.max_positions, dtype=np.float32), np.tile(frequencies, 2))
                tables = [b.weight(f"rotary.{f.__name__}", f(angles)) for f in (np.cos, np.sin)]
                both = [b.op("Gather", table, self.positions, axis=0) for table in tables]
            else:
                positions = b.op("Unsqueeze", b.op("Cast", self.positions, to=TensorProto.FLOAT), b.ints(2))
                angles = b.op("Mul", positions, b.constant(frequencies, np.float32))
                angles = b.op("Concat", angles, angles, axis=-1)
                both = [b.op("Cos", angles), b.op("Sin", angles)]
            self.cosine, self.sine = (b.op("Unsqueeze", v, b.ints(1)) for v in both)

    def append_to_past(self, layer, key, value):
        """Keys and values of all positions so far, which are outputs too."""
        c, b = self.c, self.b
        dims = [c.dim("batch"), self.kv_heads, c.total_sequence, c.head_dim]
        present = []
        for kind, i, new in (("key", 0, key), ("value", 1, value)):
            whole = b.op("Concat", self.past[layer][i], new, axis=2) if self.past else new
            present.append(b.output(whole, f"present_{kind}_{layer}", dims))
        return present

    def repeat_heads(self, x):
        """Every key head serves heads / kv_heads query heads that lie next to each other."""
        c, b = self.c, self.b
        if self.kv_heads == self.heads:
            return x
        with b.scope("repeat_heads"):
            batch, length = b.dim(x, 0), b.dim(x, 2)
            group = self.heads // self.kv_heads
            wide = b.op(
                "Expand",
                b.op("Unsqueeze", x, b.ints(2)),
                b.shape(batch, self.kv_heads, group, length, c.head_dim),
            )
            return b.op("Reshape", wide, b.shape(batch, self.heads, length, c.head_dim))

    def attend(self, query, key, value):
        """softmax(mask(query key^T / sqrt(head_dim))) value."""
        c, b = self.c, self.b
        product = b.op("MatMul", query, b.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = b.op("Div", product, b.op("Sqrt", b.float(c.head_dim)))
        if c.style == "bert":
            scores = b.op("Add", scores, self.mask)
        else:
            scores = b.op("Where", self.mask, scores, b.float(LOWEST))
        return self.merge_heads(b.op("MatMul", b.op("Softmax", scores, axis=-1), value))

    def attention(self, x, layer, name):
        """Self-attention of one layer up to its projection, without norm and residual."""
        c, b = self.c, self.b
        kv_size = c.kv_heads * c.head_dim
        with b.scope("attention"):
            if c.style == "gpt2":
                qkv = self.column_linear(x, f"{name}.qkv", 3 * c.hidden, parts=3)
                own = self.heads * c.head_dim
                query, key, value = b.op("Split", qkv, b.ints(own, own, own), outputs=3, axis=-1)
            else:
                biased = c.style == "bert"
                query = self.column_linear(x, f"{name}.query", c.hidden, biased)
                key = self.column_linear(x, f"{name}.key", kv_size, biased)
                value = self.column_linear(x, f"{name}.value", kv_size, biased)
            query = self.split_heads(query, self.heads)
            key, value = self.split_heads(key, self.kv_heads), self.split_heads(value, self.kv_heads)
            if c.style == "llama":
                query, key = self.rotate(query), self.rotate(key)
            if c.style != "bert":
                key, value = self.append_to_past(layer, key, value)
            context = self.attend(query, self.repeat_heads(key), self.repeat_heads(value))
            return self.row_linear(context, f"{name}.output", c.hidden, biased=c.style != "llama")

    def mlp(self, x, name):
        """The feed-forward block, without norm and residual."""
        c, b = self.c, self.b
        with b.scope("mlp"):
            if c.style == "llama":
                gate = self.silu(self.column_linear(x, f"{name}.gate", c.intermediate, biased=False))
                inner = b.op("Mul", gate, self.column_linear(x, f"{name}.up", c.intermediate, biased=False))
            else:
                inner = self.gelu(self.column_linear(x, f"{name}.up", c.intermediate))
            return self.row_linear(inner, f"{name}.down", c.intermediate, biased=c.style != "llama")

    # Whole models

    def embedding(self, name, indices, rows):
        table = self.parameters.normal(f"{name}.weight", (rows, self.c.hidden), self.parameters.deviation)
        return self.b.op("Gather", self.b.weight(f"{name}.weight", table), indices, axis=0)

    def decoder(self, ids):
        """GPT-2 and Llama: norm before each block, logits at the end."""
        c, b = self.c, self.b
        norm = self.rms_norm if c.style == "llama" else self.layer_norm
        with b.scope("embeddings"):
            x = self.embedding("token_embedding", ids, c.vocab)
            if c.style == "gpt2":
                x = b.op("Add", x, self.embedding("position_embedding", self.positions, c.max_positions))
        if c.style == "llama":
            self.rotary_angles()
        self.mask = self.causal_mask()
        for layer in range(c.layers):
            name = f"layers.{layer}"
            with b.scope(name):
                x = b.op("Add", x, self.attention(norm(x, f"{name}.norm_1"), layer, f"{name}.attention"))
                x = b.op("Add", x, self.mlp(norm(x, f"{name}.norm_2"), f"{name}.mlp"))
        x = norm(x, "final_norm")
        with b.scope("head"):
            self.head(b.slice(x, -1, np.iinfo(np.int64).max, 1) if c.logits == "last" else x)

    def head(self, x):
        """Logits. Split ranks hold equal numbers of columns: the vocabulary is padded, the padding cut off again."""
        c, b, ranks = self.c, self.b, self.shard.ranks
        sequence = 1 if c.logits == "last" else c.sequence
        if c.tied and ranks == 1:
            logits = b.op("MatMul", x, b.op("Transpose", "token_embedding.weight", perm=[1, 0]))
        else:
            if c.tied:
                shape = (c.vocab, c.hidden)
                weight = self.parameters.normal("token_embedding.weight", shape, self.parameters.deviation).T
            else:
                weight = self.parameters.matrix("head.weight", c.hidden, c.vocab)
            padded = -(-c.vocab // ranks) * ranks
            weight = self.shard.part(np.pad(weight, ((0, 0), (0, padded - c.vocab))), 1)
            logits = b.op("MatMul", x, b.weight("head.weight", weight))
            if ranks > 1:
                dims = [c.dim("batch"), sequence, padded]
                logits = b.collective("AllGather", logits, dims, axis=-1, group_size=ranks)
            if padded != c.vocab:
                logits = b.slice(logits, 0, c.vocab, 2)
        b.output(logits, "logits", [c.dim("batch"), sequence, c.vocab], first=True)

    def bert(self, ids):
        """BERT: attention in both directions under a mask given as input, norm after each block, a pooled output."""
        c, b = self.c, self.b
        dims = [c.dim("batch"), c.sequence]
        attention_mask = b.input("attention_mask", np.int64, dims)
        token_types = b.input("token_type_ids", np.int64, dims)
        with b.scope("embeddings"):
            tokens = b.op(
                "Add",
                self.embedding("token_embedding", ids, c.vocab),
                self.embedding("type_embedding", token_types, 2),
            )
            x = b.op("Add", tokens, self.embedding("position_embedding", self.positions, c.max_positions))
            x = self.layer_norm(x, "embeddings.norm")
        with b.scope(
            "mask"
        ):  # 0 where a key counts, the lowest float where it does not: [batch, 1, 1, sequence]
            mask = b.op("Cast", b.op("Unsqueeze", attention_mask, b.ints(1, 2)), to=TensorProto.FLOAT)
            self.mask = b.op("Mul", b.op("Sub", b.float(1), mask), b.float(LOWEST))
        for layer in range(c.layers):
            name = f"layers.{layer}"
            with b.scope(name):
                attended = self.attention(x, layer, f"{name}.attention")
                x = self.layer_norm(b.op("Add", attended, x), f"{name}.norm_1")
                x = self.layer_norm(b.op("Add", self.mlp(x, f"{name}.mlp"), x), f"{name}.norm_2")
        with b.scope("pooler"):
            first = b.op("Gather", x, b.int(0), axis=1)
            weight = b.weight("pooler.weight", self.parameters.matrix("pooler.weight", c.hidden, c.hidden))
            bias = b.weight("pooler.bias", self.parameters.bias("pooler.bias", c.hidden))
            pooled = b.op("Tanh", b.op("Gemm", first, weight, bias))
        b.output(x, "last_hidden_state", [c.dim("batch"), c.sequence, c.hidden])
        b.output(pooled, "pooler_output", [c.dim("batch"), c.hidden])
