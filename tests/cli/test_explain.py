"""`explain` and `list causes`."""


def test_explain_prints_the_page_with_public_cases(rmsaudit):
    ran = rmsaudit("explain", "eps-placement")
    assert ran.code == 0
    assert "How it shows:" in ran.out
    assert "https://github.com/allenai/OLMo/issues/281" in ran.out


def test_explain_takes_a_variable(rmsaudit):
    assert rmsaudit("explain", "compute_dtype").out.startswith("statistic-dtype\n")


def test_a_miss_gets_the_nearest_name(rmsaudit):
    ran = rmsaudit("explain", "eps-placment")
    assert ran.code == 2
    assert "did you mean eps-placement?" in ran.err


def test_a_far_miss_gets_the_list(rmsaudit):
    assert "rmsaudit list causes" in rmsaudit("explain", "zzz").err


def test_list_causes_has_a_line_each(rmsaudit):
    lines = rmsaudit("list", "causes").out.splitlines()
    assert any(line.startswith("eps-placement ") for line in lines)
    assert any(line.startswith("belief-broken ") for line in lines)
