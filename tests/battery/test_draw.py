import hashlib
import struct

import numpy as np
import pytest

from rmsaudit.battery import common_format
from rmsaudit.battery._draw import Draw, powers_of_two, spread

BFLOAT16, FLOAT32, FLOAT64 = (common_format(word, word) for word in ("bfloat16", "float32", "float64"))


def raw_integers(key, count):
    """PCG64 from its paper: a 128-bit linear congruential step, then the high half xor the low one, rotated."""
    digest = hashlib.sha256(key.encode()).digest()
    state = int.from_bytes(digest[:16], "little")
    increment = int.from_bytes(digest[16:], "little") | 1
    for _ in range(count):
        state = (state * 0x2360ED051FC65DA44385DF649FCCF645 + increment) % 2**128
        folded, turn = (state >> 64) ^ (state % 2**64), state >> 122
        yield ((folded >> turn) | (folded << (64 - turn))) % 2**64


def parts(key, count, bits):
    """Signed little-endian integers of `bits` bits, as Python reads them."""
    words = list(raw_integers(key, -(-count * bits // 64)))
    letter = {16: "h", 32: "i", 64: "q"}[bits]
    return struct.unpack(f"<{len(words) * 64 // bits}{letter}", struct.pack(f"<{len(words)}Q", *words))[:count]


def test_raw_integers_are_those_of_pcg64_started_at_the_key():
    assert Draw("0/ordinary/lines", FLOAT32).raw(9).tolist() == list(raw_integers("0/ordinary/lines", 9))


@pytest.mark.parametrize(("fmt", "bits"), [(BFLOAT16, 16), (FLOAT32, 32), (FLOAT64, 64)])
def test_bell_is_the_sum_of_four_integers_scaled(fmt, bits):
    drawn = Draw("key", fmt).bell(3, 5)
    quarter = [part >> 2 for part in parts("key", 60, bits)]
    totals = [sum(quarter[index::15]) for index in range(15)]
    # Python's int / int rounds once; so does numpy's conversion to the draft dtype, after which the scaling is exact
    by_hand = np.array([total / 2 ** (bits - 3) for total in totals]).astype(fmt.draft)
    np.testing.assert_array_equal(drawn.ravel(), by_hand)
    assert drawn.dtype == fmt.draft


def test_binade_is_a_fraction_moved_away_from_zero():
    drawn = Draw("key", BFLOAT16).binade(2, 7)
    by_hand = [part / 2**15 + (1 if part >= 0 else -1) for part in parts("key", 14, 16)]
    np.testing.assert_array_equal(drawn.ravel(), np.array(by_hand, dtype=np.float32))


@pytest.mark.parametrize("fmt", [BFLOAT16, FLOAT32, FLOAT64])
def test_scales_are_as_said(fmt):
    draw = Draw("scales", fmt)
    bell, binade = draw.bell(40000).astype(np.float64), draw.binade(40000).astype(np.float64)
    assert np.abs(bell).max() <= 4
    # 40000 independent squares: their mean has a standard error below 0.6 %; 3 % is five of those
    assert np.mean(bell**2) == pytest.approx(4 / 3, rel=0.03)
    assert np.mean(binade**2) == pytest.approx(7 / 3, rel=0.03)
    assert np.abs(binade).min() >= 1
    assert np.abs(binade).max() <= 2
    assert set(np.sign(binade)) == {-1.0, 1.0}


@pytest.mark.parametrize(("fmt", "bits"), [(FLOAT32, 24), (FLOAT64, 53)])
def test_values_have_every_bit_of_the_format(fmt, bits):
    mantissa, _ = np.frexp(Draw("bits", fmt).bell(2000).astype(np.float64))
    last_bit = np.ldexp(mantissa, bits).astype(np.int64) % 2
    assert 0.4 < last_bit.mean() < 0.6  # 2000 fair bits stay within 0.5 ± 0.06 (5 standard errors)


def test_integers_reach_both_ends_and_below_stays_below():
    draw = Draw("whole", FLOAT32)
    assert set(draw.integers(2, 500).tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert set(draw.below(3, 200).tolist()) == {0, 1, 2}


def test_another_key_draws_other_values_and_the_same_key_the_same():
    first, again, other = (Draw(key, FLOAT32).bell(64) for key in ("0/a/x", "0/a/x", "1/a/x"))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_powers_of_two_are_exact_down_to_the_smallest_subnormal():
    assert powers_of_two([-149, -1, 0, 127], FLOAT32).tolist() == [2.0**-149, 0.5, 1.0, 2.0**127]
    assert powers_of_two([-1074, 1023], FLOAT64).tolist() == [2.0**-1074, 2.0**1023]


def test_spread_includes_both_ends():
    assert spread(-6, 6, 5).tolist() == [-6, -3, 0, 3, 6]
    assert spread(4, -149, 3).tolist() == [4, -73, -149]
    assert spread(0, 10, 1).tolist() == [5]
    assert spread(0, 1, 4).tolist() == [0, 0, 0, 1]
