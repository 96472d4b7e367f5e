"""The program of a worker process: it reads orders from its input and answers with new states.

A message is a line of JSON and a list of arrays in the safetensors format; nothing is unpickled.
The file is executed by itself, so that a worker imports NumPy and JAX and nothing else.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import IO, Any

import numpy as np
from safetensors.numpy import load, save


def write_message(stream: IO[bytes], order: dict[str, Any], arrays: list[Any]) -> None:
    """Write an order and a list of arrays."""
    head = json.dumps(order).encode()
    # safetensors needs contiguous arrays and no empty names: number them.
    body = save({str(i): np.asarray(array, order="C") for i, array in enumerate(arrays)})
    stream.write(struct.pack("<QQ", len(head), len(body)) + head + body)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], list[Any]]:
    """Read what `write_message` wrote; the end of the stream is an EOFError."""
    head_size, body_size = struct.unpack("<QQ", _exactly(stream, 16))
    order = json.loads(_exactly(stream, head_size))
    arrays = load(_exactly(stream, body_size))
    return order, [arrays[str(i)] for i in range(len(arrays))]


def _exactly(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content


def serve(orders: IO[bytes], answers: IO[bytes]) -> None:
    """Work until the orders end."""
    import jax
    import jax.export

    advance: Any = None
    data: Any = None
    while True:
        try:
            order, arrays = read_message(orders)
        except EOFError:
            return
        answer: list[Any] = []
        if order["do"] == "program":
            jax.config.update("jax_enable_x64", order["x64"])  # type: ignore[no-untyped-call]
            exported = jax.export.deserialize(bytearray(arrays[0].tobytes()))
            advance = jax.jit(exported.call)
        elif order["do"] == "data":
            data = jax.device_put(arrays)
        else:
            start, steps = np.int32(order["start"]), np.int32(order["steps"])
            answer = [np.asarray(a) for a in advance(arrays, data, start, steps)]
        write_message(answers, {}, answer)


if __name__ == "__main__":
    # Whatever a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)
