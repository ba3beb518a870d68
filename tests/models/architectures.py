"""The architectures that export_architectures.py exports: small ones with random weights, from torch, torchvision, timm and
transformers. Needs these packages; nothing here runs in the tests."""

import dataclasses


@dataclasses.dataclass
class Architecture:
    """A module and how to call it.

    An input is (shape in names and numbers, values): "normal", "mask" (zero at the end of the last row), or the limit of
    integers. `dims` has the bounds of the named dimensions; the first of `sizes` is the exporter's example.
    """

    module: object
    inputs: dict
    outputs: list
    dims: dict
    sizes: list


IMAGE = {"image": (("batch", 3, "height", "width"), "normal")}


def of_batch(*sizes):
    return dict(dims={"batch": (1, 4)}, sizes=[dict(batch=b) for b in sizes])


def of_pixels(*sizes):
    """`sizes`: batch, height, width."""

    def bound(k):
        return (min(s[k] for s in sizes), max(s[k] for s in sizes))

    return dict(
        dims={"batch": (1, 4), "height": bound(1), "width": bound(2)},
        sizes=[dict(batch=b, height=h, width=w) for b, h, w in sizes],
    )


def of_length(name="length", bound=(1, 16), sizes=((2, 5), (3, 9), (1, 16))):
    return dict(dims={"batch": (1, 4), name: bound}, sizes=[{"batch": b, name: n} for b, n in sizes])


def fixed(shape, values="normal"):
    return {"image": (shape, values)}


def randomised(module):
    """The module with weights for which signals keep their scale and no part of the network does nothing."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def normal(t):
        return torch.randn(t.shape, generator=generator)

    def uniform(t):
        return torch.rand(t.shape, generator=generator)

    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            last = name.rsplit(".", 1)[-1]
            if not tensor.is_floating_point() or last in ("A_log", "inv_freq", "original_inv_freq"):
                continue
            if last == "running_var" or (last in ("weight", "D", "layer_scale_parameter") and tensor.dim() == 1):
                tensor.copy_(0.5 + uniform(tensor))
            elif isinstance(tensor, torch.nn.Parameter) and tensor.dim() > 1:
                fan_in = tensor[0].numel()
                tensor.copy_(normal(tensor) * fan_in**-0.5)
            elif isinstance(tensor, torch.nn.Parameter) or last == "running_mean":
                tensor.copy_(0.1 * normal(tensor))
    return module


def called(module, names, call):
    """A module whose parameters are `names`, as torch.export requires, and which returns call(module, *arguments)."""
    import torch

    class Called(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def run(self, *arguments):
            return call(self.module, *arguments)

    scope = {}
    exec(f"def forward(self, {', '.join(names)}):\n    return self.run({', '.join(names)})\n", scope)
    Called.forward = scope["forward"]
    return Called().eval()


def architecture(module, inputs, outputs, call, dims, sizes):
    module = randomised(module.eval())
    return Architecture(called(module, list(inputs), call), inputs, outputs, dims, sizes)


# ---- vision


def vit():
    import transformers

    config = transformers.ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
        num_labels=7,
    )
    return architecture(
        transformers.ViTForImageClassification(config),
        fixed(("batch", 3, 32, 32)),
        ["logits"],
        lambda m, x: (m(pixel_values=x).logits,),
        **of_batch(2, 3, 1),
    )


def vit_resized():
    """Positions are interpolated to the size of the image."""
    import transformers

    config = transformers.ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
        num_labels=7,
    )
    return architecture(
        transformers.ViTForImageClassification(config),
        IMAGE,
        ["logits"],
        lambda m, x: (m(pixel_values=x, interpolate_pos_encoding=True).logits,),
        **of_pixels((2, 48, 40), (1, 24, 64), (3, 64, 24)),
    )


def swin():
    import transformers

    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=7
    )
    config._attn_implementation = "eager"  # torch.export fails with the other
    return architecture(
        transformers.SwinForImageClassification(config),
        fixed(("batch", 3, 32, 32)),
        ["logits"],
        lambda m, x: (m(pixel_values=x).logits,),
        **of_batch(2, 3, 1),
    )


def swin_v2():
    import timm

    module = timm.create_model(
        "swinv2_cr_tiny_224",
        img_size=32,
        patch_size=2,
        embed_dim=16,
        depths=(2, 2),
        num_heads=(2, 4),
        window_size=4,
        num_classes=7,
    )
    return architecture(module, fixed(("batch", 3, 32, 32)), ["logits"], lambda m, x: (m(x),), **of_batch(2, 3, 1))


CLIP_LAYERS = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)


def clip():
    import transformers

    config = transformers.CLIPConfig(
        text_config=dict(
            CLIP_LAYERS, vocab_size=40, max_position_embeddings=16, eos_token_id=39, bos_token_id=1, pad_token_id=0
        ),
        vision_config=dict(CLIP_LAYERS, image_size=32, patch_size=8),
        projection_dim=16,
    )
    inputs = {
        "text": (("texts", "length"), 40),
        "mask": (("texts", "length"), "mask"),
        "image": (("batch", 3, 32, 32), "normal"),
    }

    def call(m, text, mask, image):
        out = m(input_ids=text, attention_mask=mask, pixel_values=image)
        return out.logits_per_image, out.text_embeds

    return architecture(
        transformers.CLIPModel(config),
        inputs,
        ["logits", "text_embeds"],
        call,
        dims={"batch": (1, 4), "texts": (1, 4), "length": (2, 16)},
        sizes=[dict(batch=2, texts=3, length=7), dict(batch=1, texts=4, length=16), dict(batch=3, texts=2, length=3)],
    )


RESNET = dict(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic")


def resnet():
    import transformers

    return architecture(
        transformers.ResNetForImageClassification(transformers.ResNetConfig(**RESNET, num_labels=7)),
        IMAGE,
        ["logits"],
        lambda m, x: (m(pixel_values=x).logits,),
        **of_pixels((2, 32, 48), (1, 64, 40), (3, 33, 35)),
    )


def detr():
    import transformers

    backbone = transformers.ResNetConfig(**RESNET, out_features=["stage4"])
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_queries=5,
        num_labels=6,
    )

    def call(m, image):
        out = m(pixel_values=image)
        return out.logits, out.pred_boxes

    return architecture(
        transformers.DetrForObjectDetection(config),
        IMAGE,
        ["logits", "boxes"],
        call,
        **of_pixels((2, 64, 96), (1, 96, 64), (3, 65, 80)),
    )


def segformer():
    import transformers

    config = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
        mlp_ratios=[2, 2, 2, 2],
        decoder_hidden_size=16,
        num_labels=4,
    )
    return architecture(
        transformers.SegformerForSemanticSegmentation(config),
        IMAGE,
        ["logits"],
        lambda m, x: (m(pixel_values=x).logits,),
        **of_pixels((2, 64, 96), (1, 32, 32), (1, 48, 80)),
    )


def convnext():
    import transformers

    config = transformers.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], num_labels=7)
    return architecture(
        transformers.ConvNextForImageClassification(config),
        IMAGE,
        ["logits"],
        lambda m, x: (m(pixel_values=x).logits,),
        **of_pixels((2, 64, 96), (1, 48, 80), (3, 33, 35)),
    )


def densenet():
    import torchvision

    module = torchvision.models.DenseNet(growth_rate=4, block_config=(2, 2, 2), num_init_features=8, num_classes=7)
    return architecture(module, IMAGE, ["logits"], lambda m, x: (m(x),), **of_pixels((2, 32, 48), (1, 64, 40), (3, 33, 35)))


def big_transfer():
    """Convolutions with standardised weights, and pads that keep the size."""
    import transformers

    config = transformers.BitConfig(
        embedding_size=8, hidden_sizes=[32, 32, 32, 64], depths=[1, 1, 1, 1], global_padding="SAME", num_groups=4, num_labels=7
    )
    return architecture(
        transformers.BitForImageClassification(config),
        IMAGE,
        ["logits"],
        lambda m, x: (m(pixel_values=x).logits,),
        **of_pixels((2, 64, 96), (3, 64, 96), (1, 64, 96)),
    )


def mobilevit():
    """Rounds the size of the image up to whole patches."""
    import transformers

    config = transformers.MobileViTConfig(
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 16, 24, 64],
        num_attention_heads=2,
        image_size=64,
        patch_size=2,
        num_labels=7,
    )
    return architecture(
        transformers.MobileViTForImageClassification(config),
        fixed(("batch", 3, "height", 64)),
        ["logits"],
        lambda m, x: (m(pixel_values=x).logits,),
        dims={"batch": (1, 4), "height": (64, 96)},
        sizes=[dict(batch=2, height=64), dict(batch=3, height=64), dict(batch=1, height=64)],
    )


def rt_detr():
    """Float ranges over the size of the image; the best queries by TopK; deformable attention by GridSample."""
    import transformers

    backbone = transformers.RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = transformers.RTDetrConfig(
        backbone_config=backbone,
        encoder_hidden_dim=32,
        encoder_in_channels=[16, 24, 32],
        encoder_ffn_dim=32,
        encoder_attention_heads=4,
        d_model=32,
        num_queries=6,
        decoder_in_channels=[32, 32, 32],
        decoder_ffn_dim=32,
        decoder_layers=2,
        decoder_attention_heads=4,
        num_labels=4,
        num_denoising=0,
        anchor_image_size=None,
    )

    def call(m, image):
        out = m(pixel_values=image)
        return out.logits, out.pred_boxes

    return architecture(
        transformers.RTDetrForObjectDetection(config),
        IMAGE,
        ["logits", "boxes"],
        call,
        **of_pixels((2, 64, 96), (1, 96, 64), (3, 64, 64)),
    )


def mobilenet_v3():
    import torchvision

    module = torchvision.models.mobilenet_v3_small(width_mult=0.25, num_classes=7)
    return architecture(module, IMAGE, ["logits"], lambda m, x: (m(x),), **of_pixels((2, 32, 48), (1, 64, 40), (3, 33, 35)))


def efficientnet():
    import transformers

    config = transformers.EfficientNetConfig(width_coefficient=0.25, depth_coefficient=0.3, num_labels=7, hidden_dim=320)
    return architecture(
        transformers.EfficientNetForImageClassification(config),
        IMAGE,
        ["logits"],
        lambda m, x: (m(pixel_values=x).logits,),
        **of_pixels((2, 64, 96), (1, 64, 40), (3, 33, 35)),
    )


def unet():
    """As diffusion models have it: group norms, a time step, attention at the bottom, interpolation on the way up."""
    import math

    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self, channels, filters):
            super().__init__()
            self.norm, self.conv = nn.GroupNorm(4, channels), nn.Conv2d(channels, filters, 3, padding=1)
            self.time = nn.Linear(32, filters)
            self.out_norm, self.out = nn.GroupNorm(4, filters), nn.Conv2d(filters, filters, 3, padding=1)
            self.shortcut = nn.Conv2d(channels, filters, 1)

        def forward(self, x, time):
            y = self.conv(F.silu(self.norm(x))) + self.time(F.silu(time))[:, :, None, None]
            return self.shortcut(x) + self.out(F.silu(self.out_norm(y)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(16, 32)
            self.begin = nn.Conv2d(3, 8, 3, padding=1)
            self.down = nn.ModuleList([Block(8, 8), Block(8, 16)])
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
            self.up = nn.ModuleList([Block(32, 8), Block(16, 8)])
            self.end = nn.Conv2d(8, 3, 3, padding=1)

        def forward(self, x, step):
            rates = torch.exp(-math.log(10000) * torch.arange(8, dtype=torch.float32) / 8)
            angles = step[:, None].to(torch.float32) * rates[None]
            time = self.embed(torch.cat([angles.sin(), angles.cos()], dim=-1))
            x, kept = self.begin(x), []
            for block in self.down:
                x = block(x, time)
                kept.append(x)
                x = F.avg_pool2d(x, 2)
            batch, channels, height, width = x.shape
            tokens = x.flatten(2).transpose(1, 2)
            tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
            x = tokens.transpose(1, 2).reshape(batch, channels, height, width)
            for block in self.up:
                skip = kept.pop()
                x = F.interpolate(x, size=skip.shape[-2:], mode="nearest")
                x = block(torch.cat([x, skip], dim=1), time)
            return (self.end(F.silu(x)),)

    inputs = {**IMAGE, "step": (("batch",), 1000)}
    return architecture(Net(), inputs, ["noise"], lambda m, x, t: m(x, t), **of_pixels((2, 16, 24), (1, 32, 16), (1, 24, 20)))


# ---- speech

WHISPER = dict(
    d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
    decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=16, max_target_positions=32, vocab_size=40, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
)  # fmt: skip


def whisper_encoder():
    import transformers

    model = transformers.WhisperModel(transformers.WhisperConfig(**WHISPER))
    return architecture(
        model.encoder,
        {"features": (("batch", 8, 32), "normal")},
        ["hidden"],
        lambda m, x: (m(x).last_hidden_state,),
        **of_batch(2, 3, 1),
    )


def whisper_decoder():
    """One step with a cache: keys and values of the decoder, and those of the encoder's positions."""
    import torch
    import transformers

    config = transformers.WhisperConfig(**WHISPER)
    model = transformers.WhisperForConditionalGeneration(config)
    names = [f"past_{k}_{what}" for k in range(config.decoder_layers) for what in ("key", "value")]
    inputs = {
        "tokens": (("batch", "length"), 40),
        "memory": (("batch", "frames", 32), "normal"),
        **{n: (("batch", 4, "past", 8), "normal") for n in names},
    }

    def call(m, tokens, memory, *past):
        own, cross = transformers.DynamicCache(), transformers.DynamicCache()
        for k in range(config.decoder_layers):
            own.update(past[2 * k], past[2 * k + 1], k)
        cache = transformers.EncoderDecoderCache(own, cross)
        first = past[0].shape[2]
        positions = torch.arange(first, first + tokens.shape[1])[None]
        out = m.model.decoder(
            input_ids=tokens, encoder_hidden_states=memory, past_key_values=cache, position_ids=positions, use_cache=True
        )
        layers = out.past_key_values.self_attention_cache.layers
        return (m.proj_out(out.last_hidden_state), *[t for layer in layers for t in (layer.keys, layer.values)])

    return architecture(
        model,
        inputs,
        ["logits", *[n.replace("past", "present") for n in names]],
        call,
        dims={"batch": (1, 4), "length": (1, 8), "frames": (1, 16), "past": (1, 12)},
        sizes=[
            dict(batch=2, length=3, frames=6, past=4),
            dict(batch=1, length=5, frames=16, past=12),
            dict(batch=3, length=2, frames=9, past=2),
        ],
    )


def wav2vec2():
    import transformers

    config = transformers.Wav2Vec2Config(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        conv_dim=(16, 16, 16),
        conv_kernel=(10, 3, 2),
        conv_stride=(5, 2, 2),
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        vocab_size=12,
        feat_extract_norm="group",
    )
    return architecture(
        transformers.Wav2Vec2ForCTC(config),
        {"samples": (("batch", "length"), "normal")},
        ["logits"],
        lambda m, x: (m(x).logits,),
        **of_length(bound=(40, 800), sizes=((2, 400), (1, 800), (3, 337))),
    )


# ---- sequences


def tagger(kind):
    import torch

    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(50, 16)
            self.layers = getattr(torch.nn, kind)(16, 16, num_layers=2, bidirectional=True, batch_first=True)
            self.score = torch.nn.Linear(32, 6)

        def forward(self, words):
            return (self.score(self.layers(self.embed(words))[0]),)

    return architecture(Tagger(), {"words": (("batch", "length"), 50)}, ["scores"], lambda m, x: m(x), **of_length())


def lstm_tagger():
    return tagger("LSTM")


def gru_tagger():
    return tagger("GRU")


MAMBA = dict(hidden_size=16, num_hidden_layers=2, state_size=4, vocab_size=40, time_step_rank=4)


def mamba():
    """The exporters unroll the recurrence over the length."""
    import transformers

    config = transformers.MambaConfig(**MAMBA, use_cache=False)
    return architecture(
        transformers.MambaForCausalLM(config),
        {"tokens": (("batch", 6), 40)},
        ["logits"],
        lambda m, x: (m(input_ids=x).logits,),
        **of_batch(2, 3, 1),
    )


def mamba_associative():
    """The recurrence as torch's associative scan; torch.export takes the length as fixed."""
    import transformers

    config = transformers.MambaConfig(**MAMBA, use_cache=False, use_associative_scan=True)
    return architecture(
        transformers.MambaForCausalLM(config),
        {"tokens": (("batch", 7), 40)},
        ["logits"],
        lambda m, x: (m(input_ids=x).logits,),
        **of_batch(2, 3, 1),
    )


def state_space_scan():
    """A selective state space layer whose recurrence is torch's scan, which becomes ONNX's Scan: Braid copies its body, so the
    length is fixed."""
    import torch
    from torch._higher_order_ops.scan import scan

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(40, 16)
            self.rate, self.gates = torch.nn.Linear(16, 16), torch.nn.Linear(16, 8)
            self.A_log = torch.nn.Parameter(torch.log(torch.arange(1, 5).to(torch.float32)).repeat(16, 1))
            self.head = torch.nn.Linear(16, 40)

        def forward(self, tokens):
            x = self.embed(tokens)
            step = torch.nn.functional.softplus(self.rate(x))
            enter, leave = self.gates(x).chunk(2, dim=-1)
            decay = torch.exp(step[..., None] * -torch.exp(self.A_log))
            entering = (step * x)[..., None] * enter[:, :, None, :]

            def advance(state, inputs):
                decay, entering, leave = inputs
                state = decay * state + entering
                return state, (state * leave[:, None, :]).sum(-1)

            first = [t.transpose(0, 1) for t in (decay, entering, leave)]
            _, y = scan(advance, torch.zeros((2, 16, 4)), first)
            return (self.head(y.transpose(0, 1) + x),)

    return architecture(Layer(), {"tokens": ((2, 9), 40)}, ["logits"], lambda m, x: m(x), dims={}, sizes=[{}])


EXPERTS = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
    vocab_size=40,
    num_experts_per_tok=2,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)


def experts(kind):
    """Each token gathers the weights of its experts: the form that exporters can take. In the other, each expert gathers its
    tokens, whose number depends on data, which Braid refuses."""
    import transformers

    if kind == "mixtral":
        config = transformers.MixtralConfig(**EXPERTS, intermediate_size=48, num_local_experts=4)
        model = transformers.MixtralForCausalLM
    else:
        config = transformers.Qwen3MoeConfig(
            **EXPERTS, intermediate_size=48, moe_intermediate_size=24, num_experts=6, head_dim=8, norm_topk_prob=True
        )
        model = transformers.Qwen3MoeForCausalLM
    config.use_cache = False
    config._experts_implementation = "batched_mm"
    inputs = {"tokens": (("batch", "length"), 40), "mask": (("batch", "length"), "mask")}
    return architecture(
        model(config),
        inputs,
        ["logits"],
        lambda m, x, mask: (m(input_ids=x, attention_mask=mask, use_cache=False).logits,),
        **of_length(),
    )


def mixtral():
    return experts("mixtral")


def qwen_moe():
    return experts("qwen")


def dense_experts():
    """Every expert sees every token; those that were not chosen have the weight 0."""
    import torch
    from torch import nn

    class Experts(nn.Module):
        def __init__(self, count=4, hidden=16, inner=24, chosen=2):
            super().__init__()
            self.count, self.chosen = count, chosen
            self.embed = nn.Embedding(40, hidden)
            self.router = nn.Linear(hidden, count)
            self.up = nn.Parameter(torch.empty(count, hidden, inner))
            self.down = nn.Parameter(torch.empty(count, inner, hidden))
            self.head = nn.Linear(hidden, 40)

        def forward(self, tokens):
            x = self.embed(tokens)
            best, which = torch.topk(torch.softmax(self.router(x), -1), self.chosen, dim=-1)
            best = best / best.sum(-1, keepdim=True)
            weights = (nn.functional.one_hot(which, self.count).to(x.dtype) * best[..., None]).sum(-2)
            inner = nn.functional.silu(torch.einsum("blh,ehi->beli", x, self.up))
            y = torch.einsum("beli,eih->bleh", inner, self.down)
            return (self.head(x + (y * weights[..., None]).sum(2)),)

    return architecture(Experts(), {"tokens": (("batch", "length"), 40)}, ["logits"], lambda m, x: m(x), **of_length())


ARCHITECTURES = {
    f.__name__: f
    for f in (
        vit, vit_resized, swin, swin_v2, clip, resnet, detr, segformer, convnext, densenet, big_transfer, mobilevit, rt_detr, mobilenet_v3, efficientnet, unet,
        whisper_encoder, whisper_decoder, wav2vec2, lstm_tagger, gru_tagger, mamba, mamba_associative, state_space_scan,
        mixtral, qwen_moe, dense_experts,
    )
}  # fmt: skip
