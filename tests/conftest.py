import pytest
import torch


@pytest.fixture(autouse=True)
def double_precision_and_a_seed():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
