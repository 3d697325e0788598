"""Everything that can happen in a small cluster, with its probability, without the library.

A source sends to its true target with probability p and to each other one with r; its tuple is
real if it was sent to the true target. Nothing here knows a bound.
"""

import math
from itertools import product


def truth_and_lie(targets, sampling):
    r = sampling / targets
    return 1 - sampling + r, r


def outcomes(true, targets, sampling, dummies=0):
    """Yields (histogram, which sources' tuples are real, probability)."""
    p, r = truth_and_lie(targets, sampling)
    found = {}
    for sent in product(range(targets), repeat=len(true)):
        chance = math.prod(p if y == t else r for y, t in zip(sent, true, strict=True))
        if not chance:
            continue
        real = tuple(y == t for y, t in zip(sent, true, strict=True))
        for extra in product(range(targets), repeat=dummies):
            counts = [0] * targets
            for y in (*sent, *extra):
                counts[y] += 1
            key = (tuple(counts), real)
            found[key] = found.get(key, 0.0) + chance / targets**dummies
    return [(h, real, chance) for (h, real), chance in found.items()]


def seen(found, also):
    """The law of the histogram together with ``also(real)``, a law of something else seen."""
    law = {}
    for counts, real, chance in found:
        for value, share in also(real).items():
            key = (counts, value)
            law[key] = law.get(key, 0.0) + chance * share
    return law


def nothing(real):
    del real
    return {None: 1.0}


def divergence(first, second, epsilon):
    """The exact δ(ε) from one law to the other."""
    t = math.exp(epsilon)
    return sum(max(0.0, chance - t * second.get(key, 0.0)) for key, chance in first.items())


def either_way(first, second, epsilon):
    return max(divergence(first, second, epsilon), divergence(second, first, epsilon))


def noisy_count(epsilon):
    """The number of real tuples with geometric noise, cut off at none and at all of them.

    Pure for one tuple more or less; cutting off is done to what is released anyway.
    """
    q = math.exp(-epsilon)

    def law(real):
        middle, last = sum(real), len(real)
        inner = {k: (1 - q) / (1 + q) * q ** abs(k - middle) for k in range(1, last)}
        return {**inner, 0: q**middle / (1 + q), last: q ** (last - middle) / (1 + q)}

    return law


def noisy_answer(epsilon, asks):
    """Randomized response about any yes-no fact of who is real: pure for any change at all."""
    right = math.exp(epsilon) / (1 + math.exp(epsilon))

    def law(real):
        yes = asks(real)
        return {yes: right, not yes: 1 - right}

    return law
