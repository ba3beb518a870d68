"""The models that export_torch.py exports: tiny transformers with random weights, from transformers and from torch itself."""

from dataclasses import dataclass, field

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
