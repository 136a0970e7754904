"""Trains a small network on handwritten digits, data-parallel over 16 ranks.

Every rank has its own copy of the weights and its own part of every batch; every gradient is
averaged over the ranks by a `Communicator`, with ``--engine rtl`` by sixteen copies of the
generated Verilog. Engines give the same bits, so the weights' SHA-256 is the same for all:

    python examples/train_digits.py --engine rtl
    python examples/train_digits.py --engine numpy

With ``--json`` the results are one object on standard output, and the rest is on standard error.
"""

import argparse
import contextlib
import hashlib
import json
import sys
import time

import numpy as np
from sklearn.datasets import load_digits

from multitree import Communicator, EngineError, torus

SEED = 2026
HIDDEN = 128
SAMPLES_PER_RANK = 6
LEARNING_RATE = np.float32(0.1)
MOMENTUM = np.float32(0.9)
SHAPES = ((64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,))


def load(num_ranks):
    """Digits in 0..1 and labels: for training (a multiple of the batch) and for the test."""
    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    images = (digits.data[order] / 16).astype(np.float32)
    labels = digits.target[order]
    batch = num_ranks * SAMPLES_PER_RANK
    num_training = int(0.8 * len(labels)) // batch * batch
    return (images[:num_training], labels[:num_training]), (
        images[num_training:],
        labels[num_training:],
    )


def initial_weights():
    """All weights of the network, one after the other in one array."""
    rng = np.random.default_rng(SEED)
    parts = [rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in SHAPES]
    return np.concatenate(
        [(part if part.ndim == 2 else 0 * part).ravel() for part in parts]
    ).astype(np.float32)


def layers(weights):
    """Views of the weights as matrices and biases."""
    ends = np.cumsum([np.prod(shape) for shape in SHAPES])[:-1]
    return [
        part.reshape(shape) for part, shape in zip(np.split(weights, ends), SHAPES, strict=True)
    ]


def times(left, right):
    """Matrix product in NumPy's own loops: a BLAS may add in another order on another day."""
    return np.einsum("ij,jk->ik", left, right)


def forward(weights, images):
    """Activations of the hidden layer, and the probabilities of the ten digits."""
    first, first_bias, second, second_bias = layers(weights)
    hidden = np.maximum(times(images, first) + first_bias, 0)
    scores = times(hidden, second) + second_bias
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def gradient(weights, images, labels):
    """Gradient of the mean cross-entropy, in the layout of the weights."""
    hidden, error = forward(weights, images)
    error[np.arange(len(labels)), labels] -= 1
    error /= np.float32(len(labels))
    back = times(error, layers(weights)[2].T) * (hidden > 0)
    parts = (times(images.T, back), back.sum(0), times(hidden.T, error), error.sum(0))
    return np.concatenate([part.ravel() for part in parts])


def train(comm, epochs):
    """Train one copy of the weights per rank; return the copies and the cycles spent."""
    num_ranks = comm.topology.num_ranks
    (images, labels), test = load(num_ranks)
    weights = np.tile(initial_weights(), (num_ranks, 1))
    velocity = np.zeros_like(weights)
    rng, cycles = np.random.default_rng(SEED + 1), 0
    for epoch in range(epochs):
        start = time.perf_counter()
        batches = rng.permutation(len(labels)).reshape(-1, num_ranks, SAMPLES_PER_RANK)
        for batch in batches:
            gradients = np.stack(
                [
                    gradient(weights[rank], images[mine], labels[mine])
                    for rank, mine in enumerate(batch)
                ]
            )
            work = comm.all_reduce(gradients, op="average")
            velocity = MOMENTUM * velocity - LEARNING_RATE * work.wait()
            weights += velocity
            cycles += work.report.cycles or 0
        seconds = time.perf_counter() - start
        print(
            f"epoch {epoch + 1}: test accuracy {accuracy(weights[0], test):.4f}, "
            f"{len(batches)} all-reduces of {weights[0].nbytes} bytes, {seconds:.1f} s",
            flush=True,
        )
    print(work.report)
    return weights, test, cycles


def accuracy(weights, test):
    """Part of the test images whose digit is reported right."""
    images, labels = test
    return float((forward(weights, images)[1].argmax(axis=1) == labels).mean())


def main():
    """Train and print accuracy, cycles and the weights' SHA-256."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="rtl", choices=["rtl", "numpy", "torch"])
    parser.add_argument("--algorithm", default="multitree")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print results for programs")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error(f"epochs must be at least 1, not {arguments.epochs}")
    start = time.perf_counter()
    try:
        comm = Communicator(torus(4, 4), algorithm=arguments.algorithm, engine=arguments.engine)
    except (EngineError, ValueError) as error:
        parser.error(str(error))
    quietly = contextlib.redirect_stdout(sys.stderr) if arguments.json else contextlib.nullcontext()
    with comm, quietly:
        weights, test, cycles = train(comm, arguments.epochs)
    digests = {hashlib.sha256(copy.astype("<f4").tobytes()).hexdigest() for copy in weights}
    if len(digests) != 1:
        print("the ranks' weights differ", file=sys.stderr)
        return 1
    results = {
        "accuracy": accuracy(weights[0], test),
        "cycles": cycles or None,
        "weights_sha256": digests.pop(),
        "seconds": time.perf_counter() - start,
    }
    if arguments.json:
        print(json.dumps(results, indent=2))
        return 0
    print(f"test accuracy {results['accuracy']:.4f}")
    print(f"cycles spent in all-reduce: {results['cycles'] or 'unknown'}")
    print(f"weights' SHA-256, the same on all {len(weights)} ranks: {results['weights_sha256']}")
    print(f"{results['seconds']:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
