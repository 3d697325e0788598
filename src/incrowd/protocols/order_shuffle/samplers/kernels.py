"""The compiled loops of permutation samplers, imported only when first used.

A permutation comes as its codes: item i is put so that ``codes[i]`` of the items before it stand
after it. Two ways to write the list down:

* insertion moves those that stand after it, one memory move each: best while codes are small;
* the tree fills slots from the last item to the first. Item i takes the free slot that has
  ``codes[i]`` free slots behind it. Free slots are bits, 64 to a word; above the words stands a
  binary tree of how many are free in each left half, and one descent both finds and takes a slot.

Both write the list from its end, so that "behind" means a smaller index.

Exact draws read whole random words and compare; they never round. An item whose words run out is
drawn again from the *same* words and more: dropping it would favour items that need few words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from incrowd.compiled import compiled

Codes = NDArray[np.int32]
Words = NDArray[np.uint64]

_EACH = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)
_PAIRS = np.uint64(0x5555555555555555)
_FOURS = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
_ONE, _TWO, _FOUR, _SEVEN, _EIGHT = (np.uint64(k) for k in (1, 2, 4, 7, 8))
_LAST = np.uint64(56)
_LOW = np.uint64(255)
_FULL = np.uint64(2**64 - 1)


@compiled()
def insert(codes: Codes, reverse: Codes) -> None:
    """Write the list, last place first, by insertion: time n + Σ codes."""
    n = codes.size
    for item in range(n):
        code, begin = codes[item], n - 1 - item
        for place in range(begin, begin + code):
            reverse[place] = reverse[place + 1]
        reverse[begin + code] = item


@compiled()
def _bit_places() -> NDArray[np.uint8]:
    """Entry [k, byte]: where the bit of rank k stands in the byte."""
    places = np.zeros((8, 256), dtype=np.uint8)
    for byte in range(256):
        rank = 0
        for place in range(8):
            if (byte >> place) & 1:
                places[rank, byte] = place
                rank += 1
    return places


@compiled()
def fill_slots(codes: Codes, reverse: Codes) -> None:
    """Write the list, last place first, by a tree of free slots: time n·log n."""
    n = codes.size
    used = (n + 63) >> 6
    depth = 0
    while (1 << depth) < used:
        depth += 1
    leaves = 1 << depth
    free = np.zeros(leaves, dtype=np.uint64)
    count = np.zeros(2 * leaves, dtype=np.int32)
    for word in range(used):
        slots = min(64, n - 64 * word)
        free[word] = _FULL if slots == 64 else (_ONE << np.uint64(slots)) - _ONE
        count[leaves + word] = slots
    for node in range(leaves - 1, 0, -1):
        count[node] = count[2 * node] + count[2 * node + 1]
    left = np.zeros(leaves, dtype=np.int32)
    for node in range(1, leaves):
        left[node] = count[2 * node]
    places = _bit_places()
    for item in range(n - 1, -1, -1):
        behind = codes[item]
        node = 1
        for _ in range(depth):
            here = left[node]
            # Arithmetic in place of a branch, which nothing could predict.
            right = np.int32(behind >= here)
            left[node] = here - (np.int32(1) - right)
            behind -= here * right
            node = 2 * node + int(right)
        word = node - leaves
        bits = free[word]
        # Bits set up to and with each byte: sums of pairs, fours, bytes, then all.
        sums = bits - ((bits >> _ONE) & _PAIRS)
        sums = (sums & _FOURS) + ((sums >> _TWO) & _FOURS)
        sums = ((sums + (sums >> _FOUR)) & _BYTES) * _EACH
        # The byte is found by comparing all eight sums at once.
        passed = (((np.uint64(behind) * _EACH) | _TOPS) - sums) & _TOPS
        shift = (((passed >> _SEVEN) * _EACH) >> _LAST) << np.uint64(3)
        before = ((sums << _EIGHT) >> shift) & _LOW
        rank = np.int64(behind) - np.int64(before)
        place = shift + np.uint64(places[rank, (bits >> shift) & _LOW])
        free[word] = bits ^ (_ONE << place)
        reverse[(word << 6) + np.int64(place)] = item


@compiled()
def _one_in(k: int, words: Words, at: int) -> tuple[bool, int]:
    """True with chance exactly 1/k; and where to read on, or −1 if words ran out."""
    if k == 1:
        return True, at
    whole = np.uint64(k)
    # Words from here on would favour small remainders: 2⁶⁴ mod k of them.
    spare = (_FULL % whole + _ONE) % whole
    while at < words.size:
        word = words[at]
        at += 1
        if word <= _FULL - spare:
            return word % whole == np.uint64(0), at
    return False, -1


@compiled()
def _less(words: Words, at: int, bound: Words) -> tuple[bool, int]:
    """Whether a uniform number of as many words is below ``bound``; words that decide are read."""
    for each in bound:
        if at >= words.size:
            return False, -1
        word = words[at]
        at += 1
        if word != each:
            return word < each, at
    return False, at


@compiled()
def _decays(words: Words, at: int, exponent: Words) -> tuple[bool, int]:
    """True with chance exactly e^−γ, for γ = 0.``exponent`` as a binary fraction; no words: γ = 1.

    With independent A_k of chance γ/k, the first k that fails is odd with chance Σ_j (−γ)^j/j!.
    """
    k = 1
    while True:
        if exponent.size:
            yes, at = _less(words, at, exponent)
            if at < 0 or not yes:
                return k % 2 == 1, at
        yes, at = _one_in(k, words, at)
        if at < 0 or not yes:
            return k % 2 == 1, at
        k += 1


@compiled()
def exponentials(
    words: Words, first: int, fractions: NDArray[np.uint64], wholes: NDArray[np.int64]
) -> tuple[int, int]:
    """Draw items ``first``, … of a discrete exponential law: whole part, and fraction in words.

    With m words to a fraction, X = fraction + 2^(64m)·whole has chances proportional to
    e^(−X/2^(64m)). Returns the first item that is not drawn yet, and how many words the others
    took.
    """
    none = words[:0]
    item, taken = first, 0
    parts = fractions.shape[1]
    while item < wholes.size:
        at = taken
        accepted = False
        while not accepted:
            if at + parts > words.size:
                return item, taken
            for part in range(parts):
                fractions[item, part] = words[at + part]
            accepted, at = _decays(words, at + parts, fractions[item])
            if at < 0:
                return item, taken
        whole = 0
        while True:
            more, at = _decays(words, at, none)
            if at < 0:
                return item, taken
            if not more:
                break
            whole += 1
        wholes[item] = whole
        item, taken = item + 1, at
    return item, taken
