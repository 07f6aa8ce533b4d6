"""What the trial of hostile functions (`python -m tests.hostile.run`) counts as a fault."""

from tests.hostile.unraisable import collecting_unraisable


def test_an_unexpected_error_of_a_finaliser_is_a_fault() -> None:
    class Careless:
        def __del__(self) -> None:
            raise ValueError("not expected")

    with collecting_unraisable() as unraised:
        Careless()

    assert [fault.partition(" in ")[0] for fault in unraised.faults] == ["unraisable ValueError: not expected"]
    assert not unraised.expected
