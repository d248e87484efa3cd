"""The Transformer, written independently in PyTorch: what the parity tests hold the C++ against.

Weights have the names and axes of our model files (TransformerLens's), one matrix per head, and the
products are einsums over named axes: slow, and hard to get wrong. Nothing here is taken from nn/.
Also reads and writes safetensors files.
"""
import json
import math
import struct

import numpy as np
import torch
import torch.nn.functional as F


def logits(p, config, tokens):
    """Logits [B, T, V] for tokens [B, T]; p maps names to tensors."""
    eps, T = 1e-5, tokens.shape[1]

    def norm(name, x):
        if not config["layer_norm"]:
            return x
        return F.layer_norm(x, x.shape[-1:], p[name + ".w"], p[name + ".b"], eps)

    def plus_bias(x, name):
        return x + p[name] if config["biases"] else x

    x = p["embed.W_E"][tokens]
    positions = config["positions"]
    pos = p["pos_embed.W_pos"][:T] if positions != "none" else 0
    if positions in ("learned", "sinusoidal"):
        x = x + pos
    future = torch.ones(T, T).triu(1).bool()
    for layer in range(config["n_layers"]):
        b = f"blocks.{layer}."
        a = b + "attn."
        source = norm(b + "ln1", x)
        look = source + pos if positions == "shortformer" else source
        q = plus_bias(torch.einsum("btm,hmd->bthd", look, p[a + "W_Q"]), a + "b_Q")
        k = plus_bias(torch.einsum("btm,hmd->bthd", look, p[a + "W_K"]), a + "b_K")
        v = plus_bias(torch.einsum("btm,hmd->bthd", source, p[a + "W_V"]), a + "b_V")
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(config["d_head"])
        pattern = scores.masked_fill(future, -math.inf).softmax(-1)
        z = torch.einsum("bhij,bjhd->bihd", pattern, v)
        x = x + plus_bias(torch.einsum("bthd,hdm->btm", z, p[a + "W_O"]), a + "b_O")
        if config["d_mlp"]:
            m = b + "mlp."
            hidden = F.gelu(norm(b + "ln2", x) @ p[m + "W_in"] + p[m + "b_in"])
            x = x + hidden @ p[m + "W_out"] + p[m + "b_out"]
    return plus_bias(norm("ln_final", x) @ p["unembed.W_U"], "unembed.b_U")


def loss(p, config, tokens, targets):
    """Mean cross-entropy in nats over the targets that are not -1."""
    rows = logits(p, config, tokens).flatten(0, 1)
    return F.cross_entropy(rows, targets.flatten(), ignore_index=-1)


def save(path, arrays, metadata):
    """Writes arrays as F32, metadata as strings."""
    header, data = {"__metadata__": metadata}, b""
    for name in sorted(arrays):
        numbers = np.ascontiguousarray(arrays[name], dtype="<f4")
        header[name] = {"dtype": "F32", "shape": list(np.shape(arrays[name])),
                        "data_offsets": [len(data), len(data) + numbers.nbytes]}
        data += numbers.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    """Reads F32 and F64: the arrays by name, the metadata."""
    with open(path, "rb") as file:
        contents = file.read()
    start = 8 + struct.unpack("<Q", contents[:8])[0]
    header = json.loads(contents[8:start])
    metadata = header.pop("__metadata__", {})
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = {"F32": "<f4", "F64": "<f8"}[entry["dtype"]]
        numbers = np.frombuffer(contents[start + begin:start + end], dtype)
        arrays[name] = numbers.reshape(entry["shape"])
    return arrays, metadata
