#!/usr/bin/env python3
"""Writes rows.safetensors: what the probes steer and patch read when ng-conform checks them.

v: [16], a vector to add. layer0.out.0: [9, 16], rows of another run.
"""
import json
import pathlib
import struct

tensors = {
    "layer0.out.0": ([9, 16], [((31 * i) % 17 - 8) / 8 for i in range(9 * 16)]),
    "v": ([16], [((5 * i) % 7 - 3) / 16 for i in range(16)]),
}
header = {}
data = b""
for name, (shape, values) in tensors.items():
    begin = len(data)
    data += struct.pack(f"<{len(values)}f", *values)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
path = pathlib.Path(__file__).parent / "rows.safetensors"
path.write_bytes(struct.pack("<Q", len(text)) + text + data)
