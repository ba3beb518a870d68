#!/usr/bin/env python3
"""Writes small decoders with caches of keys and values, random weights, as exporters write them.

    decoders.py gpt2 gpt2.onnx [--layers N --heads N --head-size N --key-heads N --vocabulary N]

Kinds: gpt2 (learned positions, attention spelled out), llama (rotary positions, root mean square, shared key heads), attention
(ONNX's Attention with past and present), time_first (gpt2 with caches [batch, past, heads, size]), transposed (gpt2 whose
cache of keys is [batch, heads, size, past]), and com.microsoft's operators: group_query (GroupQueryAttention, rotary positions), multi_head
(MultiHeadAttention) and stacked (Attention, whose cache [2, batch, heads, past, size] holds keys and values).

Inputs: input_ids [batch, sequence], past.L.key and past.L.value (stacked: past.L.both). Outputs: logits, present.L.key and
present.L.value, which are the past followed by what the step adds. Dimensions: batch, sequence, past. The same call always writes
the same bytes.
"""

import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = ("group_query", "multi_head", "stacked")
KINDS = ("gpt2", "llama", "attention", "time_first", "transposed", *MICROSOFT)


class Decoder:
    def __init__(self, kind, layers, heads, key_heads, size, vocabulary, positions, seed=0):
        self.kind, self.layers, self.heads, self.size = kind, layers, heads, size
        self.key_heads = key_heads if kind in ("llama", "attention", "group_query") else heads
        self.vocabulary, self.positions, self.hidden = vocabulary, positions, heads * size
        self.nodes, self.weights, self.count = [], [], 0
        self.random = np.random.Generator(np.random.PCG64(seed))

    def op(self, kind, *inputs, outputs=None, **attributes):
        self.count += 1
        names = outputs or [f"{kind.lower()}_{self.count}"]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"{kind}_{self.count}", **attributes))
        return names[0] if len(names) == 1 else names

    def constant(self, array, kind="weight"):
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), f"{kind}_{self.count}"))
        return f"{kind}_{self.count}"

    def numbers(self, *values):
        return self.constant(np.array(values, np.int64), "numbers")

    def normal(self, *shape):
        scale = shape[0] ** -0.5 if len(shape) > 1 else 0.1
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def linear(self, x, rows, columns):
        return self.op("Add", self.op("MatMul", x, self.normal(rows, columns)), self.normal(columns))

    def norm(self, x):
        scale = self.constant(np.ones(self.hidden, np.float32))
        if self.kind != "llama":
            return self.op("LayerNormalization", x, scale, self.constant(np.zeros(self.hidden, np.float32)))
        square = self.op("ReduceMean", self.op("Mul", x, x), axes=[-1])
        root = self.op("Sqrt", self.op("Add", square, self.constant(np.float32(1e-5))))
        return self.op("Mul", self.op("Div", x, root), scale)

    def heads_of(self, x, heads, order=(0, 2, 1, 3)):
        split = self.op("Reshape", x, self.numbers(0, 0, heads, self.size))
        return split if order == (0, 1, 2, 3) else self.op("Transpose", split, perm=list(order))

    def rotated(self, x):
        """x cos + (-second half, first half) sin, with the rows of the positions."""
        half = self.size // 2
        first = self.op("Slice", x, self.numbers(0), self.numbers(half), self.numbers(3))
        second = self.op("Slice", x, self.numbers(half), self.numbers(self.size), self.numbers(3))
        turned = self.op("Concat", self.op("Neg", second), first, axis=-1)
        return self.op("Add", self.op("Mul", x, self.cos), self.op("Mul", turned, self.sin))

    def grown(self, layer, what, new, axis):
        return self.op("Concat", f"past.{layer}.{what}", new, outputs=[f"present.{layer}.{what}"], axis=axis)

    def microsoft_attention(self, x, layer):
        y, past, present = f"attention.{layer}", f"past.{layer}.", f"present.{layer}."
        common = {"domain": "com.microsoft", "num_heads": self.heads}
        if self.kind == "stacked":
            both = self.normal(self.hidden, 3 * self.hidden), self.normal(3 * self.hidden)
            self.op("Attention", x, *both, "", past + "both", outputs=[y, present + "both"], unidirectional=1, **common)
            return self.linear(y, self.hidden, self.hidden)
        q, k, v = (self.linear(x, self.hidden, n * self.size) for n in (self.heads, self.key_heads, self.key_heads))
        pasts, outputs = [past + "key", past + "value"], [y, present + "key", present + "value"]
        if self.kind == "multi_head":
            self.op("MultiHeadAttention", q, k, v, "", "", "", *pasts, outputs=outputs, unidirectional=1, **common)
        else:
            self.op("GroupQueryAttention", q, k, v, *pasts, self.last_keys, self.total, self.cos, self.sin,
                    outputs=outputs, kv_num_heads=self.key_heads, do_rotary=1, **common)
        return self.linear(y, self.hidden, self.hidden)

    def attention(self, x, layer):
        if self.kind in MICROSOFT:
            return self.microsoft_attention(x, layer)
        q, k, v = (self.linear(x, self.hidden, n * self.size) for n in (self.heads, self.key_heads, self.key_heads))
        if self.kind == "attention":
            y = f"attention.{layer}"
            present = [f"present.{layer}.key", f"present.{layer}.value"]
            past = [f"past.{layer}.key", f"past.{layer}.value"]
            self.op("Attention", q, k, v, "", *past, outputs=[y, *present], is_causal=1,
                    q_num_heads=self.heads, kv_num_heads=self.key_heads)
            return self.linear(y, self.hidden, self.hidden)
        q = self.heads_of(q, self.heads)
        if self.kind == "time_first":
            keys, values = (
                self.op("Transpose", self.grown(layer, what, self.heads_of(new, self.heads, (0, 1, 2, 3)), 1),
                        perm=[0, 2, 1, 3])
                for what, new in (("key", k), ("value", v))
            )
        elif self.kind == "transposed":
            turned = self.grown(layer, "key", self.heads_of(k, self.heads, (0, 2, 3, 1)), 3)
            keys, values = None, self.grown(layer, "value", self.heads_of(v, self.heads), 2)
        else:
            k, v = self.heads_of(k, self.key_heads), self.heads_of(v, self.key_heads)
            if self.kind == "llama":
                q, k = self.rotated(q), self.rotated(k)
            keys, values = self.grown(layer, "key", k, 2), self.grown(layer, "value", v, 2)
        if self.key_heads != self.heads:
            keys, values = self.repeated(keys), self.repeated(values)
        if keys is not None:
            turned = self.op("Transpose", keys, perm=[0, 1, 3, 2])
        scores = self.op("Mul", self.op("MatMul", q, turned), self.constant(np.float32(self.size**-0.5)))
        weights = self.op("Softmax", self.op("Add", scores, self.mask), axis=-1)
        y = self.op("Transpose", self.op("MatMul", weights, values), perm=[0, 2, 1, 3])
        y = self.op("Reshape", y, self.numbers(0, 0, self.hidden))
        return self.linear(y, self.hidden, self.hidden)

    def repeated(self, x):
        """Each key head once for each of its query heads."""
        times = self.heads // self.key_heads
        shape = self.op("Shape", x)
        batch, length = (self.op("Gather", shape, self.numbers(k), axis=0) for k in (0, 2))
        wide = [batch, self.numbers(self.key_heads), self.numbers(times), length, self.numbers(self.size)]
        x = self.op("Expand", self.op("Unsqueeze", x, self.numbers(2)), self.op("Concat", *wide, axis=0))
        flat = [batch, self.numbers(self.heads), length, self.numbers(self.size)]
        return self.op("Reshape", x, self.op("Concat", *flat, axis=0))

    def positions_of(self):
        """Positions of the step's tokens and of all keys, and the mask."""
        past_axis = {"time_first": 1}.get(self.kind, 2)
        sequence = self.op("Gather", self.op("Shape", "input_ids"), self.constant(np.int64(1)), axis=0)
        first = "past.0.both" if self.kind == "stacked" else "past.0.value"
        past_axis = 3 if self.kind == "stacked" else past_axis
        past = self.op("Gather", self.op("Shape", first), self.constant(np.int64(past_axis)), axis=0)
        total, zero, one = self.op("Add", past, sequence), self.constant(np.int64(0)), self.constant(np.int64(1))
        tokens = self.op("Range", past, total, one)
        ahead = self.op("Greater", self.op("Range", zero, total, one), self.op("Unsqueeze", tokens, self.numbers(1)))
        self.mask = self.op("Where", ahead, self.constant(np.float32(-1e9)), self.constant(np.float32(0)))
        if self.kind == "group_query":
            batch = self.op("Gather", self.op("Shape", "input_ids"), self.numbers(0), axis=0)
            last = self.op("Cast", self.op("Sub", total, one), to=TensorProto.INT32)
            self.last_keys, self.total = self.op("Expand", last, batch), self.op("Cast", total, to=TensorProto.INT32)
        return tokens

    def model(self):
        x = self.op("Gather", self.normal(self.vocabulary, self.hidden), "input_ids")
        tokens = self.positions_of()
        steps = np.arange(0, self.size, 2) / self.size
        angles = np.outer(np.arange(self.positions), 10000.0**-steps)
        if self.kind == "group_query":
            self.cos, self.sin = (self.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
        elif self.kind == "llama":
            table = np.concatenate([angles, angles], axis=1)
            self.cos, self.sin = (
                self.op("Gather", self.constant(f(table).astype(np.float32)), tokens) for f in (np.cos, np.sin)
            )
        else:
            x = self.op("Add", x, self.op("Gather", self.normal(self.positions, self.hidden), tokens))
        for layer in range(self.layers):
            x = self.op("Add", x, self.attention(self.norm(x), layer))
            wide = self.linear(self.norm(x), self.hidden, 4 * self.hidden)
            wide = self.op("Mul", wide, self.op("Sigmoid", wide))
            x = self.op("Add", x, self.linear(wide, 4 * self.hidden, self.hidden))
        self.op("MatMul", self.norm(x), self.normal(self.hidden, self.vocabulary), outputs=["logits"])

        def cache(what, length):
            shape = ["batch", self.key_heads, length, self.size]
            if self.kind == "time_first":
                shape = ["batch", length, self.heads, self.size]
            if self.kind == "transposed" and what == "key":
                shape = ["batch", self.heads, self.size, length]
            return [2, *shape] if what == "both" else shape

        inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", self.vocabulary])]
        for layer in range(self.layers):
            for what in parts(self.kind):
                name = f"{layer}.{what}"
                inputs.append(helper.make_tensor_value_info(f"past.{name}", TensorProto.FLOAT, cache(what, "past")))
                outputs.append(
                    helper.make_tensor_value_info(f"present.{name}", TensorProto.FLOAT, cache(what, "total"))
                )
        graph = helper.make_graph(self.nodes, self.kind, inputs, outputs, self.weights)
        opset = 23 if self.kind == "attention" else 17
        opsets = [helper.make_opsetid("", opset)]
        if self.kind in MICROSOFT:
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = 10
        return model


def make_decoder(kind, layers=2, heads=4, key_heads=2, size=8, vocabulary=50, positions=4096, seed=0):
    decoder = Decoder(kind, layers, heads, key_heads, size, vocabulary, positions, seed)
    return decoder.model()


def parts(kind):
    return ("both",) if kind == "stacked" else ("key", "value")


def caches(layers, kind="gpt2"):
    """(output, input) of every cache."""
    return [(f"present.{k}.{what}", f"past.{k}.{what}") for k in range(layers) for what in parts(kind)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("output")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--key-heads", type=int, default=2)
    parser.add_argument("--head-size", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=50)
    a = parser.parse_args()
    onnx.save(make_decoder(a.kind, a.layers, a.heads, a.key_heads, a.head_size, a.vocabulary), a.output)


if __name__ == "__main__":
    main()
