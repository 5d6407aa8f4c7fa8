"""Records that several jobs share: the files they read about samples, and where they compute.

`munkey.experiment.run.dispatch` fills the fields of a record by name, as it fills the parameters of a job.
"""

from dataclasses import astuple, dataclass
from pathlib import Path


@dataclass(frozen=True)
class SampleFiles:
    """The files that a job reads about the samples of a data set.

    images: the pictures; the other files of the data set lie beside them. forget: the forget set; absent: what an
    audit's models never see. keyfile, neighbors: of a family with a memory. selected: the p_image and p_token that the
    selection chose.
    """

    images: Path
    forget: Path | None = None
    absent: Path | None = None
    keyfile: Path | None = None
    neighbors: Path | None = None
    selected: Path | None = None

    def there(self) -> list[Path]:
        """All that are named."""
        return [file for file in astuple(self) if file]


@dataclass(frozen=True)
class Surroundings:
    """Where a job computes, and its log.

    resident_share: how much of a GPU's free memory images may take; checkpoint_s: seconds between two checkpoints.
    """

    device: str
    resident_share: float = 0.5
    checkpoint_s: float = 60.0
    log: str = ""
