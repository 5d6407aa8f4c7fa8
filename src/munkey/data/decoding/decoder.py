"""A process that decodes pictures from strangers for the service: they can hang or crash only it.

A kernel timer, which no code in the process can delay, and a limit bound its time and memory. It
runs from the first picture until this process ends. Responses are JSON and bytes, never pickles.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from io import BytesIO
from multiprocessing.connection import Connection

import numpy as np

from munkey.data.decoding.picture_files import (
    DecodedPicture,
    PictureLimits,
    RefusedPictureError,
    Size,
    TooManyPixelsError,
    read_pictures,
)

MAX_MEMORY = 8 * 2**30  # bytes of the process's address space
REFUSALS = {kind.__name__: kind for kind in (RefusedPictureError, TooManyPixelsError)}
# The process does no matrix multiplication, and idle BLAS threads would use up its memory.
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Decoder:
    """A client of the decoder process, which is restarted if it has ended.

    Several threads may use it; they take turns.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def read(
        self,
        contents: Sequence[bytes],
        limits: PictureLimits,
        seconds: float,
        size: Size | None = None,
    ) -> list[DecodedPicture]:
        """Decode picture files, as `read_pictures` does, within `seconds` of CPU time.

        Also raises RefusedPictureError for a picture that takes too long or crashes the process.
        """
        with self._turn:
            try:
                return self._request_pictures(contents, limits, seconds, size)
            except (EOFError, ConnectionError) as error:
                raise RefusedPictureError(self._explain_end(seconds)) from error
            except RefusedPictureError:
                # The response is complete, so the process can take the next call.
                raise
            except BaseException:
                # After Ctrl-C, for example, the next call would receive the response to this one.
                self.stop()
                raise

    def _request_pictures(
        self, contents: Sequence[bytes], limits: PictureLimits, seconds: float, size: Size | None
    ) -> list[DecodedPicture]:
        """Send files and receive pixels. Raises EOFError or ConnectionError if the process ends."""
        connection = self._connect()
        request = {
            "count": len(contents),
            "limits": asdict(limits),
            "seconds": seconds,
            "size": size,
        }
        connection.send_bytes(json.dumps(request).encode())
        for content in contents:
            connection.send_bytes(content)
        response = json.loads(connection.recv_bytes())
        if "refused" in response:
            raise REFUSALS[response["refused"]](response["why"], response["number"])
        decoded_pictures = []
        for shape, brightest in response["pictures"]:
            pixels = np.frombuffer(connection.recv_bytes(), np.uint8).reshape(shape)
            decoded_pictures.append(DecodedPicture(pixels, brightest))
        return decoded_pictures

    def _connect(self) -> Connection:
        """Return the connection to the process. Starts it if it is not running."""
        if (
            self._process is not None
            and self._connection is not None
            and self._process.poll() is None
        ):
            return self._connection
        self.stop()
        ours, theirs = socket.socketpair()
        with theirs:
            # The process must import the same packages as this one.
            path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "munkey.data.decoding.decoder", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | SINGLE_THREADED | path,
            )
        self._connection = Connection(ours.detach())
        return self._connection

    def _explain_end(self, seconds: float) -> str:
        """Reap the process after it ended during decoding, and explain why it ended."""
        assert self._process
        code = self._process.wait()
        self._connection = None
        self._process = None
        if code == -signal.SIGPROF:
            return f"was not decoded within {seconds:g} s of CPU time; save it in another format"
        return f"crashed the process that decodes pictures (exit code {code}): too little memory, or a bug in Pillow"

    def stop(self) -> None:
        """Kill the process. The next picture starts another one."""
        if self._connection:
            self._connection.close()
        if self._process:
            self._process.kill()
            self._process.wait()
        self._connection = None
        self._process = None


decoder = Decoder()
atexit.register(decoder.stop)


# The functions below run in the decoder process.


def _serve(connection: Connection) -> None:
    """Serve requests. Raises EOFError or ConnectionError when the connection is closed."""
    while True:
        request = json.loads(connection.recv_bytes())
        limits = PictureLimits(**request["limits"])
        size = None
        if request["size"] is not None:
            size = tuple(request["size"])
        files = [BytesIO(connection.recv_bytes()) for _ in range(request["count"])]
        # SIGPROF ends the process by default, whatever code is running.
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])
        try:
            pictures = read_pictures(files, limits, size)
        except RefusedPictureError as error:
            response = {"refused": type(error).__name__, "why": str(error), "number": error.number}
            pictures = []
        else:
            headers = [(picture.pixels.shape, picture.brightest) for picture in pictures]
            response = {"pictures": headers}
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send_bytes(json.dumps(response).encode())
        for picture in pictures:
            connection.send_bytes(np.ascontiguousarray(picture.pixels).data.cast("B"))


def main() -> None:
    """Serve the parent process, over the socket whose descriptor is the first argument."""
    import resource

    # Imported now, so that it does not count toward the first picture's time limit.
    from PIL import Image, ImageOps  # noqa: F401

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    if hard_limit != resource.RLIM_INFINITY:
        limit = min(MAX_MEMORY, hard_limit)
    else:
        limit = MAX_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard_limit))
    Image.init()  # loads the readers of all formats
    with suppress(EOFError, ConnectionError):  # raised when the parent has ended
        _serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
