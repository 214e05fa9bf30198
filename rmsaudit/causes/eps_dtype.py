"""eps is rounded to a narrow dtype before it is used.

float16 holds 1e-6 as 1.0133e-06 and 1e-8 as 0; bfloat16 holds 1e-5 as 1.0014e-05. An exporter that writes the
constant in the model's own dtype changes it, or loses it.

How it shows: as another eps value, a little off a round number (or 0: rows of zeros give NaN).

What to check: the dtype of the stored constant.
"""

VARIABLES = ("eps_dtype",)
NEXT_STEP = "Look at the dtype in which the eps constant is stored, and keep it in float32 or wider."
