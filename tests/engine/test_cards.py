"""The catalogue of cards holds together, and finds a card by what people type."""

from __future__ import annotations

import re

import pytest

from vramscope.errors import ScenarioError
from vramscope.plan.cards import MemorySource, _keys, find_card, load_cards

GIB = 2**30


def test_names_and_aliases_mean_one_card_each() -> None:
    cards = load_cards()
    owners = {
        key: {other.name for other in cards if key in _keys(other)} for card in cards for key in _keys(card)
    }
    assert {key: names for key, names in owners.items() if len(names) > 1} == {}
    assert all(owners)
    assert len({card.name for card in cards}) == len(cards) >= 45


def test_every_card_has_sane_figures() -> None:
    for card in load_cards():
        assert isinstance(card.memory_bytes, int), card.name
        assert 4 * GIB <= card.memory_bytes <= 288 * GIB, card.name
        assert 30 * 10**9 <= card.bandwidth_bytes_per_second <= 8000 * 10**9, card.name
        assert card.vendor in {"NVIDIA", "AMD", "Intel"}, card.name
        assert bool(re.fullmatch(r"\d+\.\d", card.compute_capability)) == (card.vendor == "NVIDIA"), card.name
        assert card.architecture, card.name


def test_a_size_in_the_name_is_the_size_within_a_driver_s_share() -> None:
    for card in load_cards():
        size = re.search(r"(\d+)GB", card.name)
        if size:
            assert 0.9 * int(size[1]) * GIB <= card.memory_bytes <= int(size[1]) * GIB, card.name


def test_bandwidth_grows_with_the_generation_of_data_centre_cards() -> None:
    speeds = [
        find_card(name).bandwidth_bytes_per_second for name in ("V100", "A100 80GB", "H100", "H200", "B200")
    ]
    assert speeds == sorted(speeds)


def test_h100_sxm_and_h200_as_their_driver_reports_them() -> None:
    h100 = find_card("H100 SXM")
    assert (h100.memory_bytes, h100.bandwidth_bytes_per_second) == (81559 * 2**20, 3_352_000_000_000)
    assert (h100.architecture, h100.compute_capability) == ("Hopper", "9.0")
    h200 = find_card("H200")
    assert (h200.memory_bytes, h200.memory_source) == (143771 * 2**20, MemorySource.DRIVER)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("rtx 4090", "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("RTX4090", "GeForce RTX 4090"),
        ("4090 laptop", "GeForce RTX 4090 Laptop GPU"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("Tesla T4", "T4"),
        ("l4", "L4"),
        ("l40", "L40"),
        ("rtx a60", "RTX A6000"),
        ("mi300x", "Instinct MI300X"),
        ("a770", "Arc A770 16GB"),
    ],
)
def test_a_card_is_found_by_what_people_type(typed: str, name: str) -> None:
    assert find_card(typed).name == name


@pytest.mark.parametrize(
    ("typed", "named"), [("A100", "A100 PCIe 40GB"), ("RTX 4060 Ti", "GeForce RTX 4060 Ti 8GB")]
)
def test_a_name_with_two_sizes_is_refused_and_lists_them(typed: str, named: str) -> None:
    with pytest.raises(ScenarioError, match="cards begin so") as refusal:
        find_card(typed)
    assert named in refusal.value.remedy


def test_an_unknown_card_names_its_neighbours() -> None:
    with pytest.raises(ScenarioError, match="not in the catalogue") as refusal:
        find_card("RTX 4091")
    assert "GeForce RTX 4090" in refusal.value.remedy


@pytest.mark.parametrize("typed", ["", "   ", "NVIDIA", "!!"])
def test_a_name_that_says_nothing_is_refused(typed: str) -> None:
    with pytest.raises(ScenarioError, match="not in the catalogue"):
        find_card(typed)
