"""The folder for the files of a run: it goes with the run, and a killed run's with the next one."""

from pathlib import Path

from tests.files_in_memory import LOCK, PREFIX, folder


def test_what_a_killed_run_has_left_goes_and_what_another_uses_stays(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / LOCK).touch()
    (left / "large.db").touch()
    with folder(str(tmp_path)) as used:
        assert used is not None
        assert not left.exists()
        with folder(str(tmp_path)) as other:
            assert other != used
            assert Path(used).is_dir()
    assert list(tmp_path.iterdir()) == []
