"""Compiled loops, imported only when first used because importing numba takes time.

They hold no randomness: random words are drawn by the caller from its own generator.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from incrowd.compiled import compiled

_BUFFER = 1 << 16  # words per draw: they stay in the cache
_TAIL = 3.6541528853610088  # where 256 layers of equal area close at the top of the normal curve


@compiled()
def bernoulli_words(
    out: NDArray[np.uint64], expansion: NDArray[np.bool_], words: NDArray[np.uint64]
) -> int:
    """Fill ``out`` with independent bits of probability 0.e₁e₂…, 64 at a time; return the count.

    Bit by bit, a uniform number in [0, 1) is compared with the probability: it is below at the
    first place where its digit is 0 and ``expansion`` has 1, above at the first place where its
    digit is 1 and ``expansion`` has 0. Sixty-four comparisons share each random word, and stop
    when all are decided, after about 7 words; those that agree to the last place are not below.
    Stops early when ``words`` might not last for another entry; unread words may be discarded.
    """
    depth = expansion.size
    position = 0
    for i in range(out.size):
        if position + depth > words.size:
            return i
        undecided = ~np.uint64(0)
        below = np.uint64(0)
        for j in range(depth):
            digit = words[position]
            position += 1
            if expansion[j]:
                below |= undecided & ~digit
                undecided &= digit
            else:
                undecided &= ~digit
            if undecided == 0:
                break
        out[i] = below
    return int(out.size)


@compiled()
def byte_histogram(reports: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Count each byte value in each column."""
    rows, columns = reports.shape
    counts = np.zeros((columns, 256), np.int64)
    for i in range(rows):
        for j in range(columns):
            counts[j, reports[i, j]] += 1
    return counts


@compiled()
def hash_support(
    reports: NDArray[np.uint32], categories: int, buckets: int, modulus: int
) -> NDArray[np.int64]:
    """Count, for each category x, the reports ``(A, B, y)`` with ((A·x + B) mod p) mod g = y.

    The residue moves by A from one category to the next: no multiplication modulo p. The remainder
    modulo g is by a reciprocal m = ⌈2^s/g⌉ with s = 31 + ⌈log2 g⌉: since m·g − 2^s < g ≤ 2^(s−31),
    (r·m) >> s is the exact quotient of every r < 2³¹, and r·m < 2⁶³.
    """
    counts = np.zeros(categories, np.int64)
    shift = np.uint64(31)
    while (np.uint64(1) << (shift - np.uint64(31))) < np.uint64(buckets):
        shift += np.uint64(1)
    g, p = np.uint64(buckets), np.uint64(modulus)
    reciprocal = ((np.uint64(1) << shift) + g - np.uint64(1)) // g
    for i in range(reports.shape[0]):
        step = np.uint64(reports[i, 0])
        residue = np.uint64(reports[i, 1])
        bucket = np.uint64(reports[i, 2])
        for x in range(categories):
            quotient = (residue * reciprocal) >> shift
            counts[x] += np.int64(residue - quotient * g == bucket)
            residue += step
            if residue >= p:
                residue -= p
    return counts


@compiled()
def first_attempts(
    out: NDArray[np.float32],
    words: NDArray[np.uint32],
    scales: NDArray[np.float32],
    inner: NDArray[np.int32],
    missed: NDArray[np.int32],
) -> int:
    """Turn words into places in ziggurat layers; return the number outside the layer above.

    The low byte is the layer, the upper 24 bits the place, symmetric about zero. For those outside,
    256·position + layer goes to the front of ``missed``. There is no branch.
    """
    count = 0
    for i in range(out.size):
        word = words[i]
        layer = np.uint64(word & np.uint32(255))
        place = (np.int32(word) >> np.int32(8)) | np.int32(1)
        out[i] = np.float32(place) * scales[layer]
        missed[count] = np.int32(256 * i) + np.int32(layer)
        count += int(abs(place) >= inner[layer])
    return count


@compiled()
def second_attempts(
    out: NDArray[np.float32],
    missed: NDArray[np.int32],
    uniform: NDArray[np.float64],
    heights: NDArray[np.float64],
) -> tuple[int, int]:
    """Settle the places that :func:`first_attempts` left open; return counts of tails and misses.

    ``missed`` becomes the positions of the tails followed, from its end, by those of the places
    above the curve, which must be drawn again.
    """
    tails, wrong = 0, 0
    entries = missed.copy()
    for j in range(entries.size):
        position, layer = entries[j] >> 8, entries[j] & 255
        if layer == 0:
            missed[tails] = position
            tails += 1
            continue
        low, high = heights[layer], heights[layer + 1]
        x = np.float64(out[position])
        if low + uniform[j] * (high - low) >= np.exp(-x * x / 2):
            wrong += 1
            missed[missed.size - wrong] = position
    return tails, wrong


@compiled(fastmath={"reassoc", "contract"})  # sums in any order use wide registers
def turn_towards(
    out: NDArray[np.float32],
    across: NDArray[np.float32],
    vectors: NDArray[np.float64],
    heights: NDArray[np.float64],
    tolerance: float,
) -> int:
    """Write unit vectors at the given heights over ``vectors``, in the directions of ``across``.

    Rows of ``vectors`` have length one up to a tolerance, which is taken out here; rows of
    ``across`` are normal vectors and lose their part along the vector. Returns the first row of
    another length, or −1.
    """
    rows, dimension = across.shape
    for i in range(rows):
        square, product = 0.0, 0.0
        for j in range(dimension):
            square += vectors[i, j] * vectors[i, j]
            product += vectors[i, j] * across[i, j]
        length = np.sqrt(square)
        if not abs(length - 1) <= tolerance:
            return i
        part = product / square
        square = 0.0
        for j in range(dimension):
            rest = across[i, j] - part * vectors[i, j]
            across[i, j] = rest
            square += rest * rest
        along = heights[i] / length
        aside = np.sqrt((1 - heights[i] * heights[i]) / max(square, 1e-300))
        for j in range(dimension):
            out[i, j] = along * vectors[i, j] + aside * across[i, j]
    return -1


def fill_normals(
    out: NDArray[np.float32], scratch: NDArray[np.int32], rng: np.random.Generator
) -> None:
    """Fill ``out`` with independent standard normals of single resolution, faster than numpy.

    The ziggurat of 256 layers of equal area under the normal curve ("The Ziggurat Method for
    Generating Random Variables", Marsaglia, Tsang): a place in a random layer is a normal number if
    it lies below the curve, which is certain for all but the outer end of the layer. There, in one
    of a hundred cases, a second number decides, and a place above the curve is drawn afresh, by
    numpy. The outer end of the bottom layer stands for the tail, drawn by inversion.
    ``scratch`` is at least as long as ``out``.
    """
    for start in range(0, out.size, _BUFFER):
        block = out[start : start + _BUFFER]
        words = rng.integers(-1 << 63, 1 << 63, (block.size + 1) // 2).view(np.uint32)
        missed = scratch[: first_attempts(block, words, _SCALES, _INNER, scratch)]
        tails, wrong = second_attempts(block, missed, rng.random(missed.size), _HEIGHTS)
        beyond = -ndtri((1 - rng.random(tails)) * ndtr(-_TAIL))
        block[missed[:tails]] = np.copysign(beyond, block[missed[:tails]])
        again = missed[missed.size - wrong :]
        block[again] = rng.standard_normal(wrong, np.float32)


def bernoulli_bits(
    count: int, probability: float, places: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Draw ``count`` bytes of independent bits; see :func:`bernoulli_words`."""
    expansion = _binary_expansion(probability, places)
    out = np.empty(-(-count // 8), np.uint64)
    done = 0
    while done < out.size:
        draw = min(9 * (out.size - done) + expansion.size, _BUFFER)
        words = rng.integers(0, 1 << 64, draw, dtype=np.uint64)
        done += bernoulli_words(out[done:], expansion, words)
    return out.view(np.uint8)[:count]


def _binary_expansion(probability: float, places: int) -> NDArray[np.bool_]:
    steps = int(probability * (1 << places))
    digits = np.array([steps >> (places - 1 - j) & 1 for j in range(places)], np.bool_)
    return digits[: int(np.flatnonzero(digits)[-1]) + 1]


def _layer_widths() -> NDArray[np.float64]:
    """Widths of the 256 layers, widest first, and a final zero.

    All have the area of the bottom one, which is the strip below the curve's height at ``_TAIL``
    together with the tail; its own width is the area over that height.
    """
    height = math.exp(-(_TAIL**2) / 2)
    area = _TAIL * height + math.sqrt(2 * math.pi) * float(ndtr(-_TAIL))
    widths = [area / height, _TAIL]
    for _ in range(254):
        height += area / widths[-1]
        widths.append(math.sqrt(-2 * math.log(height)))
    return np.array([*widths, 0.0])


_WIDTHS = _layer_widths()
_HEIGHTS = np.exp(-(_WIDTHS**2) / 2)
_SCALES = (_WIDTHS[:-1] * 2.0**-23).astype(np.float32)
_INNER = np.ceil(_WIDTHS[1:] / _WIDTHS[:-1] * 2.0**23).astype(np.int32)
"""From this place on a point of the layer lies outside the layer above."""
