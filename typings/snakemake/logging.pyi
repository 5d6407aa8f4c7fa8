"""What this project uses of snakemake.logging."""

from logging import StreamHandler
from typing import TextIO

class ColorizingTextHandler(StreamHandler[TextIO]):
    def __init__(self, nocolor: bool = ..., stream: TextIO = ...) -> None: ...
