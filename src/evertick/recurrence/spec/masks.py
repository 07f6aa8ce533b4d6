"""Sets of small numbers as the bits of one integer: bit n stands for n."""

from collections.abc import Iterable
from functools import reduce
from operator import or_


def values_of(mask: int) -> list[int]:
    """The values of a mask in ascending order."""
    values = []
    while mask:
        low = mask & -mask
        values.append(low.bit_length() - 1)
        mask ^= low
    return values


def mask_of_values(values: Iterable[int]) -> int:
    """The mask of some values."""
    return united(1 << value for value in values)


def united(masks: Iterable[int]) -> int:
    """The values that any of the masks has."""
    return reduce(or_, masks, 0)
