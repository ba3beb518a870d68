#!/usr/bin/env python3
"""Writes well-known network architectures with random weights as ONNX models, as exporters write them after folding.

    networks.py resnet50 resnet50.onnx [--small]     networks.py --list

Weights are normal and scaled so that values stay near 1; the same call always writes the same bytes. --small has fewer
channels, blocks and pixels, for tests. The batch is the dimension "batch"; with --pixels dynamic, height and width are "height"
and "width" where the architecture allows it.
"""

import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Network:
    """A graph that is written node by node. Values are names."""

    def __init__(self, seed=0):
        self.nodes, self.weights, self.count = [], [], 0
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.channels = {}

    def name(self, kind):
        self.count += 1
        return f"{kind}_{self.count}"

    def constant(self, array, kind="weight"):
        name = self.name(kind)
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def normal(self, *shape, scale=1.0):
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [self.name(kind.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        if inputs and inputs[0] in self.channels:
            self.channels[names[0]] = self.channels[inputs[0]]
        return names[0] if outputs == 1 else names

    def conv(self, x, filters, kernel=1, stride=1, group=1, dilation=1, bias=True):
        channels = self.channels[x]
        fan_in = channels // group * kernel * kernel
        inputs = [x, self.constant(self.normal(filters, channels // group, kernel, kernel, scale=(2 / fan_in) ** 0.5))]
        if bias:
            inputs.append(self.constant(self.normal(filters, scale=0.1), "bias"))
        pad = (kernel - 1) // 2 * dilation
        y = self.op(
            "Conv", *inputs, kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[pad] * 4, group=group,
            dilations=[dilation, dilation],
        )
        self.channels[y] = filters
        return y

    def relu(self, x):
        return self.op("Relu", x)

    def silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def hard_swish(self, x):
        return self.op("HardSwish", x)

    def add(self, x, y):
        return self.op("Add", x, y)

    def max_pool(self, x, kernel, stride, pad):
        return self.op("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def concat(self, *xs):
        y = self.op("Concat", *xs, axis=1)
        self.channels[y] = sum(self.channels[x] for x in xs)
        return y

    def upsample(self, x):
        scales = self.constant(np.array([1, 1, 2, 2], np.float32), "scales")
        return self.op("Resize", x, "", scales, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")

    def linear(self, x, inputs, outputs):
        weight = self.constant(self.normal(outputs, inputs, scale=inputs**-0.5))
        return self.op("Gemm", x, weight, self.constant(self.normal(outputs, scale=0.1), "bias"), transB=1)

    def classifier(self, x, classes):
        pooled = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        return self.linear(pooled, self.channels[x], classes)

    def image(self, size, dynamic):
        self.channels["image"] = 3
        sizes = ["height", "width"] if dynamic else [size, size]
        self.input = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, *sizes])
        return "image"

    def model(self, outputs, shapes):
        infos = []
        for k, (value, shape) in enumerate(zip(outputs, shapes)):
            self.nodes.append(helper.make_node("Identity", [value], [f"output_{k}"], name=f"output_{k}"))
            infos.append(helper.make_tensor_value_info(f"output_{k}", TensorProto.FLOAT, shape))
        graph = helper.make_graph(self.nodes, "network", [self.input], infos, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="networks.py")


def resnet50(small, dynamic):
    n = Network()
    width, depths, size = (8, (1, 1, 1, 1), 64) if small else (64, (3, 4, 6, 3), 224)
    x = n.relu(n.conv(n.image(size, dynamic), width, 7, 2))
    x = n.max_pool(x, 3, 2, 1)
    for stage, depth in enumerate(depths):
        inner = width * 2**stage
        for block in range(depth):
            stride = 2 if block == 0 and stage > 0 else 1
            y = n.relu(n.conv(x, inner))
            y = n.relu(n.conv(y, inner, 3, stride))
            y = n.conv(y, inner * 4)
            shortcut = n.conv(x, inner * 4, 1, stride) if block == 0 else x
            x = n.relu(n.add(y, shortcut))
    return n.model([n.classifier(x, 1000)], [["batch", 1000]])


def squeeze_excite(n, x, inner, gate):
    s = n.op("GlobalAveragePool", x)
    s = gate[0](n.conv(s, inner))
    return n.op("Mul", x, gate[1](n.conv(s, n.channels[x])))


def inverted_residual(n, x, expanded, filters, kernel, stride, act, excite):
    y = act(n.conv(x, expanded)) if expanded != n.channels[x] else x
    y = act(n.conv(y, expanded, kernel, stride, group=expanded))
    if excite:
        y = squeeze_excite(n, y, *excite)
    y = n.conv(y, filters)
    return n.add(y, x) if stride == 1 and n.channels[x] == filters else y


def mobilenet_v3(small, dynamic):
    n = Network()
    hard_sigmoid = lambda v: n.op("HardSigmoid", v, alpha=1 / 6, beta=0.5)
    # kernel, expanded, filters, excite, hard swish, stride
    rows = [
        (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
        (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
        (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1),
    ]  # fmt: skip
    if small:
        rows = [rows[0], rows[3], rows[4], rows[12]]
    x = n.hard_swish(n.conv(n.image(64 if small else 224, dynamic), 16, 3, 2))
    for kernel, expanded, filters, excite, hard, stride in rows:
        act = n.hard_swish if hard else n.relu
        gate = (max(8, (expanded // 4 + 7) // 8 * 8), (n.relu, hard_sigmoid)) if excite else None
        x = inverted_residual(n, x, expanded, filters, kernel, stride, act, gate)
    x = n.hard_swish(n.conv(x, 960))
    pooled = n.op("Flatten", n.op("GlobalAveragePool", x), axis=1)
    hidden = n.hard_swish(n.linear(pooled, 960, 1280))
    return n.model([n.linear(hidden, 1280, 1000)], [["batch", 1000]])


def efficientnet_b0(small, dynamic):
    n = Network()
    sigmoid = lambda v: n.op("Sigmoid", v)
    # expansion, filters, blocks, stride, kernel
    rows = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]
    if small:
        rows = [rows[0], rows[1], rows[2]]
    x = n.silu(n.conv(n.image(64 if small else 224, dynamic), 32, 3, 2))
    for expansion, filters, blocks, stride, kernel in rows:
        for block in range(blocks):
            channels = n.channels[x]
            gate = (max(1, channels // 4), (n.silu, sigmoid))
            x = inverted_residual(n, x, channels * expansion, filters, kernel, stride if block == 0 else 1, n.silu, gate)
    x = n.silu(n.conv(x, 1280 if not small else 64))
    return n.model([n.classifier(x, 1000)], [["batch", 1000]])


def unet(small, dynamic):
    n = Network()
    widths, size = ((4, 8, 16), 32) if small else ((32, 64, 128, 256), 256)
    double = lambda v, c: n.relu(n.conv(n.relu(n.conv(v, c, 3)), c, 3))
    x, skips = n.image(size, dynamic), []
    for width in widths:
        x = double(x, width)
        skips.append(x)
        x = n.max_pool(x, 2, 2, 0)
    x = double(x, widths[-1] * 2)
    for width, skip in zip(reversed(widths), reversed(skips)):
        channels = n.channels[x]
        weight = n.constant(n.normal(channels, width, 2, 2, scale=channels**-0.5))
        x = n.op("ConvTranspose", x, weight, kernel_shape=[2, 2], strides=[2, 2])
        n.channels[x] = width
        x = double(n.concat(skip, x), width)
    shape = ["batch", 2, "height", "width"] if dynamic else ["batch", 2, size, size]
    return n.model([n.conv(x, 2)], [shape])


def detector(small, dynamic):
    """A backbone of cross-stage blocks, a feature pyramid, and three heads, like YOLOv8's smallest."""
    n = Network()
    width, depth, size = (4, 1, 64) if small else (16, 1, 640)
    block = lambda v, c, k=1, s=1: n.silu(n.conv(v, c, k, s))

    def cross_stage(v, filters, blocks, shortcut):
        whole = block(v, filters)
        half = filters // 2
        parts = n.op("Split", whole, n.constant(np.array([half, half], np.int64), "sizes"), outputs=2, axis=1)
        for part in parts:
            n.channels[part] = half
        for _ in range(blocks):
            y = block(block(parts[-1], half, 3), half, 3)
            parts.append(n.add(parts[-1], y) if shortcut else y)
        return block(n.concat(*parts), filters)

    x = block(n.image(size, dynamic), width, 3, 2)
    features = []
    for stage in range(4):
        x = block(x, width * 2 ** (stage + 1), 3, 2)
        x = cross_stage(x, n.channels[x], depth * (1 if stage in (0, 3) else 2), True)
        features.append(x)
    # Pooling of several sizes at the top.
    x = block(x, n.channels[x] // 2)
    pools = [x]
    for _ in range(3):
        pools.append(n.max_pool(pools[-1], 5, 1, 2))
    top = block(n.concat(*pools), n.channels[features[-1]])
    middle = cross_stage(n.concat(n.upsample(top), features[2]), n.channels[features[2]], depth, False)
    low = cross_stage(n.concat(n.upsample(middle), features[1]), n.channels[features[1]], depth, False)
    middle = cross_stage(n.concat(block(low, n.channels[low], 3, 2), middle), n.channels[middle], depth, False)
    top = cross_stage(n.concat(block(middle, n.channels[middle], 3, 2), top), n.channels[top], depth, False)
    flat = []
    for level in (low, middle, top):
        inner = max(16, width * 4)
        box = n.conv(block(block(level, inner, 3), inner, 3), 64)
        score = n.conv(block(block(level, inner, 3), inner, 3), 80)
        flat.append(n.op("Reshape", n.concat(box, score), n.constant(np.array([0, 144, -1], np.int64), "shape")))
    positions = sum((size // stride) ** 2 for stride in (8, 16, 32))
    return n.model([n.op("Concat", *flat, axis=2)], [["batch", 144, "positions" if dynamic else positions]])


def lstm_tagger(small, dynamic):
    n = Network()
    vocabulary, width, hidden, layers, tags = (50, 8, 12, 1, 5) if small else (5000, 128, 256, 2, 20)
    n.input = helper.make_tensor_value_info("words", TensorProto.INT64, ["batch", "length"])
    x = n.op("Gather", n.constant(n.normal(vocabulary, width)), "words")
    x = n.op("Transpose", x, perm=[1, 0, 2])
    for _ in range(layers):
        scale = hidden**-0.5
        w = n.constant(n.normal(2, 4 * hidden, width, scale=scale))
        r = n.constant(n.normal(2, 4 * hidden, hidden, scale=scale))
        b = n.constant(n.normal(2, 8 * hidden, scale=scale), "bias")
        y = n.op("LSTM", x, w, r, b, hidden_size=hidden, direction="bidirectional")
        y = n.op("Transpose", y, perm=[0, 2, 1, 3])
        width = 2 * hidden
        x = n.op("Reshape", y, n.constant(np.array([0, 0, width], np.int64), "shape"))
    x = n.op("Transpose", x, perm=[1, 0, 2])
    scores = n.op("Add", n.op("MatMul", x, n.constant(n.normal(width, tags, scale=width**-0.5))), n.constant(n.normal(tags)))
    return n.model([scores], [["batch", "length", tags]])


def vit_base(small, dynamic):
    """Vision Transformer, patches of 16 pixels; always of a fixed size, since there is a position for each patch."""
    n = Network()
    width, heads, layers, size, classes = (32, 4, 2, 64, 10) if small else (768, 12, 12, 224, 1000)
    patches = (size // 16) ** 2

    def linear(x, inputs, outputs):
        product = n.op("MatMul", x, n.constant(n.normal(inputs, outputs, scale=inputs**-0.5)))
        return n.op("Add", product, n.constant(n.normal(outputs, scale=0.1), "bias"))

    def norm(x):
        scale, bias = n.constant(1 + n.normal(width, scale=0.1), "scale"), n.constant(n.normal(width, scale=0.1), "bias")
        return n.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-6)

    def scalar(value):
        return n.constant(np.array(value, np.float32), "scalar")

    def shape(*sizes):
        return n.constant(np.array(sizes, np.int64), "shape")

    def attention(x):
        qkv = n.op("Reshape", linear(x, width, 3 * width), shape(0, 0, 3, heads, width // heads))
        qkv = n.op("Transpose", qkv, perm=[2, 0, 3, 1, 4])
        q, k, v = (n.op("Gather", qkv, n.constant(np.array(part, np.int64), "part"), axis=0) for part in range(3))
        q = n.op("Mul", q, scalar((width // heads) ** -0.5))
        weights = n.op("Softmax", n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
        y = n.op("Transpose", n.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        return linear(n.op("Reshape", y, shape(0, 0, width)), width, width)

    def gelu(x):
        erf = n.op("Add", n.op("Erf", n.op("Div", x, scalar(2**0.5))), scalar(1.0))
        return n.op("Mul", n.op("Mul", x, erf), scalar(0.5))

    filters = n.constant(n.normal(width, 3, 16, 16, scale=(3 * 256) ** -0.5))
    x = n.op("Conv", n.image(size, False), filters, n.constant(n.normal(width, scale=0.1), "bias"), strides=[16, 16])
    x = n.op("Transpose", n.op("Reshape", x, shape(0, width, patches)), perm=[0, 2, 1])
    batch = n.op("Gather", n.op("Shape", x), n.constant(np.array([0], np.int64), "axis"), axis=0)
    many = n.op("Concat", batch, shape(1, width), axis=0)
    x = n.op("Concat", n.op("Expand", n.constant(n.normal(1, 1, width), "class_token"), many), x, axis=1)
    x = n.op("Add", x, n.constant(n.normal(1, patches + 1, width, scale=0.1), "positions"))
    for _ in range(layers):
        x = n.op("Add", x, attention(norm(x)))
        x = n.op("Add", x, linear(gelu(linear(norm(x), width, 4 * width)), 4 * width, width))
    first = n.op("Gather", norm(x), n.constant(np.array(0, np.int64), "first"), axis=1)
    return n.model([n.linear(first, width, classes)], [["batch", classes]])


NETWORKS = {f.__name__: f for f in (resnet50, mobilenet_v3, efficientnet_b0, unet, detector, lstm_tagger, vit_base)}
# Those whose pixels have no dynamic form.
ONE_FORM = ("lstm_tagger", "vit_base")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", choices=NETWORKS)
    parser.add_argument("path", nargs="?")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--pixels", choices=("fixed", "dynamic"), default="fixed")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(NETWORKS))
        return
    if not options.network or not options.path:
        parser.error("name a network and a file")
    model = NETWORKS[options.network](options.small, options.pixels == "dynamic")
    onnx.checker.check_model(model)
    onnx.save(model, options.path)


if __name__ == "__main__":
    main()
