#!/usr/bin/env python3
"""Writes the corpus of models that must be refused with an error that names what is wrong.

  make_bad_models.py               writes tests/corpus/bad_models
  make_bad_models.py --check       changes nothing, fails where the committed corpus is not what would be written

    bad_models/NAME/...            the files of one case
    bad_models/expect.json         by name: what to compile and what the error must say:
      model      path below bad_models; may hold {rank}
      ranks      number of ranks to compile for
      dims       bounds of named dimensions, {"batch": [1, 8]}
      kind       what is wrong, as a symbol
      mentions   texts that the message must contain: file, node, operator, value

The corpus is committed; this script is its source and gives the same bytes again.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

HEADER = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>\n'
GOOD = (
    "g (float[2,3] x) => (float[2,4] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}> "
    "{ [first] h = MatMul(x, w) [second] y = Relu(h) }"
)


class Corpus:
    """Collects the cases."""

    def __init__(self, root):
        self.root = root
        self.expectations = {}

    def folder(self, name):
        path = os.path.join(self.root, name)
        os.makedirs(path, exist_ok=True)
        return path

    def expect(self, name, kind, *mentions, file="model.onnx", ranks=1, dims=None):
        """States what the error of case `name` must say; the file's name is always among it."""
        assert name not in self.expectations, name
        self.expectations[name] = {
            "model": f"{name}/{file}",
            "ranks": ranks,
            "dims": dims or {},
            "kind": kind,
            "mentions": [*mentions] if "{rank}" in file else [file, *mentions],
        }

    def raw(self, name, content, kind, *mentions, **options):
        """A model file with the given bytes."""
        with open(os.path.join(self.folder(name), "model.onnx"), "wb") as file:
            file.write(content)
        self.expect(name, kind, *mentions, **options)

    def model(self, name, model, kind, *mentions, **options):
        self.raw(name, to_bytes(model), kind, *mentions, **options)

    def graph(self, name, text, kind, *mentions, **options):
        """A model in ONNX text."""
        self.model(name, parse(text), kind, *mentions, **options)

    def ranks(self, name, texts, kind, *mentions, ranks=None, **options):
        """One file per rank."""
        for rank, text in enumerate(texts):
            with open(os.path.join(self.folder(name), f"model.rank{rank}.onnx"), "wb") as file:
                file.write(to_bytes(parse(text)))
        self.expect(name, kind, *mentions, file="model.rank{rank}.onnx", ranks=ranks or len(texts), **options)

    def write_expectations(self):
        with open(os.path.join(self.root, "expect.json"), "w") as file:
            json.dump(self.expectations, file, indent=2, sort_keys=True)
            file.write("\n")


def parse(text):
    return onnx.parser.parse_model(HEADER + text)


def to_bytes(message):
    return message.SerializeToString(deterministic=True)


def edited(text, edit):
    """The model of `text` after `edit` changed it in place."""
    model = parse(text)
    edit(model)
    return model


def broken_files(corpus):
    """Files that are no ONNX models."""
    good = to_bytes(parse(GOOD))
    corpus.raw("truncated_file", good[: len(good) * 3 // 5], "not_onnx")
    corpus.raw("empty_file", b"", "not_onnx")
    corpus.raw("text_file", b"This is not a model.\n" * 20, "not_onnx")
    corpus.raw("random_bytes", np.random.Generator(np.random.PCG64(1)).bytes(500), "not_onnx")
    corpus.raw(
        "wrong_protobuf", to_bytes(numpy_helper.from_array(np.arange(6, dtype=np.float32), "w")), "not_onnx"
    )
    corpus.raw("huge_length_field", b"\x3a\xff\xff\xff\xff\x0f" + good, "not_onnx")
    corpus.model("no_graph", edited(GOOD, lambda m: m.ClearField("graph")), "not_onnx")
    corpus.expect("missing_file", "file_not_readable")

    def nest(model):
        for _ in range(150):  # beyond the depth that protobuf reads
            outer = parse("g (bool c) => (float[1] y) { [branch] y = If(c) }")
            outer.graph.node[0].attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g.CopyFrom(
                model.graph
            )
            model.CopyFrom(outer)

    corpus.model(
        "deeply_nested", edited("g (bool c) => (float[1] y) { y = Cast<to = 1>(c) }", nest), "not_onnx"
    )


def external_data(corpus):
    """Weights in files beside the model."""

    def case(name, kind, *mentions, data=None, **entries):
        def edit(model):
            weight = model.graph.initializer[0]
            for field in ("float_data", "raw_data"):
                weight.ClearField(field)
            weight.data_location = TensorProto.EXTERNAL
            for key, value in entries.items():
                weight.external_data.add(key=key, value=str(value))

        corpus.model(name, edited(GOOD, edit), kind, "w", *mentions)
        if data is not None:
            with open(os.path.join(corpus.folder(name), "weights.data"), "wb") as file:
                file.write(b"\0" * data)

    with open(
        os.path.join(corpus.root, "outside.data"), "wb"
    ) as file:  # exists, so that a lax reader would succeed
        file.write(b"\0" * 48)
    here = dict(location="weights.data")
    case("external_data_missing", "external_data_missing", "weights.data", **here, offset=0, length=48)
    case("external_data_short", "external_data_short", "weights.data", data=40, **here, offset=0, length=48)
    case(
        "external_data_offset_past_end",
        "external_data_short",
        "weights.data",
        data=48,
        **here,
        offset=64,
        length=48,
    )
    case("external_data_length_mismatch", "initializer_size", data=64, **here, offset=0, length=64)
    case("external_data_negative_offset", "external_data_entry", data=48, **here, offset=-8, length=48)
    case("external_data_overflow", "external_data_entry", data=48, **here, offset=2**64 - 8, length=48)
    case("external_data_not_a_number", "external_data_entry", data=48, **here, offset="first", length=48)
    case("external_data_no_location", "external_data_entry", data=48, offset=0, length=48)
    case(
        "external_data_parent_folder",
        "external_data_path",
        "../outside.data",
        location="../outside.data",
        length=48,
    )
    case("external_data_hidden_parent", "external_data_path", location="sub/../../outside.data", length=48)
    case("external_data_absolute", "external_data_path", "/etc/passwd", location="/etc/passwd", length=48)
    case("external_data_is_folder", "external_data_path", location=".", length=48)


def graph_structure(corpus):
    """Names and edges."""
    x, y = "float[2] x", "float[2] y"
    corpus.graph("cyclic_graph", f"g ({x}) => ({y}) {{ [first] a = Add(x, b) [second] b = Relu(a) [last] y = Neg(b) }}",
                 "cyclic_graph", "first", "second")  # fmt: skip
    corpus.graph("self_cycle", f"g ({x}) => ({y}) {{ [loop] y = Add(x, y) }}", "cyclic_graph", "loop")
    corpus.graph("not_sorted", f"g ({x}) => ({y}) {{ [second] y = Neg(h) [first] h = Relu(x) }}",
                 "not_sorted", "second", "h")  # fmt: skip
    corpus.graph(
        "undefined_input",
        f"g ({x}) => ({y}) {{ [sum] y = Add(x, ghost) }}",
        "undefined_value",
        "sum",
        "ghost",
    )
    corpus.graph(
        "undefined_output", f"g ({x}) => ({y}, float[2] ghost) {{ y = Neg(x) }}", "undefined_value", "ghost"
    )
    corpus.graph(
        "duplicate_value",
        f"g ({x}) => ({y}) {{ [one] y = Neg(x) [two] y = Abs(x) }}",
        "duplicate_name",
        "two",
        "y",
    )
    corpus.graph("duplicate_output", f"g ({x}) => ({y}, {y}) {{ y = Neg(x) }}", "duplicate_name", "y")
    corpus.graph("duplicate_input", f"g ({x}, {x}) => ({y}) {{ y = Neg(x) }}", "duplicate_name", "x")
    corpus.graph(
        "node_redefines_input", f"g ({x}) => ({y}) {{ [again] x = Neg(x) y = Abs(x) }}", "duplicate_name", "x"
    )
    corpus.model(
        "recursive_function",
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17, "local": 1]>\n'
            f"g ({x}) => ({y}) {{ [call] y = local.spin(x) }}\n"
            '<domain: "local", opset_import: ["": 17, "local": 1]> spin (a) => (b) { b = local.spin(a) }'
        ),
        "recursive_function",
        "spin",
    )


def hostile(corpus):
    """Small models that say large things, or things that no shape inference expects."""
    x, y = "float[2,3] x", "float[2,3] y"
    for name, text in dict(
        axis_beyond_32_bits=f"({x}) => ({y}) {{ [odd] y = Softmax <axis = 2147483648> (x) }}",
        batch_dims_negative=f"({x}, int64[2,1] i) => (float[n] y) {{ [odd] y = GatherND <batch_dims = -2> (x, i) }}",
        keepdims_of_two=f"({x}) => (float[n] y) {{ [odd] y = ReduceMax <keepdims = 2> (x) }}",
        stash_type_integer=f"({x}, float[3] s) => ({y}) {{ [odd] y = LayerNormalization <stash_type = 3> (x, s) }}",
    ).items():
        attribute = text.split("<")[1].split(" ")[0]
        corpus.graph(name, "g " + text, "invalid_attribute", "odd", f"'{attribute}'")
    corpus.model(
        "split_into_billions",
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 18]>\n'
            "g (float[8] x) => (float[4] y, float[4] z) { [odd] y, z = Split <num_outputs = 2147483647> (x) }"
        ),
        "invalid_attribute",
        "odd",
        "num_outputs",
    )
    corpus.model(
        "loss_batch_differs",
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 13]>\n'
            "g (float[2,4] x, int64[3] l) => (float z) { [odd] z = SoftmaxCrossEntropyLoss(x, l) }"
        ),
        "shape_mismatch",
        "odd",
    )
    corpus.graph(
        "scale_longer_than_input",
        f"g ({x}, float[3,2,3] s) => ({y}) {{ [odd] y = LayerNormalization(x, s) }}",
        "shape_mismatch",
        "odd",
        "[3, 2, 3]",
    )
    levels = "".join(
        f'\n<domain: "local", opset_import: ["": 17, "local": 1]> f{k} (a) => (c) '
        f"{{ b = {'Neg' if k == 0 else f'local.f{k - 1}'}(a) c = {'Neg' if k == 0 else f'local.f{k - 1}'}(b) }}"
        for k in range(31)
    )
    corpus.model(
        "billion_laughs",
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17, "local": 1]>\n'
            f"g ({x}) => ({y}) {{ [odd] y = local.f30(x) }}{levels}"
        ),
        "function_expansion",
        "odd",
        "f30",
    )


def operators(corpus):
    """Operators, domains, versions, attributes."""
    x, y = "float[2,3] x", "float[2,3] y"
    corpus.graph(
        "unknown_op", f"g ({x}) => ({y}) {{ [odd] y = Frobnicate(x) }}", "unknown_op", "odd", "Frobnicate"
    )
    corpus.graph("three_unknown_ops",
                 f"g ({x}) => ({y}) {{ a = Frobnicate(x) b = Wibble(a) c = Relu(b) y = Frotz(c) }}",
                 "unknown_op", "Frobnicate", "Wibble", "Frotz")  # fmt: skip
    corpus.graph("unknown_collective", f"g ({x}) => ({y}) {{ [odd] y = com.microsoft.AllSquash(x) }}", "unknown_op", "odd",
                 "AllSquash", ranks=2)  # fmt: skip
    foreign = f"g ({x}) => ({y}) {{ [odd] y = com.nobody.Relu(x) }}"
    corpus.graph("domain_not_imported", foreign, "unknown_domain", "odd", "com.nobody")
    corpus.model("unknown_domain", edited(foreign, lambda m: m.opset_import.add(domain="com.nobody", version=1)),
                 "unknown_op", "odd", "com.nobody", "Relu")  # fmt: skip

    def opset(version):
        return lambda model: setattr(model.opset_import[0], "version", version)

    corpus.model("opset_missing", edited(GOOD, lambda m: m.ClearField("opset_import")), "opset")
    corpus.model("opset_too_new", edited(GOOD, opset(999)), "opset", "999")
    corpus.model("opset_negative", edited(GOOD, opset(-1)), "opset")
    corpus.model(
        "ir_version_too_new", edited(GOOD, lambda m: setattr(m, "ir_version", 999)), "ir_version", "999"
    )
    for name, body in dict(
        axis_out_of_range="Softmax <axis = 5> (x)",
        permutation_not_one="Transpose <perm = [0, 0]> (x)",
        permutation_too_long="Transpose <perm = [0, 1, 2]> (x)",
        attribute_unknown="Relu <slope = 0.5> (x)",
        attribute_of_wrong_type='Softmax <axis = "last"> (x)',
        attribute_missing="Cast(x)",
    ).items():
        corpus.graph(
            name,
            f"g ({x}) => ({y}) {{ [odd] y = {body} }}",
            "invalid_attribute",
            "odd",
            body.split("(")[0].split()[0],
        )
    corpus.graph("too_few_inputs", f"g ({x}) => ({y}) {{ [odd] y = Add(x) }}", "invalid_node", "odd", "Add")
    corpus.graph(
        "too_many_inputs", f"g ({x}) => ({y}) {{ [odd] y = Relu(x, x) }}", "invalid_node", "odd", "Relu"
    )


def types_and_shapes(corpus):
    """Element types, shapes, sizes."""

    def case(name, kind, inputs, output, body, *mentions, **options):
        corpus.graph(name, f"g ({inputs}) => ({output}) {{ {body} }}", kind, *mentions, **options)

    case(
        "type_mismatch",
        "type_mismatch",
        "float[2] a, int64[2] b",
        "float[2] y",
        "[sum] y = Add(a, b)",
        "sum",
        "Add",
    )
    case("type_not_allowed", "type_mismatch", "bool[2] a", "bool[2] y", "[root] y = Sqrt(a)", "root", "Sqrt")
    case("string_input", "unsupported_type", "string[2] a", "string[2] y", "y = Identity(a)", "a")
    for name, inputs, output, body, op in (
        ("matmul_shapes", "float[2,3] a, float[4,5] b", "float[2,5] y", "MatMul(a, b)", "MatMul"),
        ("gemm_shapes", "float[2,3] a, float[4,5] b", "float[2,5] y", "Gemm(a, b)", "Gemm"),
        ("broadcast_shapes", "float[2,3] a, float[2,4] b", "float[2,4] y", "Add(a, b)", "Add"),
        ("concat_shapes", "float[2,3] a, float[4,4] b", "float[2,7] y", "Concat <axis = 1> (a, b)", "Concat"),
        ("where_shapes", "bool[5] c, float[2] a, float[2] b", "float[2] y", "Where(c, a, b)", "Where"),
    ):
        case(name, "shape_mismatch", inputs, output, f"[odd] y = {body}", "odd", op)
    shape = "s = Constant <value = int64[2] {5, -1}> ()"
    case(
        "reshape_size",
        "shape_mismatch",
        "float[3,4] x",
        "float[5,2] y",
        f"{shape} [odd] y = Reshape(x, s)",
        "odd",
        "Reshape",
    )
    shape = "s = Constant <value = int64[2] {-1, -1}> ()"
    case(
        "reshape_two_free",
        "shape_mismatch",
        "float[3,4] x",
        "float[3,4] y",
        f"{shape} [odd] y = Reshape(x, s)",
        "odd",
    )
    sizes = "s = Constant <value = int64[2] {2, 3}> ()"
    case(
        "split_sizes",
        "shape_mismatch",
        "float[6] x",
        "float[2] y, float[3] z",
        f"{sizes} [odd] y, z = Split(x, s)",
        "odd",
    )
    case("data_dependent_size", "data_dependent_size", "float[12] x, int64[2] s", "float[a,b] y", "[odd] y = Reshape(x, s)",
         "odd", "Reshape", dims={"a": [1, 12], "b": [1, 12]})  # fmt: skip
    case(
        "unbounded_dimension",
        "unbounded_dimension",
        "float[batch,3] x",
        "float[batch,3] y",
        "y = Neg(x)",
        "batch",
        "x",
    )
    case("unnamed_dimension", "unbounded_dimension", "float[?,3] x", "float[?,3] y", "y = Neg(x)", "x")
    case("bounds_reversed", "invalid_dimension", "float[batch,3] x", "float[batch,3] y", "y = Neg(x)", "batch",
         dims={"batch": [8, 1]})  # fmt: skip
    case("no_such_dimension", "invalid_dimension", "float[2,3] x", "float[2,3] y", "y = Neg(x)", "batch",
         dims={"batch": [1, 8]})  # fmt: skip

    def set_dims(*dims):
        def edit(model):
            for value in (model.graph.input[0], model.graph.output[0]):
                shape = helper.make_tensor_value_info("", TensorProto.FLOAT, dims).type.tensor_type.shape
                value.type.tensor_type.shape.CopyFrom(shape)

        return edit

    plain = "g (float[2,3] x) => (float[2,3] y) { [odd] y = Neg(x) }"
    corpus.model("negative_dimension", edited(plain, set_dims(-2, 3)), "shape_mismatch", "x")
    for where in ("output", "value_info"):
        corpus.model(
            f"negative_dimension_of_{where}",
            edited(plain, lambda m: (
                getattr(m.graph, where).append(helper.make_tensor_value_info("t", TensorProto.FLOAT, [-4, 3])),
                m.graph.node.append(helper.make_node("Neg", ["x"], ["t"])))),
            "shape_mismatch",
            "t",
        )  # fmt: skip
    corpus.model("overflowing_size", edited(plain, set_dims(2**40, 2**40)), "size_overflow")
    corpus.model("overflowing_bytes", edited(plain, set_dims(2**61, 2)), "size_overflow")
    corpus.model("input_without_shape", edited(plain, lambda m: m.graph.input[0].type.tensor_type.ClearField("shape")),
                 "unknown_shape", "x")  # fmt: skip
    corpus.model(
        "input_without_type",
        edited(plain, lambda m: m.graph.input[0].ClearField("type")),
        "unsupported_type",
        "x",
    )
    case("overflowing_intermediate", "size_overflow", "float[1,1] x", "float[1099511627776,1099511627776] y",
         "s = Constant <value = int64[2] {1099511627776, 1099511627776}> () [odd] y = Expand(x, s)", "odd")  # fmt: skip


def initializers(corpus):
    """Weights inside the model."""

    def case(name, kind, edit):
        corpus.model(name, edited(GOOD, lambda model: edit(model.graph.initializer[0])), kind, "w")

    def raw_bytes(count):
        def edit(weight):
            weight.ClearField("float_data")
            weight.raw_data = b"\0" * count

        return edit

    case("initializer_raw_short", "initializer_size", raw_bytes(44))
    case("initializer_raw_long", "initializer_size", raw_bytes(52))
    case("initializer_empty", "initializer_size", raw_bytes(0))
    case("initializer_few_values", "initializer_size", lambda weight: weight.float_data.pop())
    case("initializer_negative_dim", "invalid_dimension", lambda weight: weight.dims.__setitem__(0, -3))
    case("initializer_overflow", "size_overflow", lambda weight: weight.dims.__setitem__(0, 2**62))
    case("initializer_without_type", "unsupported_type", lambda weight: weight.ClearField("data_type"))
    corpus.model("duplicate_initializer", edited(GOOD, lambda m: m.graph.initializer.append(m.graph.initializer[0])),
                 "duplicate_name", "w")  # fmt: skip


def ranks_and_collectives(corpus):
    """Files per rank, sizes of groups."""
    linear = (
        "g (float[2,3] x) => (float[2,3] y) <float[3,3] w = {1,2,3,4,5,6,7,8,9}> "
        "{ [product] p = MatMul(x, w) [reduce] r = com.microsoft.AllReduce(p) [act] y = Relu(r) }"
    )
    corpus.ranks(
        "ranks_differ_in_op", [linear, linear.replace("Relu", "Tanh")], "ranks_differ", "act", "Relu", "Tanh"
    )
    corpus.ranks("ranks_differ_in_node_count", [linear, linear.replace("Relu(r)", "Relu(q) q = Abs(r)")
                 .replace("[act] y = Relu(q) q = Abs(r)", "q = Abs(r) [act] y = Relu(q)")], "ranks_differ")  # fmt: skip
    wide = (
        "g (float[2,3] x) => (float[2,3] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[4,3] v = "
        "{1,2,3,4,5,6,7,8,9,10,11,12}> { [up] h = MatMul(x, w) [down] y = MatMul(h, v) }"
    )
    narrow = wide.replace("[3,4]", "[3,2]").replace("[4,3]", "[2,3]").replace("6,7,8,9,10,11,12", "6")
    corpus.ranks("ranks_differ_in_weight_shape", [wide, narrow], "ranks_differ", "w")
    corpus.ranks(
        "ranks_differ_in_input_shape", [linear, linear.replace("[2,3]", "[4,3]")], "ranks_differ", "x"
    )
    gather = "g (float[2,3] x) => (float[2,6] y) { [gather] y = com.microsoft.AllGather <axis = 1, group_size = 2> (x) }"
    axis_0 = gather.replace("axis = 1", "axis = 0").replace("[2,6]", "[4,3]")
    corpus.ranks("ranks_differ_in_attribute", [gather, axis_0], "ranks_differ", "gather", "axis")
    corpus.ranks("rank_file_missing", [linear], "rank_file_missing", "model.rank1.onnx", ranks=2)
    corpus.ranks("rank_files_left_over", [linear] * 3, "rank_count", ranks=2)
    corpus.ranks(
        "rank_weight_decides_shape",
        ["g (float[6] x) => (float[a,b] y) <int64[2] s = {%s}> { [odd] y = Reshape(x, s) }" % s for s in ("2,3", "3,2")],
        "rank_weight_decides_shape", "odd", "s", dims={"a": [1, 6], "b": [1, 6]},
    )  # fmt: skip
    gather_4 = gather.replace("group_size = 2", "group_size = 4").replace("[2,6]", "[2,12]")
    corpus.graph("group_size_not_ranks", gather_4, "rank_count", "gather", "AllGather", "4", ranks=2)
    corpus.graph(
        "group_size_zero",
        gather.replace("group_size = 2", "group_size = 0"),
        "invalid_attribute",
        "gather",
        ranks=2,
    )
    corpus.graph(
        "gather_axis_out_of_range",
        gather.replace("axis = 1", "axis = 7"),
        "invalid_attribute",
        "gather",
        ranks=2,
    )
    corpus.graph("all_to_all_uneven",
                 "g (float[3] x) => (float[3] y) { [swap] y = com.microsoft.AllToAll <group_size = 2> (x) }",
                 "shape_mismatch", "swap", "AllToAll", ranks=2)  # fmt: skip
    corpus.graph("collective_type", "g (string[3] x) => (string[3] y) { [reduce] y = com.microsoft.AllReduce(x) }",
                 "unsupported_type", "x", ranks=2)  # fmt: skip


FAMILIES = (
    broken_files,
    external_data,
    graph_structure,
    hostile,
    operators,
    types_and_shapes,
    initializers,
    ranks_and_collectives,
)


def write_corpus(root):
    corpus = Corpus(root)
    for family in FAMILIES:
        family(corpus)
    corpus.write_expectations()


def files_below(root):
    """Contents by path relative to `root`."""
    result = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                result[os.path.relpath(path, root)] = file.read()
    return result


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus", "bad_models")
    if parser.parse_args().check:
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(folder)
            actual, wanted = files_below(root), files_below(folder)
        differing = sorted(p for p in actual.keys() | wanted.keys() if actual.get(p) != wanted.get(p))
        sys.exit("not current, run make_bad_models.py: " + ", ".join(differing) if differing else 0)
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    write_corpus(root)


if __name__ == "__main__":
    main()
