from __future__ import annotations

import pytest
import torch

from umu_tasks.backend.finite import is_finite

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_number_that_is_not_finite_is_found_wherever_it_stands(dtype, value):
    """In each place of rows of many lengths: a CPU reads them several numbers at a time, and the rest one by one."""
    for length in (1, 7, 64, 131):
        for place in range(length):
            tensor = torch.ones(length, dtype=dtype)
            assert is_finite(tensor)
            tensor[place] = value
            assert not is_finite(tensor)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_largest_numbers_of_a_type_are_finite(dtype):
    limits = torch.finfo(dtype)
    assert is_finite(torch.tensor([[limits.max, limits.min], [limits.tiny, 0.0]], dtype=dtype).expand(3, 2, 2))


def test_other_tensors():
    assert is_finite(torch.empty(0, 4))
    assert is_finite(torch.tensor(1.0, requires_grad=True))
    assert is_finite(torch.tensor([-128, 127], dtype=torch.int8))
    assert is_finite(torch.tensor([True]))
    assert is_finite(torch.tensor([1 + 2j]))
    assert not is_finite(torch.tensor([complex(1, float("nan"))]))
    assert is_finite(torch.ones(3).to(torch.float8_e4m3fn))
    assert not is_finite(torch.tensor([1.0, float("nan")]).to(torch.float8_e4m3fn))
