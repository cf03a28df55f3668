"""Draws: the generator's known answers, the kept tokens, their frequencies, and what a draw depends on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from vramscope.devices.sampling import Sampling, choose, philox, uniform

ONES = 2**32 - 1
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Counter, key and result of the authors' own list (Random123, kat_vectors, philox4x32 10)."""


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_the_generator_gives_its_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], expected: tuple[int, int, int, int]
) -> None:
    assert philox(counter, key) == expected


def kept_tokens(row: npt.NDArray[np.float64], sampling: Sampling) -> dict[int, float]:
    """Each token that may be drawn and its probability, in float64 and the plainest way."""
    order = sorted(range(row.size), key=lambda token: (-row[token], token))
    if sampling.top_k:
        order = order[: sampling.top_k]
    powers = np.exp((row[order] - row[order[0]]) / sampling.temperature)
    shares = powers / powers.sum()
    last = next((n for n in range(len(order)) if shares[: n + 1].sum() >= sampling.top_p), len(order) - 1)
    total = shares[: last + 1].sum()
    return {order[n]: float(shares[n] / total) for n in range(last + 1)}


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0),
        Sampling(0.5, top_k=4),
        Sampling(1.5, top_p=0.7),
        Sampling(0.8, top_k=6, top_p=0.9),
        Sampling(3.0, top_k=1),
    ],
)
def test_tokens_are_drawn_as_often_as_their_probability_says(sampling: Sampling) -> None:
    row = np.random.default_rng(7).standard_normal(12) * 2
    count = 4000
    drawn = choose(sampling, np.tile(row, (count, 1)), np.zeros(count, np.int64))
    expected = kept_tokens(row.astype(np.float32).astype(np.float64), sampling)
    assert set(drawn.tolist()) <= expected.keys()
    for token, share in expected.items():
        deviation = 5 * np.sqrt(share * (1 - share) / count)
        assert abs(np.mean(drawn == token) - share) <= deviation


def test_of_equal_logits_the_first_are_kept() -> None:
    row = np.array([[1.0, 3.0, 3.0, 3.0, 2.0]], np.float32)
    drawn = {
        int(choose(Sampling(1.0, top_k=2, seed=seed), row, np.array([5]))[0]) for seed in range(60)
    }  # fmt: skip
    assert drawn == {1, 2}


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_row_without_a_finite_maximum_gives_its_likeliest(odd: float) -> None:
    row = np.array([[0.0, 1.0, odd, 2.0]], np.float32)
    assert choose(Sampling(1.0), row, np.array([1])).tolist() == [2]
    nothing = np.full((1, 4), -np.inf, np.float32)
    assert choose(Sampling(1.0), nothing, np.array([1])).tolist() == [0]


def test_hidden_tokens_are_never_drawn() -> None:
    row = np.full((400, 50), -np.inf, np.float32)
    row[:, [3, 40]] = 1.0
    assert set(choose(Sampling(2.0), row, np.zeros(400, np.int64)).tolist()) == {3, 40}


def test_a_draw_depends_on_seed_row_and_position_alone() -> None:
    assert uniform(1, 2, 3) == uniform(1, 2, 3)
    different = {uniform(*given) for given in [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (1, 2, 3 + 2**32)]}
    assert len(different) == 5
    assert all(0 <= number < 2**64 for number in different)
