"""Makes the images in ``images/`` that MXNet and hybridc decode: small, of every kind that the decoders tell apart.

Run it where Pillow is installed, then ``make_images.py`` where MXNet is::

    .venv/bin/python tests/golden/make_image_files.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

FOLDER = Path(__file__).with_name("images")
ROTATED = 6  # EXIF's orientation of a camera that was held upright: turn clockwise by 90 degrees
_ORIENTATION = 0x0112  # EXIF's tag


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Smooth colours with some edges and noise: as JPEG expects pictures to be."""
    rng = np.random.RandomState(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / (3 + c) + seed) * np.cos(y / (4 - c)) for c in range(3)]
    image = 127 + 90 * np.stack(waves, -1) + rng.normal(0, 4, (height, width, 3))
    image[height // 3 : height // 2, width // 4 : width // 2] = (220, 30, 60)
    return np.clip(image, 0, 255).astype(np.uint8)


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(exist_ok=True)
    rgb = Image.fromarray(picture(23, 37))
    gray = rgb.convert("L")
    alpha = rgb.copy()
    alpha.putalpha(Image.fromarray(picture(23, 37, 1)[..., 0]))
    rgb.save(FOLDER / "colour.jpg", quality=90)
    rgb.save(FOLDER / "colour444.jpg", quality=95, subsampling=0)
    rgb.save(FOLDER / "progressive.jpg", quality=80, progressive=True)
    gray.save(FOLDER / "gray.jpg", quality=90)
    rgb.convert("CMYK").save(FOLDER / "cmyk.jpg", quality=95)
    exif = Image.Exif()
    exif[_ORIENTATION] = ROTATED
    rgb.save(FOLDER / "rotated.jpg", quality=90, exif=exif)
    rgb.save(FOLDER / "colour.png")
    gray.save(FOLDER / "gray.png")
    alpha.save(FOLDER / "alpha.png")
    alpha.convert("LA").save(FOLDER / "gray_alpha.png")
    rgb.quantize(16).save(FOLDER / "palette.png")
    gray.point(lambda v: 255 * (v > 127)).convert("1").save(FOLDER / "bits.png")
    deep = picture(23, 37, 2)[..., 0].astype(np.uint16) * 257 - 100 * (picture(23, 37, 3)[..., 0] > 127)
    Image.fromarray(deep.astype(np.uint16)).save(FOLDER / "deep.png")
    rgb.save(FOLDER / "colour.bmp")
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.stat().st_size:6} {path.name}")


if __name__ == "__main__":
    main()
