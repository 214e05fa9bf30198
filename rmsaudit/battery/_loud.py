"""How quiet the rest of a row must be for one loud element to hold nearly all the energy."""

LOUD = 6  # exponent of the loud element: its square fits every format but float8_e4m3fn


def quiet_exponent(size: int) -> int:
    """The exponent at which `size` bell-shaped values together have less than 1/48 of the energy of one at LOUD."""
    return LOUD - (6 + size.bit_length() + 1) // 2
