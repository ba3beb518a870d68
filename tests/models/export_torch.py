"""Test cases exported from PyTorch: tiny transformers with random weights, by both of its exporters.

    export_torch.py OUT [--only PATTERN] [--smallest] [--jobs N]

writes one folder per model, exporter, operator set and variant into OUT, in the layout that case_writer.py describes.
Nothing here runs in the tests: the cases in tests/corpus/exported were made by

    export_torch.py tests/corpus/exported --smallest

It needs torch, transformers, onnx, onnxscript and onnxruntime, on a CPU. Expected outputs are ONNX Runtime's where it
runs the model, else PyTorch's own; where the two differ, the exporter has fixed something at the sizes of its example, and
the data set is left out.
"""

import argparse
import fnmatch
import json
import multiprocessing
import os
import shutil
import sys
import traceback
import warnings
from dataclasses import dataclass, field

# Bounds of the dynamic dimensions, and the sizes of the data sets: the first one is the exporter's example.
BOUNDS = {"batch": (1, 4), "sequence": (1, 8), "past": (1, 6), "total": (2, 14), "memory": (1, 8)}
SIZES = [
    {"batch": 2, "sequence": 5, "past": 3, "memory": 6},
    {"batch": 3, "sequence": 7, "past": 6, "memory": 4},
    {"batch": 1, "sequence": 2, "past": 2, "memory": 8},
]
VOCABULARY = 11


@dataclass
class Size:
    """What all models of one run share."""

    hidden: int = 16
    heads: int = 4
    kv_heads: int = 2
    layers: int = 2


@dataclass
class Subject:
    """A module and how to call it. An input is (shape in names and numbers, kind)."""

    module: object
    inputs: dict = field(default_factory=dict)
    outputs: list = field(default_factory=list)


def causal_configs(size):
    """Decoder-only language models: name -> (configuration class, model class, arguments)."""
    h, layers = size.hidden, size.layers
    rotary = dict(
        hidden_size=h,
        intermediate_size=2 * h,
        num_hidden_layers=layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        max_position_embeddings=32,
    )
    return {
        "gpt2": ("GPT2Config", "GPT2LMHeadModel", dict(n_embd=h, n_layer=layers, n_head=2, n_positions=32)),
        "llama": ("LlamaConfig", "LlamaForCausalLM", rotary),
        "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", rotary),
        "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", rotary | dict(head_dim=h // size.heads)),
        "mistral": ("MistralConfig", "MistralForCausalLM", rotary | dict(sliding_window=4)),
        "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", rotary | dict(head_dim=h // size.heads)),
        "phi3": ("Phi3Config", "Phi3ForCausalLM", rotary),
        "opt": (
            "OPTConfig",
            "OPTForCausalLM",
            dict(
                hidden_size=h,
                ffn_dim=2 * h,
                num_hidden_layers=layers,
                num_attention_heads=2,
                max_position_embeddings=32,
                word_embed_proj_dim=h,
            ),
        ),
        "gpt_neox": (
            "GPTNeoXConfig",
            "GPTNeoXForCausalLM",
            dict(
                hidden_size=h,
                intermediate_size=2 * h,
                num_hidden_layers=layers,
                num_attention_heads=2,
                max_position_embeddings=32,
            ),
        ),
        "bloom": ("BloomConfig", "BloomForCausalLM", dict(hidden_size=h, n_layer=layers, n_head=2)),
        "falcon": (
            "FalconConfig",
            "FalconForCausalLM",
            dict(hidden_size=h, num_hidden_layers=layers, num_attention_heads=2),
        ),
        "mixtral": (
            "MixtralConfig",
            "MixtralForCausalLM",
            rotary | dict(num_local_experts=4, num_experts_per_tok=2),
        ),
    }


def encoder_configs(size):
    h, layers = size.hidden, size.layers
    bert = dict(
        hidden_size=h,
        intermediate_size=2 * h,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=32,
    )
    return {
        "bert": ("BertConfig", "BertModel", bert),
        "roberta": ("RobertaConfig", "RobertaModel", bert),
        "electra": ("ElectraConfig", "ElectraModel", bert | dict(embedding_size=h)),
        "albert": ("AlbertConfig", "AlbertModel", bert | dict(embedding_size=h)),
        "distilbert": (
            "DistilBertConfig",
            "DistilBertModel",
            dict(dim=h, hidden_dim=2 * h, n_layers=layers, n_heads=2, max_position_embeddings=32),
        ),
        "t5_encoder": (
            "T5Config",
            "T5EncoderModel",
            dict(d_model=h, d_kv=h // 2, d_ff=2 * h, num_layers=layers, num_heads=2),
        ),
        "mpnet": ("MPNetConfig", "MPNetModel", bert),
        "modernbert": ("ModernBertConfig", "ModernBertModel", bert | dict(pad_token_id=0)),
    }


def quiet_config(transformers, name, arguments, attention):
    extra = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2) | arguments
    config = getattr(transformers, name)(vocab_size=VOCABULARY, **extra)
    config._attn_implementation = attention
    return config


def causal(name, size, past, attention):
    import torch
    import transformers

    config_class, model_class, arguments = causal_configs(size)[name]
    config = quiet_config(transformers, config_class, arguments, attention)
    config.use_cache = past
    model = getattr(transformers, model_class)(config).eval()
    layers = config.num_hidden_layers
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if name in ("gpt_neox", "gpt2", "bloom", "opt"):
        heads = config.num_attention_heads
    if name == "falcon":
        heads = 1
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    class WithoutPast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return (self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits,)

    class WithPast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def run(self, input_ids, attention_mask, past):
            cache = transformers.DynamicCache()
            for k in range(layers):
                cache.update(past[2 * k], past[2 * k + 1], k)
            out = self.model(
                input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True
            )
            presents = [t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]
            return (out.logits, *presents)

    # torch.export wants a parameter per input.
    names = [f"past_{k}_{what}" for k in range(layers) for what in ("key", "value")]
    scope = {}
    exec(
        f"def forward(self, input_ids, attention_mask, {', '.join(names)}):\n"
        f"    return self.run(input_ids, attention_mask, [{', '.join(names)}])\n",
        scope,
    )
    WithPast.forward = scope["forward"]

    inputs = {"input_ids": (("batch", "sequence"), "token")}
    if not past:
        inputs["attention_mask"] = (("batch", "sequence"), "mask")
        return Subject(WithoutPast().eval(), inputs, ["logits"])
    inputs["attention_mask"] = (("batch", "total"), "mask")
    for n in names:
        inputs[n] = (("batch", heads, "past", head), "float")
    return Subject(WithPast().eval(), inputs, ["logits", *[n.replace("past", "present") for n in names]])


def encoder(name, size, attention):
    import torch
    import transformers

    config_class, model_class, arguments = encoder_configs(size)[name]
    config = quiet_config(transformers, config_class, arguments, attention)
    model = getattr(transformers, model_class)(config).eval()

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return (self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state,)

    inputs = {
        "input_ids": (("batch", "sequence"), "token"),
        "attention_mask": (("batch", "sequence"), "mask"),
    }
    return Subject(Encoder().eval(), inputs, ["hidden"])


def vit_encoder(size, attention):
    """Without the patch embedding, which is a convolution."""
    import torch
    import transformers

    config = transformers.ViTConfig(
        hidden_size=size.hidden,
        intermediate_size=2 * size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=2,
    )
    config._attn_implementation = attention
    model = transformers.ViTModel(config).eval()

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = model.layers if hasattr(model, "layers") else model.encoder.layer
            self.norm = model.layernorm

        def forward(self, patches):
            for block in self.blocks:
                patches = block(patches)
                patches = patches[0] if isinstance(patches, tuple) else patches
            return (self.norm(patches),)

    return Subject(Encoder().eval(), {"patches": (("batch", "sequence", size.hidden), "float")}, ["hidden"])


def t5(size, attention):
    import torch
    import transformers

    config = quiet_config(
        transformers,
        "T5Config",
        dict(d_model=size.hidden, d_kv=size.hidden // 2, d_ff=2 * size.hidden, num_layers=size.layers,
             num_heads=2, decoder_start_token_id=0),
        attention,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, decoder_input_ids):
            return (
                self.model(
                    input_ids=input_ids,
                    attention_mask=attention_mask,
                    decoder_input_ids=decoder_input_ids,
                    use_cache=False,
                ).logits,
            )

    inputs = {
        "input_ids": (("batch", "memory"), "token"),
        "attention_mask": (("batch", "memory"), "mask"),
        "decoder_input_ids": (("batch", "sequence"), "token"),
    }
    return Subject(Both().eval(), inputs, ["logits"])


def torch_encoder(size, norm_first, activation):
    import torch

    layer = torch.nn.TransformerEncoderLayer(
        size.hidden, 2, 2 * size.hidden, batch_first=True, norm_first=norm_first, activation=activation
    )
    model = torch.nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False).eval()

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, padding):
            return (self.model(x, src_key_padding_mask=padding),)

    inputs = {
        "x": (("batch", "sequence", size.hidden), "float"),
        "padding": (("batch", "sequence"), "padding"),
    }
    return Subject(Encoder().eval(), inputs, ["y"])


def torch_decoder(size):
    import torch

    layer = torch.nn.TransformerDecoderLayer(size.hidden, 2, 2 * size.hidden, batch_first=True)
    model = torch.nn.TransformerDecoder(layer, size.layers).eval()

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, memory):
            n = x.shape[1]
            mask = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
            return (self.model(x, memory, tgt_mask=mask),)

    inputs = {
        "x": (("batch", "sequence", size.hidden), "float"),
        "memory": (("batch", "memory", size.hidden), "float"),
    }
    return Subject(Decoder().eval(), inputs, ["y"])


def subjects(size):
    """name -> function that makes the subject."""
    made = {}
    for name in causal_configs(size):
        for past in (False, True):
            for attention in ("eager", "sdpa"):
                key = f"{name}{'_past' if past else ''}_{attention}"
                made[key] = lambda n=name, p=past, a=attention: causal(n, size, p, a)
    for name in encoder_configs(size):
        for attention in ("eager", "sdpa"):
            made[f"{name}_{attention}"] = lambda n=name, a=attention: encoder(n, size, a)
    for attention in ("eager", "sdpa"):
        made[f"vit_{attention}"] = lambda a=attention: vit_encoder(size, a)
        made[f"t5_{attention}"] = lambda a=attention: t5(size, a)
    made["torch_encoder"] = lambda: torch_encoder(size, False, "relu")
    made["torch_encoder_norm_first"] = lambda: torch_encoder(size, True, "gelu")
    made["torch_decoder"] = lambda: torch_decoder(size)
    return made


def sizes_of(data_set):
    return {**data_set, "total": data_set["past"] + data_set["sequence"]}


def make_inputs(subject, sizes, dtype, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, (shape, kind) in subject.inputs.items():
        shape = [sizes.get(s, s) for s in shape]
        if kind == "token":
            tensors[name] = torch.randint(3, VOCABULARY, shape, generator=generator)
        elif kind in ("mask", "padding"):
            mask = torch.ones(shape, dtype=torch.int64)
            if shape[0] > 1 and shape[1] > 1:
                mask[-1, -1] = 0  # a query that sees nothing at all would have no defined result
            tensors[name] = mask == 0 if kind == "padding" else mask
        else:
            tensors[name] = torch.randn(shape, generator=generator).to(dtype)
    return tensors


def export(subject, example, path, exporter, opset, dynamic):
    import torch

    axes = {
        name: {k: s for k, s in enumerate(shape) if isinstance(s, str)}
        for name, (shape, _) in subject.inputs.items()
    }
    arguments = dict(
        input_names=list(subject.inputs), output_names=subject.outputs, opset_version=opset, verbose=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "script":
            torch.onnx.export(
                subject.module,
                tuple(example.values()),
                path,
                dynamo=False,
                dynamic_axes=axes if dynamic else None,
                **arguments,
            )
        else:
            torch.onnx.export(
                subject.module,
                tuple(example.values()),
                path,
                dynamo=True,
                external_data=False,
                dynamic_shapes=tuple(axes.values()) if dynamic else None,
                **arguments,
            )


def without_traces(model):
    """Without the exporters' records of where in the Python sources a node comes from."""
    graph = model.graph
    for function in model.functions:
        del function.metadata_props[:]
        function.doc_string = ""
    nodes = [n for part in (graph, *model.functions) for n in part.node]
    for item in [model, graph, *nodes, *graph.value_info, *graph.input, *graph.output, *graph.initializer]:
        if hasattr(item, "metadata_props"):
            del item.metadata_props[:]
        item.doc_string = ""
    return model


def to_array(tensor):
    import onnx
    import torch
    from onnx import numpy_helper

    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        proto = onnx.TensorProto(data_type=onnx.TensorProto.BFLOAT16, dims=list(tensor.shape))
        proto.raw_data = tensor.contiguous().view(torch.int16).numpy().tobytes()
        return proto
    return numpy_helper.from_array(tensor.numpy())


def write(folder, index, stem, proto):
    target = os.path.join(folder, f"test_data_set_{index}")
    os.makedirs(target, exist_ok=True)
    at = len([f for f in os.listdir(target) if f.startswith(stem)])
    with open(os.path.join(target, f"{stem}_{at}.pb"), "wb") as file:
        file.write(proto.SerializeToString())


def write_data_sets(folder, subject, model, data_sets, dtype):
    """Returns what there is to say about the expected outputs."""
    import numpy as np
    import onnxruntime
    import torch

    try:
        onnxruntime.set_default_logger_severity(4)
        path = os.path.join(folder, "model.onnx")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception:
        session = None
    present = {i.name for i in model.graph.input}
    notes = [] if session else ["ONNX Runtime refuses the model"]
    written = 0
    for index, data_set in enumerate(data_sets):
        tensors = make_inputs(subject, sizes_of(data_set), dtype, index)
        with torch.no_grad():
            expected = list(subject.module(*tensors.values()))
        if session:
            try:
                found = session.run(None, {n: t.numpy() for n, t in tensors.items() if n in present})
            except Exception:
                notes.append(f"set {index}: ONNX Runtime refuses")
                if index > 0:
                    continue
                session = (
                    None  # not even the example: ONNX Runtime lacks something, other sizes are not the reason
                )
        if session:
            tolerance = 2e-2 if dtype == torch.float16 else 1e-4
            close = all(
                e.shape == tuple(f.shape) and np.allclose(e.numpy(), f, atol=tolerance, rtol=tolerance)
                for e, f in zip(expected, found)
            )
            if not close:
                notes.append(f"set {index}: ONNX Runtime and PyTorch differ")
                continue
            expected = [torch.from_numpy(np.ascontiguousarray(f)) for f in found]
        for name, tensor in tensors.items():
            if name in present:
                write(folder, written, "input", to_array(tensor))
        for tensor in expected:
            write(folder, written, "output", to_array(tensor))
        written += 1
    return notes if written else [*notes, "NO DATA"]


def write_dims(folder, subject, model):
    dims = {}
    for value in model.graph.input:
        shape, _ = subject.inputs[value.name]
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dims[dim.dim_param or f"{value.name}_{k}"] = list(BOUNDS[shape[k]])
    if dims:
        with open(os.path.join(folder, "dims.json"), "w") as file:
            json.dump(dims, file)


def run_case(job):
    out, name, subject_name, exporter, opset, dynamic, dtype_name, size = job
    import onnx
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    path = os.path.join(folder, "model.onnx")
    log = sys.stdout
    try:
        with open(os.devnull, "w") as null:
            sys.stdout = sys.stderr = null
            try:
                dtype = getattr(torch, dtype_name)
                subject = subjects(size)[subject_name]()
                subject.module.to(dtype)
                data_sets = SIZES if dynamic else SIZES[:1]
                example = make_inputs(subject, sizes_of(SIZES[0]), dtype, 0)
                export(subject, example, path, exporter, opset, dynamic)
                model = without_traces(onnx.load(path))
                onnx.save(model, path)
                notes = write_data_sets(folder, subject, model, data_sets, dtype)
                write_dims(folder, subject, model)
            finally:
                sys.stdout, sys.stderr = log, sys.__stderr__
        print(f"written {name} {'; '.join(notes)}", flush=True)
        return "NO DATA" not in notes
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        reason = (str(error).strip().splitlines() or [""])[0][:160]
        print(f"NOT EXPORTED {name}: {type(error).__name__}: {reason}", flush=True)
        if os.environ.get("EXPORT_TRACEBACK"):
            traceback.print_exc()
        return False


# (exporter, operator set, dynamic axes?, element type), by how attention is written.
WAYS = {
    "sdpa": [
        ("dynamo", 18, True, "float32"),
        ("dynamo", 20, False, "float32"),
        ("dynamo", 20, True, "float16"),
        ("dynamo", 23, True, "float32"),
        ("script", 17, True, "float32"),
    ],
    "eager": [
        ("dynamo", 20, True, "float32"),
        ("dynamo", 23, True, "bfloat16"),
        ("script", 14, True, "float32"),
        ("script", 17, False, "float32"),
        ("script", 17, True, "float16"),
    ],
}


def ways_of(subject):
    known = [way for attention, ways in WAYS.items() if subject.endswith(attention) for way in ways]
    return known or WAYS["sdpa"] + WAYS["eager"]


# The cases of the repository: one per exporter idiom that matters, as small as they get.
SMALLEST = [
    ("gpt2_sdpa", ("dynamo", 18, True, "float32")),
    ("llama_past_sdpa", ("dynamo", 20, True, "float32")),
    ("llama_past_eager", ("script", 17, True, "float32")),
    ("bert_sdpa", ("dynamo", 23, True, "float32")),
    ("t5_encoder_eager", ("script", 14, True, "float32")),
    ("qwen2_sdpa", ("dynamo", 23, True, "float16")),
    ("torch_encoder", ("dynamo", 20, True, "float32")),
    ("torch_decoder", ("script", 17, False, "float32")),
]


def case_name(subject, way):
    exporter, opset, dynamic, dtype = way
    suffix = {"float32": "", "float16": "_f16", "bfloat16": "_bf16"}[dtype]
    return f"{subject}-{exporter}{opset}-{'dynamic' if dynamic else 'static'}{suffix}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument(
        "--only", nargs="*", default=["*"], help="patterns of case names, in the order to write them in"
    )
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--smallest", action="store_true", help="the cases of the repository")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()

    if args.smallest:
        size = Size(hidden=8, heads=2, kv_heads=1, layers=1)
        pairs = SMALLEST
    else:
        size = Size(layers=args.layers)
        pairs = [(s, w) for s in subjects(size) for w in ways_of(s)]
    jobs = {}
    for pattern in args.only:
        for subject, way in pairs:
            name = case_name(subject, way)
            if fnmatch.fnmatch(name, pattern):
                jobs.setdefault(name, (args.out, name, subject, *way, size))
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        results = pool.map(run_case, jobs.values(), chunksize=1)
    print(f"{sum(results)} of {len(jobs)} cases written")


if __name__ == "__main__":
    main()
