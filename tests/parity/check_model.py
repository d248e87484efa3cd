"""Recomputes a trained model's logits in PyTorch, and compares with ours.

    /usr/bin/python3 tests/parity/check_model.py runs/induction/seed-0/model.safetensors

Debian's Python, which sees python3-torch. Ours come from the test program dump_logits (--dump, by
default that of build/release). PyTorch computes in double; the largest difference must be below
1e-5 of the largest logit. Prints one line.
Exit codes: 0 equal, 1 not, 2 usage, 77 PyTorch is not installed (ctest reads this as skipped).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import reference
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TOLERANCE = 1e-5
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--dump", default=os.path.join(ROOT, "build/release/bin/dump_logits"),
                        help="path of dump_logits")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "logits.safetensors")
        subprocess.run([options.dump, options.model, out], check=True)
        ours, _ = reference.load(out)
    arrays, metadata = reference.load(options.model)
    config = json.loads(metadata["clearhead.config"])
    weights = {name: torch.tensor(numbers).double() for name, numbers in arrays.items()}
    with torch.no_grad():
        theirs = reference.logits(weights, config, torch.tensor(ours["tokens"]).long()).numpy()
    largest = abs(theirs).max()
    difference = abs(theirs - ours["logits"]).max() / largest
    equal = difference <= TOLERANCE  # false for NaN
    print(f"{options.model}: {'same logits as' if equal else 'DIFFERS from'} PyTorch, "
          f"{theirs.size:,} logits up to {largest:.3g}, largest difference {difference:.1e} of it "
          f"(at most {TOLERANCE:.0e})")
    return 0 if equal else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as error:
        print(f"check_model: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
