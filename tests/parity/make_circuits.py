"""Writes tests/parity/circuits.json: the circuits of the model in shortformer.safetensors.

    /usr/bin/python3 tests/parity/make_circuits.py      # Debian's, which sees python3-torch

What tests/test_circuit_parity.cpp holds nn/circuits/ against. Everything here is the plain way: dense
matrices in double, V x V and d x d, eigenvalues of the whole of them, patterns and sums over
positions one by one. Nothing is factored and nothing is taken from nn/. Every run writes the same
bytes.
"""
import json
import math
import os

import numpy as np
import torch

import reference

FOLDER = os.path.dirname(os.path.abspath(__file__))


def positivity(matrix):
    eigenvalues = np.linalg.eigvals(matrix)
    return float(eigenvalues.real.sum() / abs(eigenvalues).sum())


def mean_attention(pattern, tokens, is_source):
    """Mean over destinations that have such a source of the attention that goes to them."""
    totals = []
    for b in range(tokens.shape[0]):
        for i in range(tokens.shape[1]):
            sources = [j for j in range(i + 1) if is_source(tokens[b], i, j)]
            if sources:
                totals.append(pattern[b, i, sources].sum())
    return float(np.mean(totals))


DETECTORS = {
    "previous": lambda x, i, j: j == i - 1,
    "current": lambda x, i, j: i > 0 and j == i,
    "first": lambda x, i, j: i > 0 and j == 0,
    "duplicate": lambda x, i, j: j < i and x[j] == x[i],
    "prefix": lambda x, i, j: j >= 1 and x[j - 1] == x[i],
}


def main():
    arrays, metadata = reference.load(os.path.join(FOLDER, "shortformer.safetensors"))
    config = json.loads(metadata["clearhead.config"])
    w = {name: np.asarray(a, dtype="f8") for name, a in arrays.items()}
    tokens, targets = (w["in." + name].astype(int) for name in ("tokens", "targets"))
    E, U = w["embed.W_E"], w["unembed.W_U"]
    P = w["pos_embed.W_pos"][:tokens.shape[1]]
    layers, H, width = config["n_layers"], config["n_heads"], config["d_head"]

    def of(layer, head, name):
        return w[f"blocks.{layer}.attn.W_{name}"][head]

    QK = [[of(l, h, "Q") @ of(l, h, "K").T / math.sqrt(width) for h in range(H)] for l in range(layers)]
    OV = [[of(l, h, "V") @ of(l, h, "O") for h in range(H)] for l in range(layers)]

    future = np.triu(np.ones((tokens.shape[1],) * 2, bool), 1)
    stream, patterns = E[tokens], []
    for l in range(layers):
        look, added, row = stream + P, 0, []
        for h in range(H):
            scores = look @ QK[l][h] @ look.transpose(0, 2, 1)
            scores[:, future] = -np.inf
            row.append(np.asarray(torch.softmax(torch.tensor(scores), -1)))
            added = added + row[-1] @ stream @ OV[l][h]
        patterns.append(row)
        stream = stream + added
    assert abs(stream @ U - w["out.logits"]).max() < 1e-5 * abs(w["out.logits"]).max()

    heads = []
    for l in range(layers):
        for h in range(H):
            qk, ov = E @ QK[l][h] @ E.T, E @ OV[l][h] @ U
            eigenvalues = sorted(np.linalg.eigvals(ov), key=lambda x: (-abs(x), -x.imag))[:width]
            heads.append({
                "layer": l, "head": h,
                "scores": {name: mean_attention(patterns[l][h], tokens, f) for name, f in DETECTORS.items()},
                "copying": positivity(ov), "own_is_first": float(np.mean(ov.argmax(1) == np.arange(len(ov)))),
                "ov_eigenvalues": [[x.real, x.imag] for x in eigenvalues],
                "qk_row": qk[5].tolist(), "qk_column": qk[:, 5].tolist(),
                "ov_row": ov[5].tolist(), "ov_column": ov[:, 5].tolist(),
                "position_row": (P @ QK[l][h] @ P.T)[5].tolist()})

    norm = np.linalg.norm
    pairs = []
    for one in range(H):
        for two in range(H):
            # The papers' formulas, which multiply from the left: theirs transposed is ours.
            qk_left, ov_1, ov_2 = QK[1][two], OV[0][one].T, OV[1][two].T
            pairs.append({"first": one, "second": two,
                          "Q": norm(qk_left.T @ ov_1) / norm(qk_left) / norm(ov_1),
                          "K": norm(qk_left @ ov_1) / norm(qk_left) / norm(ov_1),
                          "V": norm(ov_2 @ ov_1) / norm(ov_2) / norm(ov_1)})
    previous = [mean_attention(patterns[0][h], tokens, DETECTORS["previous"]) for h in range(H)]
    matching = [positivity(sum(previous[one] * E @ QK[1][two] @ OV[0][one].T @ E.T for one in range(H)))
                for two in range(H)]

    # Paths: direct; one head; two heads, through the product of their patterns and of their OV.
    order = [E[tokens], 0, 0]
    for l in range(layers):
        for h in range(H):
            order[1] = order[1] + patterns[l][h] @ E[tokens] @ OV[l][h]
    for one in range(H):
        for two in range(H):
            order[2] = order[2] + (patterns[1][two] @ patterns[0][one]) @ E[tokens] @ (OV[0][one] @ OV[1][two])
    losses, total = [], 0
    for term in order:
        total = total + term
        rows = torch.tensor(total @ U).flatten(0, 1)
        losses.append(float(torch.nn.functional.cross_entropy(rows, torch.tensor(targets).flatten(), ignore_index=-1)))

    out = {"heads": heads, "composition": pairs, "matching": matching, "loss_by_order": losses}
    out = json.loads(json.dumps(out), parse_float=lambda x: float(f"{float(x):.9g}"))
    with open(os.path.join(FOLDER, "circuits.json"), "w") as file:
        file.write(json.dumps(out) + "\n")
    print(f"circuits.json: {len(heads)} heads, {len(pairs)} pairs, loss by order {losses}")


if __name__ == "__main__":
    main()
