"""Attention operators of com.microsoft and what rotates their heads."""

import ml_dtypes
import numpy as np
from reference_case import Case, array, integers, maybe, pick, sometimes, uniform

DOMAIN = "com.microsoft"
OPSET = 17
TYPES = [np.float32, np.float32, np.float16, ml_dtypes.bfloat16]


def heads_of(x, heads):
    """(batch, sequence, hidden) as (batch, heads, sequence, size)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def hidden_of(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def scores_of(q, k, scale, softcap=0.0):
    """Row by row; a head of the key serves several heads of the query."""
    shared = q.shape[1] // k.shape[1]
    scores = np.zeros((*q.shape[:3], k.shape[2]))
    for b, n, s, t in np.ndindex(*scores.shape):
        x = scale * float(np.dot(q[b, n, s], k[b, n // shared, t]))
        scores[b, n, s, t] = softcap * np.tanh(x / softcap) if softcap else x
    return scores


def weighted(scores, v, sinks=None):
    shared = scores.shape[1] // v.shape[1]
    y = np.zeros((*scores.shape[:3], v.shape[3]))
    for b, n, s in np.ndindex(*y.shape[:3]):
        row = scores[b, n, s]
        if np.all(np.isneginf(row)):
            continue
        logits = row if sinks is None else np.append(row, sinks[n])
        weights = np.exp(logits - logits.max())
        y[b, n, s] = (weights / weights.sum())[: len(row)] @ v[b, n // shared]
    return y


def causal(scores, past):
    """-inf where the key is after the query, whose first one stands at `past`."""
    scores = scores.copy()
    for s, t in np.ndindex(*scores.shape[2:]):
        if t > past + s:
            scores[:, :, s, t] = -np.inf
    return scores


def rotated(x, cos, sin, rows, interleaved):
    """Pairs of elements of (batch, heads, sequence, size) turned by the angles in the rows (batch, sequence) of the caches."""
    y = x.copy()
    half = cos.shape[1]
    for b, n, s, j in np.ndindex(*x.shape[:3], half):
        first, second = (2 * j, 2 * j + 1) if interleaved else (j, j + half)
        c, d = cos[rows[b, s], j], sin[rows[b, s], j]
        y[b, n, s, first] = x[b, n, s, first] * c - x[b, n, s, second] * d
        y[b, n, s, second] = x[b, n, s, second] * c + x[b, n, s, first] * d
    return y


def rotary_embedding(rng):
    dtype = pick(rng, TYPES)
    batch, heads, length = integers(rng, 1, 3, 3)
    size, attributes = 2 * int(rng.integers(1, 5)), {}
    interleaved = maybe(rng, attributes, "interleaved", int(rng.integers(2)), 0)
    turned, split = size, bool(rng.integers(2))
    if rng.integers(2):
        turned = 2 * int(rng.integers(1, size // 2 + 1))
        attributes.update(rotary_embedding_dim=turned, num_heads=heads)
    elif split and rng.integers(2):
        attributes.update(num_heads=heads)
    if rng.integers(3) == 0:
        attributes["scale"] = 2.0  # has no effect
    rows = length + int(rng.integers(1, 5))
    x = array(rng, dtype, (batch, length, heads * size) if split else (batch, heads, length, size))
    offset = rng.integers(2) == 0
    positions = rng.integers(0, rows - length + 1, 1) if offset else rng.integers(0, rows, (batch, length))
    caches = [array(rng, dtype, (rows, turned // 2)) for _ in range(2)]

    def expected(x, positions, cos, sin):
        at = np.tile(positions[0] + np.arange(length), (batch, 1)) if offset else positions
        y = rotated(heads_of(x, heads) if split else x, cos, sin, at, interleaved)
        return hidden_of(y) if split else y

    return Case("RotaryEmbedding", OPSET, [x, positions.astype(np.int64), *caches], attributes, expected=expected,
                constants=sometimes(rng, (2, 3), 2), dynamic=sometimes(rng, ((0, 0),)), domain=DOMAIN,
                runtime_version=OPSET)  # fmt: skip


def a_mask(rng, batch, length, total, forms):
    """A mask and what it adds for (batch, 1, sequence or 1, total), as a multiple of the filter."""
    form = pick(rng, forms)
    t = np.arange(total)
    if form is None:
        return None, np.zeros((batch, 1, 1, total))
    if form in ("ends", "ranges", "packed"):
        ends = rng.integers(1, total + 1, batch)
        starts = np.array([rng.integers(0, end) for end in ends])
        masked = t[None] >= ends[:, None]
        if form == "ranges":
            masked |= t[None] < starts[:, None]
        mask = {"ends": ends, "ranges": np.concatenate([ends, starts]),
                "packed": np.concatenate([ends, np.arange(2 * batch + 2)])}[form]  # fmt: skip
        return mask.astype(np.int32), masked[:, None, None].astype(np.float64)
    shape = {"keys": (batch, total), "square": (batch, length, total), "none": (batch, 1)}[form]
    mask = rng.integers(-1, 3, shape).astype(np.int32)
    if form == "none":
        return mask, np.zeros((batch, 1, 1, total))
    mask[..., 0] = 1
    masked = (mask <= 0).astype(np.float64)
    return mask, masked[:, None, None] if form == "keys" else masked[:, None]


def a_bias(rng, dtype, batch, heads, length, total):
    """Of the scores; or None."""
    if rng.integers(3):
        return None
    return array(rng, dtype, (batch if rng.integers(2) else 1, heads if rng.integers(2) else 1, length, total))


def a_scale(rng, attributes, size):
    return maybe(rng, attributes, "scale", float(rng.uniform(0.1, 1.0)), 0.0) or 1 / np.sqrt(size)


def a_filter(rng, attributes):
    return maybe(rng, attributes, "mask_filter_value", float(-rng.uniform(1, 20)), -10000.0)


def multi_head_attention(rng):
    dtype = pick(rng, TYPES)
    batch, heads, length = integers(rng, 1, 3, 3)
    size, value_size = integers(rng, 1, 5, 2)
    layout = pick(rng, ["three", "three", "three", "packed", "packed_keys", "cache"])
    keys = length if layout == "packed" or rng.integers(2) else int(rng.integers(1, 6))
    if layout.startswith("packed"):
        value_size = size
    attributes = dict(num_heads=heads)
    scale, filler = a_scale(rng, attributes, size), a_filter(rng, attributes)
    # ONNX Runtime lets the last query attend to all keys, which is the same if there are as many keys as queries.
    causal_too = maybe(rng, attributes, "unidirectional", int(rng.integers(2)), 0) if keys == length else 0
    past = int(rng.integers(0, 4)) if layout != "cache" and rng.integers(2) else None
    total = keys + (past or 0)
    mask, masked = a_mask(rng, batch, length, total, [None, None, "ends", "packed", "keys", "square"])
    bias = array(rng, dtype, (heads * (2 * size + value_size),)) if rng.integers(2) else None
    inputs = {
        "three": lambda: [(batch, length, heads * size), (batch, keys, heads * size), (batch, keys, heads * value_size)],
        "packed": lambda: [(batch, length, heads, 3, size), None, None],
        "packed_keys": lambda: [(batch, length, heads * size), (batch, keys, heads, 2, size), None],
        "cache": lambda: [(batch, length, heads * size), (batch, heads, keys, size), (batch, heads, keys, value_size)],
    }[layout]()
    inputs = [None if shape is None else array(rng, dtype, shape) for shape in inputs]
    pasts = [None, None]
    if past is not None:
        pasts = [array(rng, dtype, (batch, heads, past, n)) for n in (size, value_size)]
    outputs = 3 if past is not None or rng.integers(2) else 1
    if outputs == 3 and dtype == np.float32 and rng.integers(3) == 0:
        outputs = 4

    def expected(q, k=None, v=None, bias=None, mask=None, score_bias=None, past_key=None, past_value=None):
        if layout == "packed":
            q, k, v = (q[:, :, :, i].reshape(batch, length, -1) for i in range(3))
        elif layout == "packed_keys":
            k, v = (k[:, :, :, i].reshape(batch, keys, -1) for i in range(2))
        if bias is not None:
            of_q, of_k, of_v = np.split(bias, [heads * size, 2 * heads * size])
            q = q + of_q
            if layout != "cache":
                k, v = k + of_k, v + of_v
        q = heads_of(q, heads)
        if layout != "cache":
            k, v = heads_of(k, heads), heads_of(v, heads)
        if past_key is not None:
            k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
        scores = scores_of(q, k, scale) + filler * masked + (0 if score_bias is None else score_bias)
        if causal_too:
            scores = causal(scores, past or 0)
        shown = np.maximum(scores, np.finfo(np.float32).min)
        return hidden_of(weighted(scores, v)), k, v, shown

    inputs = [*inputs, bias, mask, a_bias(rng, dtype, batch, heads, length, total), *pasts]
    one_size = value_size == size or (past is None and layout != "cache")
    known = one_size and not layout.startswith("packed") and outputs != 4
    return Case("MultiHeadAttention", OPSET, inputs, attributes, outputs=outputs, expected=expected, domain=DOMAIN,
                constants=sometimes(rng, (3,), 2), dynamic=sometimes(rng, ((0, 1),) if layout == "three" and keys != length
                                                                     and mask is None and inputs[5] is None else ()),
                runtime_version=OPSET if known else None)  # fmt: skip


def fused_attention(rng):
    dtype = pick(rng, TYPES)
    batch, heads, length = integers(rng, 1, 3, 3)
    size, wide = integers(rng, 1, 5, 2)
    value_size, attributes = size, dict(num_heads=heads)
    past = int(rng.integers(0, 4)) if rng.integers(2) else None
    if past is None and rng.integers(3) == 0:
        value_size = int(rng.integers(1, 5))
        attributes["qkv_hidden_sizes"] = [heads * size, heads * size, heads * value_size]
    rotary = rng.integers(5) == 0 and size % 2 == 0
    if rotary:
        attributes["do_rotary"] = 1
    scale, filler = a_scale(rng, attributes, size), a_filter(rng, attributes)
    causal_too = maybe(rng, attributes, "unidirectional", int(rng.integers(2)), 0)
    total = length + (past or 0)
    mask, masked = a_mask(rng, batch, length, total, [None, "ends", "ranges", "packed", "keys", "square", "none"])
    columns = heads * (2 * size + value_size)
    # ONNX Runtime crashes without a bias, and with a present that no past belongs to.
    bias = array(rng, dtype, (columns,)) if rng.integers(4) else None
    present = past is not None or (value_size == size and rng.integers(4) == 0)

    def expected(x, w, bias=None, mask=None, past_kv=None, score_bias=None):
        all_three = x @ w + (0 if bias is None else bias)
        q, k, v = (heads_of(part, heads) for part in np.split(all_three, [heads * size, 2 * heads * size], axis=-1))
        if rotary:
            positions = np.tile((past or 0) + np.arange(length), (batch, 1))
            angles = np.arange(total)[:, None] / 10000.0 ** (np.arange(0, size, 2) / size)[None]
            q, k = (rotated(part, np.cos(angles), np.sin(angles), positions, False) for part in (q, k))
        if past_kv is not None:
            k, v = np.concatenate([past_kv[0], k], 2), np.concatenate([past_kv[1], v], 2)
        scores = scores_of(q, k, scale) + filler * masked + (0 if score_bias is None else score_bias)
        if causal_too:
            scores = causal(scores, past or 0)
        return hidden_of(weighted(scores, v)), *([np.stack([k, v])] if present else [])

    score_bias = a_bias(rng, dtype, batch, heads, length, total)
    # Projections of half types are rounded, which large scores would show.
    inputs = [array(rng, dtype, (batch, length, wide)), uniform(rng, dtype, (wide, columns), -0.5, 0.5), bias, mask,
              None if past is None else array(rng, dtype, (2, batch, heads, past, size)), score_bias]  # fmt: skip
    known = bias is not None and not rotary and (score_bias is None if past is not None else not present)
    return Case("Attention", OPSET, inputs, attributes, outputs=2 if present else 1, expected=expected, domain=DOMAIN,
                constants=sometimes(rng, (1, 2), 2), runtime_version=OPSET if known else None)  # fmt: skip


def group_query_attention(rng):
    dtype = pick(rng, TYPES)
    heads_of_key, shared = integers(rng, 1, 2, 2)
    heads, size = heads_of_key * shared, 16  # ONNX Runtime rotates multiples of 8 pairs
    attributes = dict(num_heads=heads, kv_num_heads=heads_of_key)
    scale = a_scale(rng, attributes, size)
    softcap = maybe(rng, attributes, "softcap", float(rng.uniform(0.5, 2)), 0.0)
    bidirectional = rng.integers(5) == 0
    if bidirectional:
        attributes["causal"] = 0
    window = -1 if bidirectional else maybe(rng, attributes, "local_window_size", int(pick(rng, [-1, 1, 2, 3])), -1)
    step = pick(rng, ["prompt", "prompt", "decode", "decode", "several"])
    batch = 1 if step == "several" else int(rng.integers(1, 4))
    length = 1 if step == "decode" else int(rng.integers(1 if step == "prompt" else 2, 5))
    lasts = rng.integers(1, 6, batch) if step == "decode" else rng.integers(length, length + 4, batch)
    if step == "prompt":  # the end of a row may be padding
        lasts = rng.integers(0, length, batch)
        lasts[rng.integers(batch)] = length - 1
    total = int(lasts.max()) + 1
    # A cache has room, or exactly the past; a prompt may have none.
    past = {"none": None, "exact": total - length, "room": total + int(rng.integers(0, 3))}[
        pick(rng, ["none", "room"] if step == "prompt" else ["exact", "room"])]  # fmt: skip
    capacity = total if past is None else max(past, total)
    rotary = maybe(rng, attributes, "do_rotary", int(rng.integers(2)), 0)
    interleaved = maybe(rng, attributes, "rotary_interleaved", int(rng.integers(2)), 0) if rotary else 0
    sink = pick(rng, [None, None, None, "smooth", "heads"])
    if sink == "smooth":
        attributes["smooth_softmax"] = 1
    packed = rng.integers(2) == 0
    hidden = (heads + 2 * heads_of_key) * size if packed else heads * size
    positions = rng.integers(0, 12, (batch, length)) if rotary and rng.integers(3) == 0 else None
    if positions is not None and step == "prompt":
        positions[0, 0] = rng.integers(0, 3)
    begins = np.zeros(batch, np.int64) if step == "prompt" else lasts + 1 - length

    def normal(x, weight):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight

    def expected(q, k, v, past_key, past_value, lasts, total_length, cos=None, sin=None, positions=None, score_bias=None,
                 sinks=None, k_scale=None, v_scale=None, q_norm=None, k_norm=None):  # fmt: skip
        if packed:
            q, k, v = np.split(q, [heads * size, (heads + heads_of_key) * size], axis=-1)
        q, k, v = heads_of(q, heads), heads_of(k, heads_of_key), heads_of(v, heads_of_key)
        if q_norm is not None:
            q, k = normal(q, q_norm), normal(k, k_norm)
        if rotary:
            rows = begins[:, None] + np.arange(length)[None]
            if positions is not None:
                rows = np.tile(positions[0, 0] + np.arange(length), (batch, 1)) if step == "prompt" else positions
            q, k = rotated(q, cos, sin, rows, interleaved), rotated(k, cos, sin, rows, interleaved)
        if past_key is not None:
            grown = [np.zeros((batch, heads_of_key, capacity, size)) for _ in range(2)]
            for whole, old, new in ((grown[0], past_key, k), (grown[1], past_value, v)):
                for b in range(batch):
                    kept = past if past == capacity else min(past, begins[b])
                    whole[b, :, :kept] = old[b, :, :kept]
                    whole[b, :, begins[b] : begins[b] + length] = new[b]
            k, v = grown
        scores = scores_of(q, k, scale, softcap)
        if score_bias is not None:
            scores[..., :total] += score_bias
        for b, _, s, t in np.ndindex(*scores.shape):
            at = begins[b] + s
            hidden_key = t > lasts[b] or (not bidirectional and t > at) or (window >= 0 and t <= at - window)
            if hidden_key:
                scores[b, :, s, t] = -np.inf
        logits = np.zeros(heads) if sink == "smooth" else sinks
        return hidden_of(weighted(scores, v, logits)), k, v

    def defined(outputs):
        """Without rows of padding, and without what stands after the valid keys in a cache."""
        outputs = [np.array(y) for y in outputs]
        for b in range(batch):
            outputs[0][b, max(0, lasts[b] + 1 - begins[b]) :] = 0
            for cache in outputs[1:]:
                cache[b, :, lasts[b] + 1 :] = 0
        return outputs

    keys = [None if packed else array(rng, dtype, (batch, length, heads_of_key * size)) for _ in range(2)]
    pasts = [None if past is None else array(rng, dtype, (batch, heads_of_key, past, size)) for _ in range(2)]
    caches = [array(rng, dtype, (16, size // 2)) if rotary else None for _ in range(2)]
    norms, epsilon = [None, None], 1e-6
    if rng.integers(5) == 0:
        norms = [array(rng, dtype, (size,)) for _ in range(2)]
        epsilon = maybe(rng, attributes, "qk_norm_epsilon", float(rng.uniform(0.001, 0.1)), 1e-6)
    inputs = [array(rng, dtype, (batch, length, hidden)), *keys, *pasts,
              lasts.astype(np.int32) if rng.integers(4) else lasts.astype(np.int32)[:, None], np.array(total, np.int32), *caches,
              None if positions is None else positions.astype(np.int64), a_bias(rng, dtype, batch, heads, length, total),
              array(rng, dtype, (heads,)) if sink == "heads" else None, None, None, *norms]  # fmt: skip
    return Case("GroupQueryAttention", OPSET, inputs, attributes, constants=(6,), outputs=3, expected=expected, domain=DOMAIN,
                defined=defined, runtime_version=None if norms[0] is not None else OPSET)  # fmt: skip


OPERATORS = {
    "Attention": fused_attention,
    "GroupQueryAttention": group_query_attention,
    "MultiHeadAttention": multi_head_attention,
    "RotaryEmbedding": rotary_embedding,
}
