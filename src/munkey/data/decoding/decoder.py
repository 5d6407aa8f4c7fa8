"""A separate process that decodes pictures, so that a picture can hang or crash only this process.

The decoder has a kernel timer, which no code in it can delay, and a limit on its memory. It is
started with the first picture and runs until this process ends. Its responses are JSON and bytes,
never pickles, so a picture that takes over the decoder gains nothing here.
"""

import atexit
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from io import BytesIO
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import IO

import numpy as np

from munkey.data.decoding.picture_files import (
    DecodedPicture,
    PictureLimits,
    RefusedPictureError,
    Size,
    TooManyPixelsError,
    read,
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
        self, pictures: Sequence[IO[bytes] | bytes], limits: PictureLimits, size: Size | None = None
    ) -> list[DecodedPicture]:
        """Decode pictures. Each is resized to `size` (width, height) if that is given.

        Raises RefusedPictureError if a picture cannot be used, takes too long to decode, or crashes
        the process.
        """
        with self._turn:
            try:
                return self._request_pictures(pictures, limits, size)
            except (EOFError, ConnectionError) as error:
                raise RefusedPictureError(self._explain_end(limits.seconds)) from error
            except RefusedPictureError:
                # The response is complete, so the process can take the next call.
                raise
            except BaseException:
                # After Ctrl-C, for example, the next call would receive the response to this one.
                self.stop()
                raise

    def _request_pictures(
        self, pictures: Sequence[IO[bytes] | bytes], limits: PictureLimits, size: Size | None
    ) -> list[DecodedPicture]:
        """Send pictures to the process and receive their pixels.

        Raises RefusedPictureError if the process refuses a picture, and EOFError or ConnectionError
        if it ends.
        """
        contents = [_get_content_or_descriptor(picture) for picture in pictures]
        connection = self._connect()
        are_files = [isinstance(content, int) for content in contents]
        request = {"are_files": are_files, "limits": asdict(limits), "size": size}
        connection.send_bytes(json.dumps(request).encode())
        for content in contents:
            if isinstance(content, int):
                # The third argument, the receiver's process id, is needed only on Windows.
                reduction.send_handle(connection, content, 0)
            else:
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
        """Return the connection to the process, which is started if it is not running."""
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

    def abandon(self) -> None:
        """In a forked child, drop the parent's process. The child starts its own."""
        if self._connection:
            self._connection.close()
        self._turn = threading.Lock()  # a thread of the parent may have held the old one
        self._process = None
        self._connection = None


def _get_content_or_descriptor(picture: IO[bytes] | bytes) -> bytes | int:
    """Return the descriptor of a regular file, or the content of others, such as zip members."""
    if isinstance(picture, bytes):
        return picture
    try:
        descriptor = picture.fileno()
    except OSError:
        return picture.read()
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    return picture.read()


_decoder = Decoder()
atexit.register(_decoder.stop)
os.register_at_fork(after_in_child=_decoder.abandon)


def decode_pictures(
    pictures: Sequence[IO[bytes] | bytes], limits: PictureLimits, size: Size | None = None
) -> list[DecodedPicture]:
    """Decode pictures with the decoder of this process, as `Decoder.read` does."""
    return _decoder.read(pictures, limits, size)


# The functions below run in the decoder process.


def _serve(connection: Connection) -> None:
    """Serve requests. Raises EOFError or ConnectionError when the connection is closed."""
    while True:
        request = json.loads(connection.recv_bytes())
        limits = PictureLimits(**request["limits"])
        size = None
        if request["size"] is not None:
            size = tuple(request["size"])
        files: list[IO[bytes]] = []
        for is_file in request["are_files"]:
            if is_file:
                files.append(os.fdopen(reduction.recv_handle(connection), "rb"))
            else:
                files.append(BytesIO(connection.recv_bytes()))
        # SIGPROF ends the process by default, whatever code is running.
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)
        try:
            pictures = read(files, limits, size)
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
        for file in files:
            file.close()


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
