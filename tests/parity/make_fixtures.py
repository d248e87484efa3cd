"""Writes the fixtures of tests/test_parity.cpp: models, and what PyTorch computes from them.

    /usr/bin/python3 tests/parity/make_fixtures.py      # Debian's, which sees python3-torch

Each tests/parity/<name>.safetensors is a model file that load_model reads, with more in it:

    in.tokens, in.targets     [B, T] as numbers; targets of -1 do not count
    out.logits                [B, T, V]
    grad.<parameter>          the gradient of the loss, in the axes of the file
    parity.adamw, .losses     (metadata) ten steps of torch.optim.AdamW on this batch with torch's
                              clipping: the settings, the loss before each step and after the last

Computed in double and stored as float, so that the rounding that the tests see is ours. Every run
writes the same bytes.
"""
import json
import os

import numpy as np
import torch

import reference

BASE = {"d_vocab": 17, "d_model": 16, "n_layers": 2, "n_heads": 4, "d_head": 4, "n_ctx": 12,
        "d_mlp": 0, "positions": "shortformer", "biases": False, "layer_norm": False,
        "dropout": 0.0}
ADAMW = {"lr": 0.01, "beta1": 0.9, "beta2": 0.98, "eps": 1e-8, "weight_decay": 0.01,
         "max_norm": 0.5}

# name: changes to the config, changes to the optimizer, B, T
FIXTURES = {
    # Longer than a block of the fused attention; heads that do not add up to d_model.
    "shortformer": ({"d_model": 20, "n_heads": 3, "d_head": 8, "n_ctx": 70}, {}, 3, 70),
    "everything": ({"d_mlp": 24, "positions": "learned", "biases": True, "layer_norm": True},
                   {"beta1": 0.8, "eps": 1e-3, "weight_decay": 0.1}, 4, 11),
    "bigrams": ({"n_layers": 0}, {"weight_decay": 0.0, "max_norm": 0.2}, 4, 12),
    "sinusoidal": ({"n_layers": 1, "d_model": 15, "positions": "sinusoidal", "biases": True},
                   {"eps": 1e-4}, 4, 12),
    "no_positions": ({"n_layers": 1, "d_mlp": 20, "positions": "none"}, {"lr": 0.03}, 4, 12),
}


def sinusoids(n_ctx, d_model):
    angles = np.arange(n_ctx)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(n_ctx, -1)[:, :d_model]


def shapes(c):
    """Of every parameter, by name."""
    d, H, h, V = c["d_model"], c["n_heads"], c["d_head"], c["d_vocab"]
    all_of = {"embed.W_E": (V, d), "unembed.W_U": (d, V)}
    if c["positions"] == "learned":
        all_of["pos_embed.W_pos"] = (c["n_ctx"], d)
    if c["biases"]:
        all_of["unembed.b_U"] = (V,)
    norms = ["ln_final"]
    for layer in range(c["n_layers"]):
        b = f"blocks.{layer}."
        all_of.update({f"{b}attn.W_{x}": (H, d, h) for x in "QKV"})
        all_of[b + "attn.W_O"] = (H, h, d)
        if c["biases"]:
            all_of.update({f"{b}attn.b_{x}": (H, h) for x in "QKV"})
            all_of[b + "attn.b_O"] = (d,)
        norms.append(b + "ln1")
        if c["d_mlp"]:
            m = c["d_mlp"]
            all_of.update({b + "mlp.W_in": (d, m), b + "mlp.b_in": (m,),
                           b + "mlp.W_out": (m, d), b + "mlp.b_out": (d,)})
            norms.append(b + "ln2")
    if c["layer_norm"]:
        for name in norms:
            all_of.update({name + ".w": (d,), name + ".b": (d,)})
    return all_of


def make(name, index):
    changes, adamw, B, T = FIXTURES[name]
    config, adamw = {**BASE, **changes}, {**ADAMW, **adamw}
    rng = np.random.RandomState(1000 + index)

    def exact(numbers):  # doubles that a float holds
        return torch.tensor(numbers.astype("f4").astype("f8"))

    def draw(parameter, shape):
        gain = parameter.endswith(("ln1.w", "ln2.w", "ln_final.w"))
        return exact(0.4 * rng.standard_normal(shape) + gain).requires_grad_()

    params = {key: draw(key, shape) for key, shape in sorted(shapes(config).items())}
    constants = {}
    if config["positions"] in ("sinusoidal", "shortformer"):
        constants["pos_embed.W_pos"] = exact(sinusoids(config["n_ctx"], config["d_model"]))
    tokens = rng.randint(0, config["d_vocab"], (B, T))
    targets = rng.randint(0, config["d_vocab"], (B, T))
    targets[rng.random_sample((B, T)) < 0.15] = -1

    weights = {**params, **constants}
    arrays = {k: v.detach().numpy().copy() for k, v in weights.items()}
    arrays.update({"in.tokens": tokens, "in.targets": targets})
    tokens, targets = torch.tensor(tokens), torch.tensor(targets)
    arrays["out.logits"] = reference.logits(weights, config, tokens).detach().numpy()

    optimizer = torch.optim.AdamW(params.values(), lr=adamw["lr"],
                                  betas=(adamw["beta1"], adamw["beta2"]), eps=adamw["eps"],
                                  weight_decay=adamw["weight_decay"])
    losses, norms = [], []
    for step in range(11):
        value = reference.loss(weights, config, tokens, targets)
        losses.append(value.item())
        if step == 10:
            break
        optimizer.zero_grad()
        value.backward()
        if step == 0:
            arrays.update({"grad." + k: v.grad.numpy().copy() for k, v in params.items()})
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), adamw["max_norm"]).item())
        optimizer.step()
    assert norms[0] > adamw["max_norm"], f"{name}: clipping does nothing"

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".safetensors")
    reference.save(path, arrays, {
        "format": "pt", "clearhead.config": json.dumps(config), "parity.adamw": json.dumps(adamw),
        "parity.losses": json.dumps(losses)})
    print(f"{name}: {os.path.getsize(path) / 1000:.0f} kB, "
          f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
          f"gradient norm {norms[0]:.3f} -> {norms[-1]:.3f}, clipped at {adamw['max_norm']}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for i, fixture in enumerate(FIXTURES):
        make(fixture, i)
