"""RNN, GRU and LSTM, one step, one sequence and one gate after the other, by the equations of ONNX."""

import dataclasses
from functools import partial

import numpy as np
from reference_case import HALVES, Case, a_type, array, expected_outputs, pick, sometimes, version

# activation: function of x, alpha and beta; defaults of those that it takes
ACTIVATIONS = {
    "Affine": (lambda x, alpha, beta: alpha * x + beta, (None, None)),
    "Elu": (lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(x)), (1.0,)),
    "HardSigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), (0.2, 0.5)),
    "LeakyRelu": (lambda x, alpha: np.where(x >= 0, x, alpha * x), (0.01,)),
    "Relu": (lambda x: np.maximum(x, 0), ()),
    "ScaledTanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), (None, None)),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), ()),
    "Softplus": (lambda x: np.logaddexp(0, x), ()),
    "Softsign": (lambda x: x / (1 + np.abs(x)), ()),
    "Tanh": (np.tanh, ()),
    "ThresholdedRelu": (lambda x, alpha: np.where(x > alpha, x, 0), (1.0,)),
}  # fmt: skip
CELLS = {"RNN": (1, ["Tanh"]), "GRU": (3, ["Sigmoid", "Tanh"]), "LSTM": (4, ["Sigmoid", "Tanh", "Tanh"])}


def activations(rng, defaults, directions, clip):
    """The functions of each direction, and the attributes that name them."""
    names, attributes = defaults * directions, {}
    if rng.integers(4):
        # With jumps, two ways to round would give different results; names ignore case.
        names = [pick(rng, sorted(ACTIVATIONS.keys() - {"ThresholdedRelu"})) for _ in names]
        if len(names) == 1 and rng.integers(4) == 0:
            names = ["ThresholdedRelu"]
        attributes["activations"] = [name.lower() if rng.integers(5) == 0 else name for name in names]
    alphas, betas, functions = [], [], []
    give = bool(rng.integers(2)) or not {"Affine", "ScaledTanh"}.isdisjoint(names)  # whose defaults ONNX does not tell
    for name in names:
        function, parameters = ACTIVATIONS[name]
        if give:
            # Only activations that have parameters consume values, in order.
            parameters = [float(np.float32(rng.uniform(0.1, 0.9))) for _ in parameters]
            alphas += parameters[:1]
            betas += parameters[1:]
        else:
            parameters = [float(np.float32(p)) for p in parameters]
        limited = lambda x, f=function, p=tuple(parameters): f(np.clip(x, -clip, clip) if clip else x, *p)
        functions.append(limited)
    attributes |= dict(activation_alpha=alphas) if alphas else {}
    attributes |= dict(activation_beta=betas) if betas else {}
    count = len(defaults)
    return [functions[d * count : (d + 1) * count] for d in range(directions)], attributes


def rnn_step(x, h, c, w, r, bias, _, functions, options):
    return functions[0](x @ w.T + h @ r.T + bias[0] + bias[1]), c


def gru_step(x, h, c, w, r, bias, _, functions, options):
    f, g = functions
    (wz, wr, wh), (rz, rr, rh) = np.split(w, 3), np.split(r, 3)
    (bz, br, bh), (cz, cr, ch) = np.split(bias[0], 3), np.split(bias[1], 3)
    z = f(x @ wz.T + h @ rz.T + bz + cz)
    reset = f(x @ wr.T + h @ rr.T + br + cr)
    if options.get("linear_before_reset"):
        candidate = g(x @ wh.T + reset * (h @ rh.T + ch) + bh)
    else:
        candidate = g(x @ wh.T + (reset * h) @ rh.T + ch + bh)
    return (1 - z) * candidate + z * h, c


def lstm_step(x, h, c, w, r, bias, peepholes, functions, options):
    f, g, last = functions
    i, o, forget, candidate = np.split(x @ w.T + h @ r.T + bias[0] + bias[1], 4)
    pi, po, pf = np.split(peepholes, 3)
    i = f(i + pi * c)
    forget = 1 - i if options.get("input_forget") else f(forget + pf * c)
    c = forget * c + i * g(candidate)
    return f(o + po * c) * last(c), c


STEPS = {"RNN": rnn_step, "GRU": gru_step, "LSTM": lstm_step}


def recurrent(operator, rng):
    gates, defaults = CELLS[operator]
    opset = version(rng, operator)
    steps, batch, width, hidden = (int(n) for n in rng.integers(1, [6, 4, 4, 4]))
    steps = 0 if rng.integers(20) == 0 else steps
    batch = 0 if rng.integers(20) == 0 else batch
    direction = pick(rng, ["forward", "reverse", "bidirectional"])
    directions = 2 if direction == "bidirectional" else 1
    clip = float(np.float32(rng.uniform(0.2, 2))) if rng.integers(3) == 0 else None
    functions, attributes = activations(rng, defaults, directions, clip)
    attributes["hidden_size"] = hidden
    attributes |= dict(direction=direction) if direction != "forward" or rng.integers(2) else {}
    attributes |= dict(clip=clip) if clip else {}
    if operator == "GRU" and rng.integers(2):
        attributes["linear_before_reset"] = int(rng.integers(2))
    if operator == "LSTM" and rng.integers(3) == 0:
        attributes["input_forget"] = int(rng.integers(2))
    batch_first = bool(rng.integers(2)) if opset >= 14 else False
    attributes |= dict(layout=int(batch_first)) if opset >= 14 and (batch_first or rng.integers(2)) else {}
    dtype = a_type(rng, operator, opset)
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    optional = lambda value: value if rng.integers(2) else None
    # Roundings of states in half types must not grow from step to step.
    weights = lambda shape: (array(rng, np.float64, shape) * (0.3 if dtype in HALVES else 0.5)).astype(dtype)
    inputs = [array(rng, dtype, (batch, steps, width) if batch_first else (steps, batch, width)),
              weights((directions, gates * hidden, width)), weights((directions, gates * hidden, hidden)),
              optional(array(rng, dtype, (directions, 2 * gates * hidden))), None, optional(array(rng, dtype, state))]  # fmt: skip
    if operator == "LSTM":
        inputs += [optional(array(rng, dtype, state)), optional(array(rng, dtype, (directions, 3 * hidden)))]
    if rng.integers(2):
        # ONNX does not say whether the last state of an empty sequence is its initial one, or zero.
        least = 0 if steps == 0 or all(a is None for a in inputs[5:7]) else 1
        inputs[4] = rng.integers(least, steps + 1, batch).astype(np.int32)
    results = 3 if operator == "LSTM" else 2
    outputs = int(rng.integers(1, results + 1))
    absent = tuple(k for k in range(outputs - 1) if rng.integers(4) == 0)

    def expected(x, w, r, bias=None, lengths=None, h0=None, c0=None, peepholes=None):
        swapped = lambda a: a.swapaxes(0, 1) if batch_first and a is not None else a
        x, h0, c0 = swapped(x), swapped(h0), swapped(c0)
        y = np.zeros((steps, directions, batch, hidden))
        last_h, last_c = np.zeros((directions, batch, hidden)), np.zeros((directions, batch, hidden))
        for d, n in np.ndindex(directions, batch):
            h = np.zeros(hidden) if h0 is None else h0[d, n]
            c = np.zeros(hidden) if c0 is None else c0[d, n]
            of_input, of_state = np.zeros((2, gates * hidden)) if bias is None else np.split(bias[d], 2)
            p = np.zeros(3 * hidden) if peepholes is None else peepholes[d]
            times = range(steps if lengths is None else lengths[n])
            for t in reversed(times) if direction == "reverse" or d == 1 else times:
                h, c = STEPS[operator](x[t, n], h, c, w[d], r[d], (of_input, of_state), p, functions[d], attributes)
                y[t, d, n] = h
            last_h[d, n], last_c[d, n] = h, c
        y = y.transpose(2, 0, 1, 3) if batch_first else y
        return (y, swapped(last_h), swapped(last_c))[:results]

    of_batch, of_steps = ((0, 0), (0, 1)) if batch_first else ((0, 1), (0, 0))
    states = tuple((k, 0 if batch_first else 1) for k in (5, 6) if k < len(inputs))
    dynamic = pick(rng, [(), (), (of_batch, (4, 0), *states), (of_batch, of_steps, (4, 0), *states)])
    dynamic = tuple((k, axis) for k, axis in dynamic if inputs[k] is not None)
    return Case(operator, opset, inputs, attributes, constants=sometimes(rng, (1, 2, 3, 7), 2), outputs=outputs,
                absent=absent, expected=expected, dynamic=dynamic)  # fmt: skip


def bounded(operator, rng):
    """A case whose states stay small: in others, unbounded activations amplify the roundings of each step."""
    while True:
        case = recurrent(operator, rng)
        limit = 5 if case.inputs[0].dtype in HALVES else 20
        whole = dataclasses.replace(case, absent=(), outputs=3 if operator == "LSTM" else 2)
        if all(np.abs(y).max(initial=0) < limit for y in expected_outputs(whole)):
            return case


OPERATORS = {operator: partial(bounded, operator) for operator in CELLS}
