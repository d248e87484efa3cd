"""How fast and how large is a training step, ours against PyTorch's, on this machine?

    /usr/bin/python3 tests/benchmarks/versus_pytorch.py --threads 1 2   # Debian's, with torch

The step: forward, backward, clip by global norm, AdamW, on one batch of random tokens, in float32;
two attention-only layers, sinusoids added to the inputs of W_Q and W_K, no biases, no LayerNorm.
Ours is bench_train (fused kernels). The processes take turns; medians over the rounds are compared.

PyTorch is given every chance. Several ways to lay out and to multiply are timed first, must give
the same losses, and the fastest is kept. As to memory, glibc's malloc hands large tensors back to
the system after every use, and touching them anew can take as long as computing with them: so
PyTorch runs both as installed and with malloc told to keep memory (`kept`), and ours is compared
with the faster. With two threads ours is compared with the better of PyTorch's one and two. Both
use the system's BLAS; no environment variable is set.
"""
import argparse
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = [(64, 64, 4, 64, 32), (512, 128, 4, 128, 32), (512, 256, 8, 256, 16),
          (4096, 256, 8, 256, 8), (512, 512, 8, 512, 8)]  # V, d_model, heads, T, batch
MEMORY_MODEL = 4  # counting from 1
ALLOCATORS = ("installed", "kept")
WARM_UP = 3


def peak_megabytes():
    # Not ru_maxrss: that starts from the size of the process that started this one.
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\s*(\d+)", status.read())[1]) * 1024 / 1e6


# ---- PyTorch, in a process of its own

def variants():
    """Ways to write the model: the query and key gemms apart or as one; batch first, or time first,
    where a head's rows are strided views that bmm reads without a copy; the mask inside of baddbmm,
    or added in place."""
    ways = ("apart", "qk"), ("batch_first", "time_first"), ("baddbmm", "add_")
    return list(itertools.product(*ways))


class Model:
    def __init__(self, size, variant):
        import torch
        self.V, self.d, self.H, self.T, self.B = size
        self.joint, self.time_first = variant[0] == "qk", variant[1] == "time_first"
        self.in_baddbmm = variant[2] == "baddbmm"
        d, H, h, T = self.d, self.H, self.d // self.H, self.T
        generator = torch.Generator().manual_seed(1)
        self.params = []

        def param(x):
            self.params.append(x.contiguous().requires_grad_())
            return self.params[-1]

        def normal(rows, columns, std):
            return std * torch.randn(rows, columns, generator=generator)

        self.W_E = param(normal(self.V, d, 1))
        self.W_U = param(normal(d, self.V, 0.5 / d**0.5))
        self.layers = []
        for _ in range(2):
            W_Q, W_K, W_V, W_O = (normal(d, d, d**-0.5) for _ in range(4))
            if not self.joint:
                first = [W_Q, W_K]
            elif self.time_first:  # per head first q, then k: so that heads stay views
                first = [torch.stack([W_Q.view(d, H, h), W_K.view(d, H, h)], 2).view(d, 2 * d)]
            else:
                first = [torch.cat([W_Q, W_K], 1)]
            self.layers.append([param(W) for W in (*first, W_V, W_O)])
        angles = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        self.pos = torch.stack([angles.sin(), angles.cos()], -1).view(T, d)
        if self.time_first:
            self.pos = self.pos[:, None, :]
        self.mask = torch.full((T, T), -math.inf).triu(1)

    def heads(self, x):  # -> [B * H, T, h]
        B, T, H = self.B, self.T, self.H
        if self.time_first:
            return x.view(T, B * H, -1).transpose(0, 1)
        return x.view(B, T, H, -1).transpose(1, 2).reshape(B * H, T, -1)

    def attention(self, x, weights):
        import torch
        B, T, H, d = self.B, self.T, self.H, self.d
        x_qk, scale = x + self.pos, (d // H)**-0.5
        if not self.joint:
            q, k = (self.heads(x_qk @ W) for W in weights[:2])
        elif self.time_first:
            q, k = (x_qk @ weights[0]).view(T, B * H, 2, d // H).transpose(0, 1).unbind(2)
        else:
            q, k = (self.heads(part) for part in (x_qk @ weights[0]).chunk(2, -1))
        v = self.heads(x @ weights[-2])
        if self.in_baddbmm:
            mask = self.mask.expand(B * H, T, T)
            scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=scale)
        else:
            scores = torch.bmm(q * scale, k.transpose(1, 2)).add_(self.mask)
        z = torch.bmm(scores.softmax(-1), v)
        if self.time_first:
            z = z.transpose(0, 1).reshape(T, B, d)
        else:
            z = z.view(B, H, T, -1).transpose(1, 2).reshape(B, T, d)
        return z @ weights[-1]

    def loss(self, tokens, targets):
        import torch.nn.functional as F
        x = F.embedding(tokens, self.W_E)
        for weights in self.layers:
            x = x + self.attention(x, weights)
        return F.cross_entropy((x @ self.W_U).view(-1, self.V), targets.view(-1))


def trainer(size, variant, foreach):
    """A function that does one step, and returns the loss."""
    import torch
    model = Model(size, variant)
    optimizer = torch.optim.AdamW(model.params, lr=1e-3, betas=(0.9, 0.98), eps=1e-8,
                                  weight_decay=0.01, foreach=foreach)
    generator = torch.Generator().manual_seed(2)
    V, _, _, T, B = size
    tokens, targets = torch.randint(V, (2, B, T), generator=generator)
    if model.time_first:
        tokens, targets = tokens.t().contiguous(), targets.t().contiguous()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model.loss(tokens, targets)
        loss.backward()
        gradients = [p.grad for p in model.params]
        norm = torch.stack(torch._foreach_norm(gradients)).norm().item()
        if norm > 1:
            torch._foreach_mul_(gradients, 1 / norm)
        optimizer.step()
        return loss.item()

    return step


def fastest(steps, seconds):
    """The key of the fastest of several step functions, timed in turn."""
    losses = {key: [step() for _ in range(WARM_UP)] for key, step in steps.items()}
    first = next(iter(losses.values()))
    for key, values in losses.items():
        same = all(abs(a - b) < 1e-3 for a, b in zip(values, first))
        assert same, f"{key} computes something else: losses {values}, not {first}"
    times, rounds, end = {key: [] for key in steps}, 0, time.perf_counter() + seconds
    while rounds < 3 or time.perf_counter() < end:
        rounds += 1
        for key, step in steps.items():
            start = time.perf_counter()
            step()
            times[key].append(time.perf_counter() - start)
    return min(times, key=lambda k: min(times[k]))


def pytorch_child(task):
    """Does a task (a dict, see the callers) and prints what it found as JSON."""
    import ctypes
    import torch
    blas = ctypes.CDLL("libopenblas.so.0")  # torch.set_num_threads does not reach this one
    torch.set_num_threads(task["threads"])
    blas.openblas_set_num_threads(task["threads"])
    if task["allocator"] == "kept":
        libc, M_MMAP_MAX, M_TRIM_THRESHOLD = ctypes.CDLL("libc.so.6"), -4, -1
        assert libc.mallopt(M_MMAP_MAX, 0) and libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    size, baseline = task["size"], peak_megabytes()
    if task["do"] == "choose":
        steps = {v: trainer(size, v, True) for v in variants()}
        variant = fastest(steps, task["seconds"])
        pair = {foreach: trainer(size, variant, foreach) for foreach in (True, False)}
        result = {"variant": variant, "foreach": fastest(pair, task["seconds"] / 4)}
    else:
        step = trainer(size, task["variant"], task["foreach"])
        for _ in range(WARM_UP):
            step()
        start, n = time.perf_counter(), 0
        while n < 3 or time.perf_counter() - start < task["seconds"]:
            step()
            n += 1
        rate = n * size[3] * size[4] / (time.perf_counter() - start)
        result = {"tokens/s": rate, "peak_MB": peak_megabytes(), "baseline_MB": baseline}
    for get in (blas.openblas_get_config, blas.openblas_get_corename):
        get.restype = ctypes.c_char_p
    words = blas.openblas_get_config().decode().split()
    result["versions"] = (f"PyTorch {torch.__version__}, {words[0]} {words[1]} "
                          f"({blas.openblas_get_corename().decode()})")
    result["blas_threads"] = blas.openblas_get_num_threads()
    print(json.dumps(result))


# ---- The comparison

def pytorch(**task):
    command = [sys.executable, os.path.abspath(__file__), "--child", json.dumps(task)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[-1])


def ours(bench, size, threads, seconds):
    V, d, heads, T, batch = size
    name = f"fused/V:{V}/d:{d}/heads:{heads}/T:{T}/batch:{batch}/threads:{threads}/"
    command = [bench, "--benchmark_filter=" + name, "--benchmark_format=json",
               f"--benchmark_min_time={seconds}"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (result,) = json.loads(out)["benchmarks"]
    return {"tokens/s": result["tokens/s"], "peak_MB": result["peak_RSS_MB"],
            "baseline_MB": result["start_RSS_MB"]}


def blas_of(program):
    libraries = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"=> (\S*blas\S*)", libraries)
    return os.path.basename(os.path.realpath(found[1])) if found else "?"


def measure(options, size):
    """Medians of tokens/s over rounds of A B A B; the last results, for what else is in them; and
    what PyTorch's fastest were. Keys: the threads for ours, (threads, allocator) for PyTorch."""
    their_threads = sorted({1, *options.threads})
    chosen = {(t, a): pytorch(do="choose", size=size, threads=t, allocator=a, seconds=options.tune)
              for t in their_threads for a in ALLOCATORS}
    rates, last = {}, {}
    for _ in range(options.rounds):
        for threads in their_threads:
            for allocator in (None, *ALLOCATORS):
                if allocator:
                    key = threads, allocator
                    last[key] = pytorch(
                        do="train", size=size, threads=threads, allocator=allocator,
                        seconds=options.seconds, variant=chosen[key]["variant"],
                        foreach=chosen[key]["foreach"])
                elif threads in options.threads:
                    key = threads
                    last[key] = ours(options.bench, size, threads, options.seconds)
                else:
                    continue
                rates.setdefault(key, []).append(last[key]["tokens/s"])
    return {key: statistics.median(values) for key, values in rates.items()}, last, chosen


def print_row(size, threads, measured):
    """One line of the table. Returns ours / PyTorch's fastest, and ours / PyTorch as installed."""
    rates, _, chosen = measured
    theirs = {(t, a): rates[t, a] for t in {1, threads} for a in ALLOCATORS}
    best = max(theirs, key=theirs.get)
    installed, kept = (max(theirs[t, a] for t in {1, threads}) for a in ALLOCATORS)
    V, d, heads, T, batch = size
    loop = "foreach" if chosen[best]["foreach"] else "loop"
    how = " ".join([*chosen[best]["variant"], loop, f"threads={best[0]}"])
    ratio = rates[threads] / theirs[best]
    print(f"{V:5} {d:4} {heads:5} {T:4} {batch:5} {threads:7} {rates[threads]:9,.0f} "
          f"{installed:9,.0f} {kept:9,.0f} {ratio:6.2f}  {how}", flush=True)
    return ratio, rates[threads] / installed


def print_memory(last, threads):
    print(f"\npeak memory of model {MEMORY_MODEL} in MB, threads={threads}"
          f"\n{'':20} {'process':>8} {'before':>8} {'training':>8}")
    theirs = [(f"PyTorch, {a}", last[threads, a]) for a in ALLOCATORS]
    for name, r in [("ours", last[threads]), *theirs]:
        peak, before = r["peak_MB"], r["baseline_MB"]
        print(f"{name:20} {peak:8.0f} {before:8.0f} {peak - before:8.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--threads", type=int, nargs="+", default=[1], choices=(1, 2), help="default: 1")
    add("--models", type=int, nargs="+", default=[1, 2, 3, 4, 5], choices=(1, 2, 3, 4, 5),
        help="default: all")
    add("--seconds", type=float, default=2, help="for one measurement")
    add("--rounds", type=int, default=5)
    add("--tune", type=float, default=4, help="seconds to choose PyTorch's fastest variant")
    add("--bench", default=os.path.join(ROOT, "build/release/bin/bench_train"))
    add("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return pytorch_child(options.child)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if not os.access(options.bench, os.X_OK):
        parser.error(f"{options.bench} is not there; build it, or say where it is with --bench")

    print("$", " ".join(["versus_pytorch.py", *sys.argv[1:]]))
    versions = pytorch(do="train", size=MODELS[0], threads=1, allocator=ALLOCATORS[0], seconds=0,
                       variant=next(iter(variants())), foreach=True)["versions"]
    print(f"theirs:  {versions}, as many BLAS threads as threads\n"
          f"ours:    {blas_of(options.bench)}, one BLAS thread inside each of its own threads\n"
          f"tokens/s: medians of {options.rounds} rounds of {options.seconds:g} s in turn; PyTorch "
          f"with malloc as installed, and keeping memory;\nratio: ours / the faster of these")
    print(f"\n{'V':>5} {'d':>4} {'heads':>5} {'T':>4} {'batch':>5} {'threads':>7} {'ours':>9} "
          f"{'installed':>9} {'kept':>9} {'ratio':>6}  PyTorch's fastest", flush=True)
    results, ratios = {}, {t: [] for t in options.threads}
    for n in options.models:
        results[n] = measure(options, MODELS[n - 1])
        for t in options.threads:
            ratios[t].append(print_row(MODELS[n - 1], t, results[n]))
    for t in options.threads:
        mean, as_installed = map(statistics.geometric_mean, zip(*ratios[t]))
        print(f"threads={t}: geometric mean of ours / PyTorch: {mean:.2f} (as installed: {as_installed:.2f})")
    if MEMORY_MODEL in results:
        print_memory(results[MEMORY_MODEL][1], options.threads[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
