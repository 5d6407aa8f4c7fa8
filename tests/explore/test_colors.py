"""The classes on the map in dark mode, as color-blind readers see them."""

import re

import numpy as np

from munkey.explore.page import ASSETS

# Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB
VISION = {
    "all colors": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)  # of sRGB, D65
WHITE = TO_XYZ.sum(axis=1)


def linear_rgb(colors: list[str]) -> np.ndarray:
    """Colors `#rrggbb` as linear RGB, a line each."""
    channels = []
    for color in colors:
        channels.append([int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    values = np.array(channels)
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB of linear RGB."""
    relative = rgb @ TO_XYZ.T / WHITE
    compressed = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    x, y, z = compressed.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def test_no_two_classes_look_alike_in_dark_mode() -> None:
    script = (ASSETS / "page.js").read_text()
    palette = re.search(r"const LIGHTER = \[(.*)\];", script)
    assert palette is not None
    rgb = linear_rgb(re.findall(r"#[0-9a-f]{6}", palette[1]))
    first, second = np.triu_indices(len(rgb), k=1)
    assert len(first) == 45
    for kind, matrix in VISION.items():
        colors = lab(np.clip(rgb @ np.transpose(matrix), 0, 1))
        nearest = np.linalg.norm(colors[first] - colors[second], axis=1).min()
        print(kind, round(float(nearest), 1))
        assert nearest > 20, kind
