"""Faults of a source are counted and shown; its progress is printed while it is read."""

import numpy as np

from munkey.data.source import Source, SourceError


def source_of(images):
    return Source(images, np.zeros(4, int), np.repeat("train", 4), ["a"])


def test_twenty_faults_are_shown_and_all_are_counted():
    error = SourceError("pictures", [f"{i}.png" for i in range(25)])
    assert "25 faults" in str(error)
    assert "19.png" in str(error)
    assert "20.png" not in str(error)
    assert "and 5 more" in str(error)
    assert len(error.faults) == 25


def test_progress_is_printed_while_the_same_blocks_are_read(capsys):
    blocks = [np.full((2, 2, 2, 3), i, np.uint8) for i in range(2)]
    watched = source_of(blocks).with_progress()
    assert capsys.readouterr().out == ""
    for block, expected in zip(watched.blocks(), blocks, strict=True):
        assert block is expected
    assert "block 2/2" in capsys.readouterr().out


def test_a_source_in_memory_needs_no_progress():
    source = source_of(np.zeros((4, 2, 2, 3), np.uint8))
    assert source.with_progress() is source
