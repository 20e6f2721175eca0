"""What a user's upgrade depends on: text in, value out, through public names only.

No test here imports more than `pastalang` and the modules of `pastalang.testing`, or starts more than the `pasta`
command (`tests/contracts/test_tests.py`). So nothing here has to change when a module moves.
"""
